#version 460
#extension GL_GOOGLE_include_directive : require
// Softmax rows of the last valid query, every head over all keys (for inspection; see score_max).
// One workgroup a KV head and range of keys.
#include "include/common.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
#include "include/nan.glsl"
#include "include/reduce.glsl"
#include "include/qk_tile.glsl"
#include "include/probabilities.glsl"

layout(push_constant, scalar) uniform Push {
    InU64x2 q;     // [tokens, heads, dim] float32
    InU64x2 k;     // [kv_heads, context, dim]
    InF32 stats;   // [heads, splits, 2]
    OutF32 y;      // [heads, context]
    InStep step_params;
    uint heads;
    uint context;
    uint span;
    uint splits;
    float scale;
};

void main() {
    uint tokens = step_params.tokens, keys = min(step_params.past + tokens, context);
    uint start = gl_WorkGroupID.x * span, base = gl_WorkGroupID.y * context, head = gl_WorkGroupID.y * ROWS;
    if (tokens == 0 || start >= keys) return;
    join_stats(stats, head, splits, (keys + span - 1) / span);
    [[unroll]] for (uint i = 0; i < BANDS; i++) q_at[i] = ((tokens - 1) * heads + head + lane_row(i)) * QUADS;
    stage_queries(q);
    uint end = min(keys, start + span);
    [[dont_unroll]] for (uint from = start; from < end; from += TILE) {
        uint k_at[WIDTH];
        [[unroll]] for (uint j = 0; j < WIDTH; j++)
            k_at[j] = (base + min(from + lane_key(j), end - 1)) * QUADS;
        qk_tile(q, k, k_at);
        EACH_ROW(r) [[unroll]] for (uint j = 0; j < WIDTH; j++)
            if (from + lane_key(j) < end)
                y.v[(head + r) * context + from + lane_key(j)] = probability(r, j, scale);
    }
}

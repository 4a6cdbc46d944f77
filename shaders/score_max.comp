#version 460
#extension GL_GOOGLE_include_directive : require
// row[key] = the largest weighted probability of any head, for the last valid query; joined with what the row holds
// from earlier layers unless FIRST. One workgroup a range of keys, over all heads, so nothing of size
// heads x keys is ever stored. A NaN stays a NaN.
#include "include/common.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
#include "include/nan.glsl"
#include "include/reduce.glsl"
#include "include/qk_tile.glsl"
#include "include/probabilities.glsl"
layout(constant_id = 5) const uint FIRST = 0;

layout(push_constant, scalar) uniform Push {
    InU64x2 q;     // [tokens, heads, dim] float32
    InU64x2 k;     // [kv_heads, context, dim]
    InF32 stats;   // [heads, splits, 2]
    InF32 weights; // [heads]: 1 for heads that count, 0 for the others
    InOutF32 row;  // [context]
    InStep step_params;
    uint heads;
    uint kv_heads;
    uint context;
    uint span;
    uint splits;
    float scale;
};

void main() {
    uint tokens = step_params.tokens, keys = min(step_params.past + tokens, context);
    uint start = gl_WorkGroupID.x * span, end = min(min(step_params.prompt, context), start + span);
    if (tokens == 0 || start >= end) return;
    [[dont_unroll]] for (uint g = 0; g < kv_heads; g++) {
        join_stats(stats, g * ROWS, splits, (keys + span - 1) / span);
        EACH_ROW(r) inverse[r] *= weights.v[g * ROWS + r];
        [[unroll]] for (uint i = 0; i < BANDS; i++)
            q_at[i] = ((tokens - 1) * heads + g * ROWS + lane_row(i)) * QUADS;
        stage_queries(q);
        [[dont_unroll]] for (uint from = start; from < end; from += TILE) {
            uint k_at[WIDTH];
            [[unroll]] for (uint j = 0; j < WIDTH; j++)
                k_at[j] = (g * context + min(from + lane_key(j), keys - 1)) * QUADS;
            qk_tile(q, k, k_at);
            float most[WIDTH] = {0.0, 0.0, 0.0, 0.0};
            EACH_ROW(r)
                [[unroll]] for (uint j = 0; j < WIDTH; j++)
                    most[j] = max_nan(most[j], probability(r, j, scale));
            [[unroll]] for (uint j = 0; j < WIDTH; j++) {
                uint key = from + lane_key(j);  // always this lane's: no other touches row[key]
                if (key >= end) continue;
                float p = key < keys ? most[j] : 0.0;  // a prompt longer than what has been read
                row.v[key] = FIRST != 0 && g == 0 ? p : max_nan(row.v[key], p);
            }
        }
    }
}

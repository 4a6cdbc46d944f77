#version 460
#extension GL_GOOGLE_include_directive : require
// First pass of a score row: for each query head and range of keys, the maximum of the last valid query's
// scores and the sum of exp(score - maximum). One workgroup a KV head and range; each key is read once.
#include "include/common.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
#include "include/nan.glsl"
#include "include/reduce.glsl"
#include "include/qk_tile.glsl"

layout(push_constant, scalar) uniform Push {
    InU64x2 q;        // [tokens, heads, dim] float32
    InU64x2 k;        // [kv_heads, context, dim]
    OutF32 stats;     // [heads, splits, 2]
    InStep step_params;
    uint heads;
    uint context;
    uint span;        // keys a range
    uint splits;
    float scale;
};

float top[ROWS];   // of the keys that this lane has seen
float part[ROWS];

void add_row(uint r, uint from, uint end) {
    float now = top[r], score[WIDTH];
    if (from + lane_key(0) >= end) return;  // a lane's first key is its lowest
    [[unroll]] for (uint j = 0; j < WIDTH; j++) {
        score[j] = s[r * WIDTH + j] * scale;
        if (from + lane_key(j) < end) now = max(now, score[j]);
    }
    float sum = part[r] * exp_nan(top[r] - now);
    [[unroll]] for (uint j = 0; j < WIDTH; j++)
        sum += from + lane_key(j) < end ? exp_nan(score[j] - now) : 0.0;
    part[r] = sum;
    top[r] = now;
}

void main() {
    uint tokens = step_params.tokens, end = min(step_params.past + tokens, context);
    uint start = gl_WorkGroupID.x * span, base = gl_WorkGroupID.y * context;
    if (tokens == 0 || start >= end) return;
    end = min(end, start + span);
    EACH_ROW(r) {
        top[r] = -INFINITY;
        part[r] = 0.0;
    }
    [[unroll]] for (uint i = 0; i < BANDS; i++)
        q_at[i] = ((tokens - 1) * heads + gl_WorkGroupID.y * ROWS + lane_row(i)) * QUADS;
    stage_queries(q);
    [[dont_unroll]] for (uint from = start; from < end; from += TILE) {
        uint k_at[WIDTH];
        [[unroll]] for (uint j = 0; j < WIDTH; j++)
            k_at[j] = (base + min(from + lane_key(j), end - 1)) * QUADS;
        qk_tile(q, k, k_at);
        EACH_ROW(r) add_row(r, from, end);
    }
    EACH_ROW(r) {
        float most = workgroup_largest(top[r]);
        float sum = workgroup_total(part[r] * exp_nan(top[r] - most));
        uint at = ((gl_WorkGroupID.y * ROWS + r) * splits + gl_WorkGroupID.x) * 2;
        if (gl_LocalInvocationID.x == 0) {
            stats.v[at] = most;
            stats.v[at + 1] = sum;
        }
    }
}

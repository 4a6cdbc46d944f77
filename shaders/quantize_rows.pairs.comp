#version 460
#extension GL_GOOGLE_include_directive : require
// Activations for products of integers: levels -127 to 127 with a scale for each 32 of a row, two rows to a
// word. A lane writes 32 elements of a pair of rows.
#include "include/common.glsl"
#include "include/quads.glsl"
#include "include/pairs.glsl"
#include "include/round.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    InF32 x;       // [tokens, k]
    OutU64 packed; // see include/pairs.glsl
    InStep step_params;
    uint k;
};

void main() {
    uint pair = gl_WorkGroupID.y * 8 + (gl_LocalInvocationID.x & 7u), tokens = step_params.tokens;
    uint run = gl_WorkGroupID.x * (gl_WorkGroupSize.x / 8) + gl_LocalInvocationID.x / 8;
    if (2 * pair >= ((tokens + GROUP_ROWS - 1) & ~(GROUP_ROWS - 1)) || run >= k / RUN) return;
    // Rows past the end repeat the last one: they are multiplied, but not stored.
    int low[RUN], high[RUN];
    uint64_t start = uint64_t(x) + 4 * RUN * run, stride = 4 * k;
    float low_scale = round_run(start + min(2 * pair, tokens - 1) * stride, low);
    float high_scale = round_run(start + min(2 * pair + 1, tokens - 1) * stride, high);
    uint64_t at = uint64_t(packed) + (uint64_t(gl_WorkGroupID.y) * (k / RUN) + run) * RUN_TEXELS * 16;
    [[unroll]] for (int i = 0; i < RUN; i += 8) {
        uvec4 w;
        [[unroll]] for (int t = 0; t < 4; t++) {
            int e = i + 2 * t;
            ivec4 levels = ivec4(low[e], low[e + 1], high[e], high[e + 1]) + 128;
            w[t] = uint(levels.x | (levels.y << 8) | (levels.z << 16) | (levels.w << 24));
        }
        OutU64x2(at + 16 * i + 16 * (pair & 7u)).v[0] = u64vec2(pack64(w.xy), pack64(w.zw));
    }
    OutU64(at + SCALES_AT * 16 + 8 * (pair & 7u)).v[0] = pack_f32x2(vec2(low_scale, high_scale));
}

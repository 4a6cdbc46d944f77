#version 460
#extension GL_GOOGLE_include_directive : require
// Rows of x rounded to 255 levels with a scale for each 32 elements, which a thread makes; for matmul.dot.
#include "include/common.glsl"
#include "include/quads.glsl"
#include "include/dot_rows.glsl"
#include "include/round.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    InF32 x;        // [tokens, k]
    OutU64 packed;  // [tokens] rows (include/dot_rows.glsl)
    InStep step_params;
    uint k;
};

void main() {
    uint row = gl_WorkGroupID.y, run = gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (row >= step_params.tokens || run >= k / RUN) return;
    int level[RUN];
    float scale = round_run(uint64_t(x) + 4 * (uint64_t(row) * uint64_t(k) + RUN * run), level);
    uvec2 levels[4] = uvec2[4](uvec2(0), uvec2(0), uvec2(0), uvec2(0));
    ivec2 sums = ivec2(0);
    [[unroll]] for (uint i = 0; i < RUN; i++) {
        levels[i >> 3][(i >> 2) & 1u] |= uint(level[i] & 0xff) << (8u * (i & 3u));
        sums[i >> 4] += level[i];
    }
    uint64_t row_at = uint64_t(packed) + dot_row_at(row, k);
    [[unroll]] for (uint i = 0; i < 4; i++) OutU64(row_at + RUN * run).v[i] = pack64(levels[i]);
    OutU64(row_at + k).v[run] = pack64(pack_head(scale, sums));
}

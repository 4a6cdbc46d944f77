#version 460
#extension GL_GOOGLE_include_directive : require
// One row of activations for matvec.pairs: the levels of elements 4e + 2 and 4e in a word, those of 4e + 3
// and 4e + 1 in the next. A lane writes 32 elements: 16 words, then the scale and the scaled sum of each half.
#include "include/common.glsl"
#include "include/quads.glsl"
#include "include/pairs.glsl"
#include "include/round.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    InF32 x;         // [k]
    OutU64x2 packed; // [k / 32][5]
    uint k;
};

void main() {
    uint run = gl_GlobalInvocationID.x;
    if (run >= k / RUN) return;
    int level[RUN], sum[2] = {0, 0};
    float scale = round_run(uint64_t(x) + 4 * RUN * run, level);
    [[unroll]] for (int e = 0; e < RUN / 8; e++) {
        uvec4 w;
        [[unroll]] for (int t = 0; t < 4; t++) {
            int at = 8 * e + 4 * (t >> 1) + (t & 1);
            w[t] = uint(level[at + 2] + (level[at] << 16));
            sum[e >> 1] += level[at] + level[at + 2];
        }
        packed.v[VECTOR_TEXELS * run + e] = u64vec2(pack64(w.xy), pack64(w.zw));
    }
    vec4 tail = vec4(scale, scale * float(sum[0]), scale * float(sum[1]), 0.0);
    packed.v[VECTOR_TEXELS * run + 4] = pack_quad(tail);
}

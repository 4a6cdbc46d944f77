#version 460
#extension GL_GOOGLE_include_directive : require
// y (+)= W x for one x: LANES lanes share a row of w, each taking every LANES-th chunk; shuffles add them up.
#include "include/common.glsl"
#include "include/weight.glsl"
layout(local_size_x = 256, local_size_x_id = 0) in;
layout(constant_id = 1) const uint LANES = 8;  // a power of two, at most the subgroup's size
layout(constant_id = 2) const uint ACCUMULATE = 0;

layout(push_constant, scalar) uniform Push {
    InF32 x;     // [k]
    InU64 w;     // [n, k] blocks
    InOutF32 y;  // [first + n]
    uint k;
    uint n;
    uint row_bytes;
    uint first;  // element of y that row 0 of w goes to
    uint fold;   // workgroups on the x axis
};

void main() {
    uint group = gl_WorkGroupID.y * fold + gl_WorkGroupID.x, lane = gl_LocalInvocationID.x % LANES;
    uint row = (group * gl_WorkGroupSize.x + gl_LocalInvocationID.x) / LANES;
    uint64_t row_at = row_address(w, min(row, n - 1), row_bytes);  // every lane stays for the shuffles
    float acc = 0.0;
    for (uint e = lane * CHUNK; e < k; e += LANES * CHUNK) {
        Chunk chunk = chunk_at(row_at, e);
        [[unroll]] for (int h = 0; h < CHUNK / 8; h++) {
            float v[8], u[8];
            weights8(chunk, h, v);
            u64vec4 words = InU64x4(uint64_t(x) + 4 * (e + 8 * h)).v[0];
            [[unroll]] for (int t = 0; t < 4; t++) {
                vec2 pair = unpack_f32x2(words[t]);
                u[2 * t] = pair.x;
                u[2 * t + 1] = pair.y;
            }
            acc += ((v[0] * u[0] + v[1] * u[1]) + (v[2] * u[2] + v[3] * u[3]))
                   + ((v[4] * u[4] + v[5] * u[5]) + (v[6] * u[6] + v[7] * u[7]));
        }
    }
    [[unroll]] for (uint step = 1; step < LANES; step <<= 1) acc += subgroupShuffleXor(acc, step);
    if (lane == 0 && row < n) y.v[first + row] = ACCUMULATE != 0 ? y.v[first + row] + acc : acc;
}

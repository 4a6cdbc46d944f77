#version 460
#extension GL_GOOGLE_include_directive : require
// What a device can do at best, timed beside the kernels: multiply-adds in registers, or a read of all of x.
#include "include/common.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
layout(constant_id = 1) const uint READ = 0;
// Ten chains hide an addition's latency and fit in 16 registers: on lavapipe 12 spill, and 8 wait.
// A driver that masks lanes pays by the loop, hence 32 rounds between two checks.
const int CHAINS = 10, ROUNDS = 32;

layout(push_constant, scalar) uniform Push {
    InU64 x;   // READ: [workgroups, n, lanes] of 32 bytes
    OutU32 y;  // [workgroups, lanes]
    uint n;    // READ: loads a lane, else multiply-adds a chain
    float factor;
    float term;
};

uint multiply_add() {
    float acc[CHAINS];
    [[unroll]] for (int c = 0; c < CHAINS; c++) acc[c] = float(gl_GlobalInvocationID.x + c);
    for (uint i = 0; i < n; i += ROUNDS)
        [[unroll]] for (int repeat = 0; repeat < ROUNDS; repeat++)
            [[unroll]] for (int c = 0; c < CHAINS; c++) acc[c] = acc[c] * factor + term;
    float sum = 0.0;
    [[unroll]] for (int c = 0; c < CHAINS; c++) sum += acc[c];
    return floatBitsToUint(sum);
}

uint read() {
    u64vec4 acc = u64vec4(0);
    InU64x4 words = InU64x4(uint64_t(x));
    uint at = gl_WorkGroupID.x * n * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    for (uint i = 0; i < n; i++, at += gl_WorkGroupSize.x) acc ^= words.v[at];
    uvec2 both = unpack32(acc.x ^ acc.y ^ acc.z ^ acc.w);
    return both.x ^ both.y;
}

void main() {
    y.v[gl_GlobalInvocationID.x] = READ != 0 ? read() : multiply_add();
}

#version 460
#extension GL_GOOGLE_include_directive : require
// y (+)= W x for one x: a lane owns WIDE rows of w, LOCAL apart; x is spread over the lanes by broadcasts.
// Quants are multiplied before they are scaled: scale * sum(q x) + offset * sum(x), for each 16 or 8.
#include "include/common.glsl"
#include "include/weight.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
layout(constant_id = 1) const uint WIDE = 4;  // rows a lane
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
    uint row0 = (gl_WorkGroupID.y * fold + gl_WorkGroupID.x) * gl_WorkGroupSize.x * WIDE + gl_LocalInvocationID.x;
    uint64_t at[WIDE];
    [[unroll]] for (int j = 0; j < WIDE; j++)
        at[j] = row_address(w, min(row0 + j * gl_WorkGroupSize.x, n - 1), row_bytes);
    // Each lane of eight reads an eighth of the chunk's part of x.
    uint64_t x_at = uint64_t(x) + (gl_SubgroupInvocationID & 7u) * (CHUNK / 2);
    float acc[WIDE];
    [[unroll]] for (int j = 0; j < WIDE; j++) acc[j] = 0.0;

    for (uint b = 0; b < k / BLOCK; b++) {
        Block block[WIDE];
        [[unroll]] for (int j = 0; j < WIDE; j++) block[j] = open_block(at[j]);
        CHUNK_LOOP for (uint c = 0; c < BLOCK / CHUNK; c++) {
            Chunk chunk[WIDE];
            [[unroll]] for (int j = 0; j < WIDE; j++) chunk[j] = open_chunk(block[j], at[j], c);
            float own[CHUNK / 8];
            [[unroll]] for (int t = 0; t < CHUNK / 8; t++) own[t] = InF32(x_at).v[t];
            x_at += 4 * CHUNK;
            [[unroll]] for (int h = 0; h < CHUNK / 8; h++) {
                float u[8];
                [[unroll]] for (int t = 0; t < 8; t++) {
                    uint e = 8 * h + t;
                    u[t] = subgroupBroadcast(own[e % (CHUNK / 8)], e / (CHUNK / 8));
                }
                float sum = ((u[0] + u[1]) + (u[2] + u[3])) + ((u[4] + u[5]) + (u[6] + u[7]));
                [[unroll]] for (int j = 0; j < WIDE; j++) {
                    float q[8];
                    quants8(chunk[j], h, q);
                    vec2 s = scale8(chunk[j], h);
                    float dots = ((q[0] * u[0] + q[1] * u[1]) + (q[2] * u[2] + q[3] * u[3]))
                                 + ((q[4] * u[4] + q[5] * u[5]) + (q[6] * u[6] + q[7] * u[7]));
                    acc[j] += s.x * dots + s.y * sum;
                }
            }
        }
        [[unroll]] for (int j = 0; j < WIDE; j++) at[j] += BLOCK_BYTES;
    }
    [[unroll]] for (int j = 0; j < WIDE; j++) {
        uint row = row0 + j * gl_WorkGroupSize.x;
        if (row < n) y.v[first + row] = ACCUMULATE != 0 ? y.v[first + row] + acc[j] : acc[j];
    }
}

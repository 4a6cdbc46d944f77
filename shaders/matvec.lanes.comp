#version 460
#extension GL_GOOGLE_include_directive : require
// y (+)= W x for one x: a lane owns WIDE rows of w, LOCAL apart; x is spread over the lanes by shuffles.
// Quants are multiplied before they are scaled: scale * sum(q x) + offset * sum(x), for each 16 or 8.
#include "include/common.glsl"
layout(set = 0, binding = 0) uniform usamplerBuffer w;  // [n, k] blocks
layout(set = 0, binding = 1) uniform usamplerBuffer x;  // [k] float32
#define WEIGHT_TEXELS
#include "include/weight.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
layout(constant_id = 1) const uint WIDE = 4;  // rows a lane
layout(constant_id = 2) const uint ACCUMULATE = 0;

layout(push_constant, scalar) uniform Push {
    InOutF32 y;  // [first + n]
    uint k;
    uint n;
    uint row_bytes;
    uint first;  // element of y that row 0 of w goes to
    uint fold;   // workgroups on the x axis
};

// acc += chunk . x. Shuffles, not broadcasts: Mesa 22 looks for the first active lane in a loop to broadcast.
void add_chunk(Chunk chunk[WIDE], uint x_at, inout float acc[WIDE]) {
    // Of 32 elements, each of eight lanes reads four; of 8, every lane reads all.
#if CHUNK == 32
    vec4 own = uintBitsToFloat(texelFetch(x, int(x_at + (gl_SubgroupInvocationID & 7u))));
#else
    vec4 all[2] = {uintBitsToFloat(texelFetch(x, int(x_at))), uintBitsToFloat(texelFetch(x, int(x_at + 1)))};
#endif
    [[unroll]] for (int h = 0; h < CHUNK / 8; h++) {
        float v[8];
        [[unroll]] for (int t = 0; t < 8; t++) {
#if CHUNK == 32
            v[t] = subgroupShuffle(own[t & 3], 2 * h + (t >> 2));
#else
            v[t] = all[t >> 2][t & 3];
#endif
        }
        float sum = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
        [[unroll]] for (int j = 0; j < WIDE; j++) {
            float q[8];
            quants8(chunk[j], h, q);
            vec2 s = scale8(chunk[j], h);
            float dots = ((q[0] * v[0] + q[1] * v[1]) + (q[2] * v[2] + q[3] * v[3]))
                         + ((q[4] * v[4] + q[5] * v[5]) + (q[6] * v[6] + q[7] * v[7]));
            acc[j] += s.x * dots + s.y * sum;
        }
    }
}

void main() {
    uint group = gl_WorkGroupID.y * fold + gl_WorkGroupID.x;
    uint row0 = group * gl_WorkGroupSize.x * WIDE + gl_LocalInvocationID.x;
    uint at[WIDE], x_at = 0;  // bytes, texels
    [[unroll]] for (int j = 0; j < WIDE; j++)
        at[j] = row_address(min(row0 + j * gl_WorkGroupSize.x, n - 1), row_bytes);
    float acc[WIDE], total[WIDE], lost[WIDE];
    [[unroll]] for (int j = 0; j < WIDE; j++) acc[j] = total[j] = lost[j] = 0.0;

    for (uint b = 0; b < k / BLOCK; b++) {
        Block block[WIDE];
        [[unroll]] for (int j = 0; j < WIDE; j++) block[j] = open_block(at[j]);
        UNIT_LOOP for (uint u = 0; u < BLOCK / UNIT; u++) {
            Unit unit[WIDE];
            [[unroll]] for (int j = 0; j < WIDE; j++) unit[j] = open_unit(block[j], at[j], u);
            CHUNK_LOOP for (uint c = 0; c < UNIT / CHUNK; c++) {
                Chunk chunk[WIDE];
                [[unroll]] for (int j = 0; j < WIDE; j++)
                    chunk[j] = open_chunk(block[j], unit[j], u * (UNIT / CHUNK) + c);
                add_chunk(chunk, x_at, acc);
                x_at += CHUNK / 4;
            }
            if (END_OF_SUM(b * (BLOCK / UNIT) + u))
                [[unroll]] for (int j = 0; j < WIDE; j++) add_exactly(total[j], lost[j], acc[j]);
        }
        [[unroll]] for (int j = 0; j < WIDE; j++) at[j] += BLOCK_BYTES;
    }
    [[unroll]] for (int j = 0; j < WIDE; j++) {
        uint row = row0 + j * gl_WorkGroupSize.x;
        float sum = total[j] + (lost[j] + acc[j]);
        if (row < n) y.v[first + row] = ACCUMULATE != 0 ? y.v[first + row] + sum : sum;
    }
}

#version 460
#extension GL_GOOGLE_include_directive : require
// y (+)= W x for one rounded x: as matvec.lanes, but a 32-bit multiplication makes two products, whose sum
// is in the upper half: (q0 + q1 2^16) (x1 + x0 2^16) = q0 x1 + (q0 x0 + q1 x1) 2^16 modulo 2^32.
#include "include/common.glsl"
layout(set = 0, binding = 0) uniform usamplerBuffer w;       // [n, k] blocks
layout(set = 0, binding = 1) uniform usamplerBuffer packed;  // [k / 32] of VECTOR_TEXELS, see include/pack_rows.glsl
#define WEIGHT_TEXELS
#include "include/weight.glsl"
#include "include/pairs.glsl"
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

// acc += chunk . x
void add_chunk(Chunk chunk[WIDE], uint x_at, inout float acc[WIDE]) {
    uvec4 own = texelFetch(packed, int(x_at + (gl_SubgroupInvocationID & 3u)));  // lane i: words 4 i to 4 i + 3
    vec3 tail = uintBitsToFloat(texelFetch(packed, int(x_at + 4)).xyz);
    int sum[WIDE];
    float scaled[WIDE];
    [[unroll]] for (int j = 0; j < WIDE; j++) sum[j] = 0, scaled[j] = 0.0;
    [[unroll]] for (int h = 0; h < 4; h++) {
        int v[4];
        [[unroll]] for (int t = 0; t < 4; t++) v[t] = int(subgroupShuffle(own[t], h));
        [[unroll]] for (int j = 0; j < WIDE; j++) {
            int q[4];
            halves8(chunk[j], h, q);
            sum[j] += (v[0] * q[0] + v[1] * q[1]) + (v[2] * q[2] + v[3] * q[3]);
            if ((8 * h + 8) % min(Q_SPAN, SCALE_RUN) == 0) {  // before the sum outgrows 16 bits
                scaled[j] += chunk[j].s[h / 2].x * float(high_of(sum[j]));
                sum[j] = 0;
            }
        }
    }
    [[unroll]] for (int j = 0; j < WIDE; j++)
        acc[j] += scaled[j] * tail.x + (chunk[j].s[0].y * tail.y + chunk[j].s[1].y * tail.z);
}

void main() {
    uint group = gl_WorkGroupID.y * fold + gl_WorkGroupID.x;
    uint row0 = group * gl_WorkGroupSize.x * WIDE + gl_LocalInvocationID.x;
    uint at[WIDE], x_at = 0;  // bytes, texels
    [[unroll]] for (int j = 0; j < WIDE; j++)
        at[j] = row_address(min(row0 + j * gl_WorkGroupSize.x, n - 1), row_bytes);
    float acc[WIDE];
    [[unroll]] for (int j = 0; j < WIDE; j++) acc[j] = 0.0;

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
                [[unroll]] for (int j = 0; j < WIDE; j++) centre_offsets(chunk[j]);
                add_chunk(chunk, x_at, acc);
                x_at += VECTOR_TEXELS;
            }
        }
        [[unroll]] for (int j = 0; j < WIDE; j++) at[j] += BLOCK_BYTES;
    }
    [[unroll]] for (int j = 0; j < WIDE; j++) {
        uint row = row0 + j * gl_WorkGroupSize.x;
        if (row < n) y.v[first + row] = ACCUMULATE != 0 ? y.v[first + row] + acc[j] : acc[j];
    }
}

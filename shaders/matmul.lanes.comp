#version 460
#extension GL_GOOGLE_include_directive : require
// y (+)= x W^T: register tiles of ROWS rows by LOCAL * WIDE columns. A lane owns columns; it reads their
// weights and its share of x, which is spread by shuffles. One subgroup a workgroup suits software drivers.
#include "include/common.glsl"
layout(set = 0, binding = 0) uniform usamplerBuffer w;  // [n, k] blocks
layout(set = 0, binding = 1) uniform usamplerBuffer x;  // [tokens, k] float32
#define WEIGHT_TEXELS
#include "include/weight.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 16;  // 1 to 8, or a multiple of 8
layout(constant_id = 2) const uint WIDE = 4;   // columns a lane
layout(constant_id = 3) const uint ACCUMULATE = 0;
const uint GROUPS = (ROWS + 7) / 8;            // of rows that one load by 8 lanes covers

layout(push_constant, scalar) uniform Push {
    InOutF32 y;   // [tokens, stride]
    InStep step_params;
    uint k;
    uint n;
    uint row_bytes;
    uint stride;  // of y, floats
    uint first;   // column of y that row 0 of w goes to
};

// Eight elements of k: ROWS x WIDE sums of eight products each. Shuffles, not broadcasts: to broadcast,
// Mesa 22 searches for the first active lane in a loop.
void step8(Chunk chunk[WIDE], uint h, uint x_at[GROUPS], uint offset, inout float acc[ROWS][WIDE]) {
    float v[WIDE][8];
    [[unroll]] for (int j = 0; j < WIDE; j++) weights8(chunk[j], h, v[j]);
    [[unroll]] for (int i = 0; i < GROUPS; i++) {
        u64vec4 own = u64vec4(texel(x, x_at[i] + offset), texel(x, x_at[i] + offset + 1));
        [[unroll]] for (int p = 0; p < min(ROWS, 8); p++) {
            vec2 s[4];
            [[unroll]] for (int t = 0; t < 4; t++) s[t] = subgroupShuffle(unpack_f32x2(own[t]), p);
            [[unroll]] for (int j = 0; j < WIDE; j++)
                acc[8 * i + p][j] += ((s[0].x * v[j][0] + s[0].y * v[j][1])
                                      + (s[1].x * v[j][2] + s[1].y * v[j][3]))
                                     + ((s[2].x * v[j][4] + s[2].y * v[j][5])
                                        + (s[3].x * v[j][6] + s[3].y * v[j][7]));
        }
    }
}

void main() {
    uint row0 = gl_WorkGroupID.y * ROWS, tokens = step_params.tokens;
    if (row0 >= tokens) return;
    uint lane = gl_SubgroupInvocationID & 7u;
    uint column0 = gl_WorkGroupID.x * gl_WorkGroupSize.x * WIDE + gl_LocalInvocationID.x;
    // Rows and columns past the end are computed from the last valid one and not stored: no branches inside.
    uint w_at[WIDE], x_at[GROUPS];  // bytes, texels
    [[unroll]] for (int j = 0; j < WIDE; j++)
        w_at[j] = row_address(min(column0 + j * gl_WorkGroupSize.x, n - 1), row_bytes);
    [[unroll]] for (int i = 0; i < GROUPS; i++)
        x_at[i] = min(row0 + 8 * i + lane, tokens - 1) * (k / 4);
    float acc[ROWS][WIDE], total[ROWS][WIDE], lost[ROWS][WIDE];
    [[unroll]] for (int r = 0; r < ROWS; r++)
        [[unroll]] for (int j = 0; j < WIDE; j++) acc[r][j] = total[r][j] = lost[r][j] = 0.0;

    for (uint b = 0; b < k / BLOCK; b++) {
        Block block[WIDE];
        [[unroll]] for (int j = 0; j < WIDE; j++) block[j] = open_block(w_at[j]);
        UNIT_LOOP for (uint u = 0; u < BLOCK / UNIT; u++) {
            Unit unit[WIDE];
            [[unroll]] for (int j = 0; j < WIDE; j++) unit[j] = open_unit(block[j], w_at[j], u);
            CHUNK_LOOP for (uint c = 0; c < UNIT / CHUNK; c++) {
                Chunk chunk[WIDE];
                [[unroll]] for (int j = 0; j < WIDE; j++)
                    chunk[j] = open_chunk(block[j], unit[j], u * (UNIT / CHUNK) + c);
                STEP_LOOP for (uint h = 0; h < CHUNK / 8; h++)
                    step8(chunk, h, x_at, (b * BLOCK + u * UNIT + c * CHUNK + h * 8) / 4, acc);
            }
            if (END_OF_SUM(b * (BLOCK / UNIT) + u))
                [[unroll]] for (int r = 0; r < ROWS; r++) [[unroll]] for (int j = 0; j < WIDE; j++)
                    add_exactly(total[r][j], lost[r][j], acc[r][j]);
        }
        [[unroll]] for (int j = 0; j < WIDE; j++) w_at[j] += BLOCK_BYTES;
    }
    [[unroll]] for (int r = 0; r < ROWS; r++) [[unroll]] for (int j = 0; j < WIDE; j++) {
        uint column = column0 + j * gl_WorkGroupSize.x;
        if (row0 + r < tokens && column < n) {
            uint at = (row0 + r) * stride + first + column;
            float sum = total[r][j] + (lost[r][j] + acc[r][j]);
            y.v[at] = ACCUMULATE != 0 ? y.v[at] + sum : sum;
        }
    }
}

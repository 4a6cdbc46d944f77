#version 460
#extension GL_GOOGLE_include_directive : require
// y (+)= x W^T of rounded activations: tiles as in matmul.lanes, but a lane reads pairs of rows, and a 32-bit
// multiplication makes the products of both.
#include "include/common.glsl"
layout(set = 0, binding = 0) uniform usamplerBuffer w;       // [n, k] blocks
layout(set = 0, binding = 1) uniform usamplerBuffer packed;  // see include/pairs.glsl
#define WEIGHT_TEXELS
#include "include/weight.glsl"
#include "include/pairs.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 16;  // 2, 4, 8 or 16
layout(constant_id = 2) const uint WIDE = 4;   // columns a lane
layout(constant_id = 3) const uint ACCUMULATE = 0;
const uint PAIRS = ROWS / 2;

layout(push_constant, scalar) uniform Push {
    InOutF32 y;   // [tokens, stride]
    InStep step_params;
    uint k;
    uint n;
    uint row_bytes;
    uint stride;  // of y, floats
    uint first;   // column of y that row 0 of w goes to
};

// Sums of the products of levels, and of the levels of the lane's own pair.
struct Sums {
    int dots[PAIRS][WIDE];
    int levels;
};

void clear(out Sums sums) {
    sums.levels = 0;
    [[unroll]] for (int p = 0; p < PAIRS; p++) [[unroll]] for (int j = 0; j < WIDE; j++) sums.dots[p][j] = 0;
}

// Eight elements of k: as many products for each pair and column.
void step8(Chunk chunk[WIDE], uint h, uint x_at, inout Sums sums) {
    int q[WIDE][8], own[8];
    [[unroll]] for (int j = 0; j < WIDE; j++) levels8(chunk[j], h, q[j]);
    unpack_pairs(texel(packed, x_at + 8 * h), own);
    sums.levels += ((own[0] + own[1]) + (own[2] + own[3])) + ((own[4] + own[5]) + (own[6] + own[7]));
    [[unroll]] for (int p = 0; p < PAIRS; p++) {
        int a[8];
        [[unroll]] for (int t = 0; t < 8; t++) a[t] = subgroupShuffle(own[t], p);
        [[unroll]] for (int j = 0; j < WIDE; j++)
            [[unroll]] for (int t = 0; t < 8; t++) sums.dots[p][j] += a[t] * q[j][t];
    }
}

// acc += (scale * dot + offset * sum of levels) * scale of the row; s has scale and offset of each column,
// d the scales of the lane's own pair.
void add_scaled(Sums sums, vec2 s[WIDE], vec2 d, inout float acc[ROWS][WIDE]) {
    vec2 own = vec2(low_of(sums.levels), high_of(sums.levels)) * d;
    [[unroll]] for (int p = 0; p < PAIRS; p++) {
        vec2 x_sum = subgroupShuffle(own, p), x_scale = subgroupShuffle(d, p);
        [[unroll]] for (int j = 0; j < WIDE; j++) {
            int dot = sums.dots[p][j];
            vec2 scaled = vec2(low_of(dot), high_of(dot)) * s[j].x * x_scale + x_sum * s[j].y;
            acc[2 * p][j] += scaled.x;
            acc[2 * p + 1][j] += scaled.y;
        }
    }
}

// All 32 elements of a chunk. x_at is where the levels of the lane's own pair begin.
void add_chunk(Chunk chunk[WIDE], uint x_at, vec2 d, inout float acc[ROWS][WIDE]) {
    [[unroll]] for (int j = 0; j < WIDE; j++) centre_offsets(chunk[j]);
    const uint steps = min(Q_SPAN, SCALE_RUN) / 8;  // whose sums fit 16 bits and share a scale
    Sums sums;
    vec2 s[WIDE];
#if Q_SPAN == 32 && SCALE_RUN == 32
    clear(sums);
    STEP_LOOP for (uint h = 0; h < steps; h++) step8(chunk, h, x_at, sums);
    [[unroll]] for (int j = 0; j < WIDE; j++) s[j] = chunk[j].s[0];
    add_scaled(sums, s, d, acc);
#else
    STEP_LOOP for (uint part = 0; part < 4 / steps; part++) {
        clear(sums);
        [[unroll]] for (uint h = 0; h < steps; h++) step8(chunk, part * steps + h, x_at, sums);
        [[unroll]] for (int j = 0; j < WIDE; j++) s[j] = scale8(chunk[j], part * steps);
        add_scaled(sums, s, d, acc);
    }
#endif
}

void main() {
    uint row0 = gl_WorkGroupID.y * ROWS, tokens = step_params.tokens;
    if (row0 >= tokens) return;
    uint pair = ((row0 % GROUP_ROWS) / 2 + gl_SubgroupInvocationID) & 7u;  // lane p reads pair p of the tile
    uint column0 = gl_WorkGroupID.x * gl_WorkGroupSize.x * WIDE + gl_LocalInvocationID.x;
    // Rows and columns past the end are computed from the last valid one and not stored: no branches inside.
    uint w_at[WIDE], x_at = row0 / GROUP_ROWS * (k / RUN) * RUN_TEXELS;  // bytes, texels
    [[unroll]] for (int j = 0; j < WIDE; j++)
        w_at[j] = row_address(min(column0 + j * gl_WorkGroupSize.x, n - 1), row_bytes);
    float acc[ROWS][WIDE];
    [[unroll]] for (int r = 0; r < ROWS; r++) [[unroll]] for (int j = 0; j < WIDE; j++) acc[r][j] = 0.0;

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
                u64vec2 scales = texel(packed, x_at + SCALES_AT + pair / 2);
                add_chunk(chunk, x_at + pair, unpack_f32x2((pair & 1u) == 0u ? scales.x : scales.y), acc);
                x_at += RUN_TEXELS;
            }
        }
        [[unroll]] for (int j = 0; j < WIDE; j++) w_at[j] += BLOCK_BYTES;
    }
    [[unroll]] for (int r = 0; r < ROWS; r++) [[unroll]] for (int j = 0; j < WIDE; j++) {
        uint column = column0 + j * gl_WorkGroupSize.x;
        if (row0 + r < tokens && column < n) {
            uint at = (row0 + r) * stride + first + column;
            y.v[at] = ACCUMULATE != 0 ? y.v[at] + acc[r][j] : acc[r][j];
        }
    }
}

#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
// y (+)= x W^T on packed integer dot products: a workgroup makes 64 rows by 128 columns, 64 elements of k at
// a time go through shared memory as bytes, a thread keeps 4 x 8 sums. They are integers as far as a scale of w
// reaches, then scale_x * (scale_w * sum(q_w q_x) + offset_w * sum(q_x)).
#include "include/common.glsl"
#include "include/weight.glsl"
#include "include/dot_rows.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint ACCUMULATE = 0;

layout(push_constant, scalar) uniform Push {
    InU64x2 packed;  // [tokens] rows of k (include/dot_rows.glsl)
    InU64 w;         // [n, k] blocks
    InOutF32 y;      // [tokens, stride]
    InStep step_params;
    uint k;
    uint n;
    uint row_bytes;
    uint stride;     // of y, floats
    uint first;      // column of y that row 0 of w goes to
};

// OpSDot of four signed bytes in a word (PackedVectorFormat4x8Bit).
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int packed_dot(uint a, uint b, spirv_literal int format);

#ifndef SCALE_RUN
#define SCALE_RUN 32  // elements of a row of w that share a scale
#endif
const uint ROWS = 64, COLUMNS = 128, DEPTH = 64, RUNS = DEPTH / SCALE_RUN;
shared uvec4 x_tile[DEPTH / 4][ROWS / 4 + 1];  // [k / 4][row]; one uvec4 more against bank conflicts
shared uvec4 w_tile[DEPTH / 4][COLUMNS / 4 + 1];
shared vec2 x_head[RUNS][ROWS];     // scale, scale * sum of levels
shared vec2 w_head[RUNS][COLUMNS];  // scale, offset

// 32 weights of one row of w; zeros past the end of k.
void load_weights(uint64_t row_at, uint column, uint part, uint k0) {
    bool inside = k0 + part < k;
    Chunk chunk;
    if (inside) chunk = chunk_at(row_at, k0 + part);
    [[unroll]] for (uint i = 0; i < 8; i++)
        w_tile[part / 4 + i][column >> 2][column & 3u] = inside ? bytes4(chunk.q[i >> 1][i & 1u]) : 0;
    [[unroll]] for (uint i = 0; i < 32 / SCALE_RUN; i++)
        w_head[part / SCALE_RUN + i][column] = inside ? chunk.s[i] : vec2(0.0);
}

// 16 levels of one row of x, and every second thread a head; zeros past the end of k.
void load_x(uint64_t row_at, uint row, uint part, uint k0) {
    bool inside = k0 + part < k;
    u64vec2 words = inside ? InU64x2(row_at + k0 + part).v[0] : u64vec2(0);
    [[unroll]] for (uint i = 0; i < 4; i++)
        x_tile[part / 4 + i][row >> 2][row & 3u] = unpack32(words[i >> 1])[i & 1u];
    uvec2 head = inside ? unpack32(InU64(row_at + k).v[(k0 + part) / RUN]) : uvec2(0);
    float scale = head_scale(head);
    vec2 sums = vec2(head_sums(head));
#if SCALE_RUN == 16
    x_head[part / 16][row] = vec2(scale, scale * ((part & 16u) == 0u ? sums.x : sums.y));
#else
    if ((part & 16u) == 0u) x_head[part / RUN][row] = vec2(scale, scale * (sums.x + sums.y));
#endif
}

void main() {
    uint row0 = gl_WorkGroupID.y * ROWS, column0 = gl_WorkGroupID.x * COLUMNS, tokens = step_params.tokens;
    if (row0 >= tokens) return;
    uint id = gl_LocalInvocationID.x;
    // Rows and columns past the end are read from the last valid one and not stored.
    uint64_t w_at = row_address(w, min(column0 + (id & 127u), n - 1), row_bytes);
    uint64_t x_at = uint64_t(packed) + dot_row_at(min(row0 + (id >> 2), tokens - 1), k);
    uint tile_x = id & 15u, tile_w = id >> 4;  // 16 x 16 threads, each with 4 rows and 2 x 4 columns
    vec4 total[4][2];
    [[unroll]] for (int r = 0; r < 4; r++) total[r][0] = total[r][1] = vec4(0.0);

    for (uint k0 = 0; k0 < k; k0 += DEPTH) {
        load_weights(w_at, id & 127u, 32 * (id >> 7), k0);
        load_x(x_at, id >> 2, 16 * (id & 3u), k0);
        barrier();
        [[dont_unroll]] for (uint run = 0; run < RUNS; run++) {
            ivec4 acc[4][2];
            [[unroll]] for (int r = 0; r < 4; r++) acc[r][0] = acc[r][1] = ivec4(0);
            [[unroll]] for (uint i = 0; i < SCALE_RUN / 4; i++) {
                uint e = run * (SCALE_RUN / 4) + i;
                uvec4 a = x_tile[e][tile_x], b = w_tile[e][tile_w], c = w_tile[e][tile_w + 16];
                [[unroll]] for (int r = 0; r < 4; r++) [[unroll]] for (int t = 0; t < 4; t++) {
                    acc[r][0][t] += packed_dot(a[r], b[t], 0);
                    acc[r][1][t] += packed_dot(a[r], c[t], 0);
                }
            }
            [[unroll]] for (int r = 0; r < 4; r++) {
                vec2 x_of = x_head[run][4 * tile_x + r];
                [[unroll]] for (int j = 0; j < 8; j++) {
                    vec2 w_of = w_head[run][64 * (j >> 2) + 4 * tile_w + (j & 3)];
                    total[r][j >> 2][j & 3] += float(acc[r][j >> 2][j & 3]) * w_of.x * x_of.x;
                    total[r][j >> 2][j & 3] += w_of.y * x_of.y;
                }
            }
        }
        barrier();
    }
    for (int r = 0; r < 4; r++) for (int j = 0; j < 8; j++) {
        uint row = row0 + 4 * tile_x + r, column = column0 + 64 * (j >> 2) + 4 * tile_w + (j & 3);
        if (row < tokens && column < n) {
            uint at = row * stride + first + column;
            float sum = total[r][j >> 2][j & 3];
            y.v[at] = ACCUMULATE != 0 ? y.v[at] + sum : sum;
        }
    }
}

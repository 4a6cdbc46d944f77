#version 460
#extension GL_GOOGLE_include_directive : require
// y (+)= x W^T for GPUs: a workgroup makes 64 rows by 128 columns; 32 elements of k at a time go through
// shared memory (half of the threads dequantise weights, the other half read x), a thread keeps 4 x 8 sums.
#include "include/common.glsl"
#include "include/weight.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint ACCUMULATE = 0;

layout(push_constant, scalar) uniform Push {
    InF32 x;      // [tokens, k]
    InU64 w;      // [n, k] blocks
    InOutF32 y;   // [tokens, stride]
    InStep step_params;
    uint k;
    uint n;
    uint row_bytes;
    uint stride;  // of y, floats
    uint first;   // column of y that row 0 of w goes to
};

const uint ROWS = 64, COLUMNS = 128, DEPTH = 32;
shared vec4 x_tile[DEPTH][ROWS / 4 + 1];  // [k][row]; one vec4 more against bank conflicts
shared vec4 w_tile[DEPTH][COLUMNS / 4 + 1];

// Weights k0 to k0 + 31 of one row of w to a column of w_tile; zeros past the end of k.
void load_weights(uint64_t row_at, uint column, uint k0) {
    for (uint part = 0; part < DEPTH; part += CHUNK) {
        uint e = k0 + part;
        bool inside = e < k;
        Chunk chunk;
        if (inside) chunk = chunk_at(row_at, e);
        for (uint h = 0; h < CHUNK / 8; h++) {
            float v[8];
            if (inside) weights8(chunk, h, v);
            [[unroll]] for (uint t = 0; t < 8; t++)
                w_tile[part + 8 * h + t][column >> 2][column & 3u] = inside ? v[t] : 0.0;
        }
    }
}

// 16 values of one row of x to x_tile; zeros past the end of k.
void load_x(uint64_t row_at, uint row, uint part, uint k0) {
    [[unroll]] for (uint q = 0; q < 2; q++) {
        uint e = part + 8 * q;
        u64vec4 words = u64vec4(0);
        if (k0 + e < k) words = InU64x4(row_at + 4 * (k0 + e)).v[0];
        [[unroll]] for (uint t = 0; t < 4; t++) {
            vec2 pair = unpack_f32x2(words[t]);
            x_tile[e + 2 * t][row >> 2][row & 3u] = pair.x;
            x_tile[e + 2 * t + 1][row >> 2][row & 3u] = pair.y;
        }
    }
}

void main() {
    uint row0 = gl_WorkGroupID.y * ROWS, column0 = gl_WorkGroupID.x * COLUMNS, tokens = step_params.tokens;
    if (row0 >= tokens) return;
    uint id = gl_LocalInvocationID.x, half_id = id & 127u;
    // Rows and columns past the end are read from the last valid one and not stored.
    uint64_t w_at = row_address(w, min(column0 + half_id, n - 1), row_bytes);
    uint64_t x_at = uint64_t(x) + uint64_t(min(row0 + (half_id >> 1), tokens - 1)) * uint64_t(4 * k);
    uint tile_x = id & 15u, tile_w = id >> 4;  // 16 x 16 threads, each with 4 rows and 2 x 4 columns
    vec4 acc[4][2], total[4][2];
    [[unroll]] for (int r = 0; r < 4; r++) acc[r][0] = acc[r][1] = total[r][0] = total[r][1] = vec4(0.0);

    for (uint k0 = 0; k0 < k; k0 += DEPTH) {
        if (id < 128) load_weights(w_at, half_id, k0);
        else load_x(x_at, half_id >> 1, 16 * (half_id & 1u), k0);
        barrier();
        for (uint e = 0; e < DEPTH; e++) {
            vec4 a = x_tile[e][tile_x], b = w_tile[e][tile_w], c = w_tile[e][tile_w + 16];
            [[unroll]] for (int r = 0; r < 4; r++) {
                acc[r][0] += a[r] * b;
                acc[r][1] += a[r] * c;
            }
        }
        barrier();
        if ((k0 + DEPTH) % 64 == 0)  // two short chains round less than one long one
            [[unroll]] for (int r = 0; r < 4; r++) [[unroll]] for (int i = 0; i < 2; i++) {
                total[r][i] += acc[r][i];
                acc[r][i] = vec4(0.0);
            }
    }
    for (int r = 0; r < 4; r++) for (int j = 0; j < 8; j++) {
        uint row = row0 + 4 * tile_x + r, column = column0 + 64 * (j >> 2) + 4 * tile_w + (j & 3);
        if (row < tokens && column < n) {
            uint at = row * stride + first + column;
            float sum = total[r][j >> 2][j & 3] + acc[r][j >> 2][j & 3];
            y.v[at] = ACCUMULATE != 0 ? y.v[at] + sum : sum;
        }
    }
}

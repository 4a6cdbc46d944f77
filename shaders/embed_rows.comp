#version 460
#extension GL_GOOGLE_include_directive : require
// y[i, :] = row tokens[i] of w, dequantised; one workgroup a row, lanes across chunks.
#include "include/common.glsl"
#include "include/weight.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    InU32 tokens;  // [rows] row numbers of the whole matrix
    InU64 w;       // [n, k] blocks: rows first to first + n - 1 of it
    OutF32 y;      // [rows, k]
    InStep step_params;
    uint k;
    uint n;
    uint row_bytes;
    uint first;
};

void main() {
    uint row = gl_WorkGroupID.x;
    if (row >= step_params.tokens) return;
    uint token = tokens.v[row] - first;  // below `first` it wraps to a large number
    if (token >= n) return;
    uint64_t row_at = row_address(w, token, row_bytes);
    for (uint e = gl_LocalInvocationID.x * CHUNK; e < k; e += gl_WorkGroupSize.x * CHUNK) {
        Chunk chunk = chunk_at(row_at, e);
        STEP_LOOP for (uint h = 0; h < CHUNK / 8; h++) {
            float v[8];
            weights8(chunk, h, v);
            [[unroll]] for (int t = 0; t < 8; t++) y.v[row * k + e + 8 * h + t] = v[t];
        }
    }
}

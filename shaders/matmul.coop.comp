#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
// y (+)= x W^T on cooperative matrices: a workgroup makes ROWS by 128 columns, a subgroup WAVE_ROWS by
// WAVE_COLUMNS of them. 32 elements of k at a time go through shared memory as float16; the next 32 are read
// to registers before a multiplication and stored to the other half of shared memory after it.
#include "include/common.glsl"
#include "include/weight.glsl"
#include "include/half_rows.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint ACCUMULATE = 0;
layout(constant_id = 1) const uint SUBGROUP = 32;
layout(constant_id = 2) const uint M = 16;  // the device's matrices: M x K by K x N
layout(constant_id = 3) const uint N = 16;
layout(constant_id = 4) const uint K = 16;
layout(constant_id = 5) const uint ROWS = 128;      // of a workgroup: 32, 64 or 128
layout(constant_id = 6) const uint WAVE_ROWS = 64;  // of a subgroup
layout(constant_id = 7) const uint WAVE_COLUMNS = 64;

layout(push_constant, scalar) uniform Push {
    InU64x2 packed;  // [tokens] rows of k (include/half_rows.glsl)
    InU64 w;         // [n, k] blocks
    InOutF32 y;      // [tokens, stride]
    InStep step_params;
    uint k;
    uint n;
    uint row_bytes;
    uint stride;     // of y, floats
    uint first;      // column of y that row 0 of w goes to
};

const uint COLUMNS = 128, DEPTH = 32;
const uint PITCH = DEPTH / 8 + 1;  // of a row in shared memory, in 16 bytes; one more against bank conflicts
shared uvec4 x_tile[2 * ROWS * PITCH];
shared uvec4 w_tile[2 * COLUMNS * PITCH];
shared float scales[ROWS];

const uint DOWN = WAVE_ROWS / M, RIGHT = WAVE_COLUMNS / N, EACH = M * N / SUBGROUP;
#define Sums coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>
Sums sums[DOWN * RIGHT];

struct Next {  // what the next step multiplies, as read
    Block block;
    Unit unit;
    u64vec2 x[4];  // ROWS / 32 of them
};

// A thread reads 32 elements of a row of w, and 8 of each of ROWS / 32 rows of x.
Next fetch(uint64_t w_at, uint row0, uint k0) {
    Next next;
    uint64_t at = w_at + uint64_t(k0 / BLOCK) * BLOCK_BYTES;
    next.block = open_block(at);
    next.unit = open_unit(next.block, at, (k0 % BLOCK) / UNIT);
    uint id = gl_LocalInvocationID.x;
    [[unroll]] for (uint i = 0; i < ROWS / 32; i++) {
        uint row = min(row0 + 32 * i + id / 4, step_params.tokens - 1);
        next.x[i] = InU64x2(uint64_t(packed) + half_row_at(row, k) + 2 * k0 + 16 * (id & 3u)).v[0];
    }
    return next;
}

void stage(Next next, uint part, uint k0) {
    uint id = gl_LocalInvocationID.x, at = (part * COLUMNS + id) * PITCH;
    Chunk chunk = open_chunk(next.block, next.unit, (k0 % BLOCK) / CHUNK);
    [[unroll]] for (uint h = 0; h < 4; h++) {
        float v[8];
        weights8(chunk, h, v);
        w_tile[at + h] = uvec4(pack_half(v[0], v[1]), pack_half(v[2], v[3]),
                               pack_half(v[4], v[5]), pack_half(v[6], v[7]));
    }
    at = (part * ROWS + id / 4) * PITCH + (id & 3u);
    [[unroll]] for (uint i = 0; i < ROWS / 32; i++)
        x_tile[at + 32 * i * PITCH] = uvec4(unpack32(next.x[i].x), unpack32(next.x[i].y));
}

// Multiply what is staged in one half of shared memory.
void multiply(uint part, uint wave_row, uint wave_column) {
    [[unroll]] for (uint e = 0; e < DEPTH; e += K) {
        coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> b[RIGHT];
        [[unroll]] for (uint j = 0; j < RIGHT; j++)
            coopMatLoad(b[j], w_tile, (part * COLUMNS + wave_column + N * j) * PITCH + e / 8, PITCH,
                        gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint i = 0; i < DOWN; i++) {
            coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> a;
            coopMatLoad(a, x_tile, (part * ROWS + wave_row + M * i) * PITCH + e / 8, PITCH,
                        gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint j = 0; j < RIGHT; j++)
                sums[i * RIGHT + j] = coopMatMulAdd(a, b[j], sums[i * RIGHT + j]);
        }
    }
}

// A matrix of sums through the subgroup's own part of x_tile to the rows and columns of y that exist.
void store(Sums matrix, uint row0, uint top, uint left) {
    uint own = gl_SubgroupID * (M * N / 4), tokens = step_params.tokens;
    coopMatStore(matrix, x_tile, own, N / 4, gl_CooperativeMatrixLayoutRowMajor);
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    float old[EACH];  // all of them are read before one is stored; past the end, any that is there
    [[unroll]] for (uint s = 0; s < EACH; s++) {
        uint e = s * SUBGROUP + gl_SubgroupInvocationID;
        uint row = min(row0 + top + e / N, tokens - 1), column = min(left + e % N, n - 1);
        old[s] = ACCUMULATE != 0 ? y.v[row * stride + first + column] : 0.0;
    }
    [[unroll]] for (uint s = 0; s < EACH; s++) {
        uint e = s * SUBGROUP + gl_SubgroupInvocationID, row = top + e / N, column = left + e % N;
        float sum = uintBitsToFloat(x_tile[own + e / 4][e & 3u]) * scales[row];
        if (row0 + row < tokens && column < n)
            y.v[(row0 + row) * stride + first + column] = ACCUMULATE != 0 ? old[s] + sum : sum;
    }
    subgroupBarrier();
}

void main() {
    uint row0 = gl_WorkGroupID.y * ROWS, column0 = gl_WorkGroupID.x * COLUMNS, tokens = step_params.tokens;
    if (row0 >= tokens) return;
    uint id = gl_LocalInvocationID.x, across = COLUMNS / WAVE_COLUMNS;
    uint wave_row = gl_SubgroupID / across * WAVE_ROWS, wave_column = gl_SubgroupID % across * WAVE_COLUMNS;
    // Rows and columns past the end are read from the last valid one and not stored.
    uint64_t w_at = row_address(w, min(column0 + id, n - 1), row_bytes);
    if (id < ROWS) scales[id] = half_row_scale(uint64_t(packed), min(row0 + id, tokens - 1), k);
    [[unroll]] for (uint i = 0; i < DOWN * RIGHT; i++) sums[i] = Sums(0.0);

    stage(fetch(w_at, row0, 0), 0, 0);
    barrier();
    uint part = 0;
    for (uint k0 = DEPTH; k0 < k; k0 += DEPTH) {
        Next next = fetch(w_at, row0, k0);
        multiply(part, wave_row, wave_column);
        part ^= 1;
        stage(next, part, k0);
        barrier();
    }
    multiply(part, wave_row, wave_column);
    barrier();  // x_tile is free for the sums
    [[unroll]] for (uint i = 0; i < DOWN; i++)
        [[unroll]] for (uint j = 0; j < RIGHT; j++)
            store(sums[i * RIGHT + j], row0, wave_row + M * i, column0 + wave_column + N * j);
}

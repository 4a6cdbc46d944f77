#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
// Flash attention on cooperative matrices: a workgroup takes 64 query rows of one KV head (its query heads x
// tokens) and streams over the keys, 64 at a time. Queries (scaled), keys, probabilities and values are float16 in
// shared memory, all sums float32. A subgroup makes WAVE_ROWS rows by its share of the scores' and of the output's
// columns; two threads do a row's softmax. What brings the output to a new maximum is a matrix whose columns are
// all alike, multiplied element by element.
#include "include/common.glsl"
#include "include/quads.glsl"
#include "include/nan.glsl"
#include "include/cache.glsl"
#include "include/half_rows.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint QUADS = 64;  // head dimension / 4, a multiple of 16
layout(constant_id = 1) const uint GATED = 0;
layout(constant_id = 2) const uint SUBGROUP = 32;
layout(constant_id = 3) const uint M = 16;  // the device's matrices: M x K by K x N
layout(constant_id = 4) const uint N = 16;
layout(constant_id = 5) const uint K = 16;
layout(constant_id = 6) const uint WAVE_ROWS = 32;  // of a subgroup
#define INFINITY uintBitsToFloat(0x7f800000u)

layout(push_constant, scalar) uniform Push {
    InU64x2 q;        // [tokens, heads, dim] float32
    InU64x2 k;        // [kv_heads, context, dim] float32 or, with HALF, float16
    InU64x2 v;        // the same
    InU64x2 gate;     // [tokens, heads, 2 * dim], the gate in each head's second half (GATED); rows
                      // gate_stride groups of four apart
    OutU64x2 y;       // [tokens, heads, dim]
    InStep step_params;
    uint heads;
    uint kv_heads;
    uint context;
    uint gate_stride;
    float scale;
};

const float LARGEST = 32768.0;  // probability: below 2^-14 a half has fewer bits, and some drivers none
const uint ROWS = 64, KEYS = 64, DEPTH = 64, VALUES = 16;  // columns of keys, and values, that are staged at a time
// Lengths of rows in shared memory, in 16 bytes; one more than needed against bank conflicts.
const uint Q_PITCH = QUADS / 2 + 1, K_PITCH = DEPTH / 8 + 1, S_PITCH = KEYS / 4 + 1, P_PITCH = KEYS / 8 + 1;
const uint V_PITCH = VALUES / 8 + 1;
const uint STAGE = KEYS * K_PITCH > 4 * QUADS * V_PITCH ? KEYS * K_PITCH : 4 * QUADS * V_PITCH;
shared uvec4 q_tile[ROWS * Q_PITCH];   // the queries, at the end the output
shared uvec4 stage[STAGE];             // keys, or what the output is multiplied by, or values
shared uvec4 s_tile[ROWS * S_PITCH];   // scores, then probabilities
shared float sums[ROWS];

const uint ACROSS = 128 / SUBGROUP * WAVE_ROWS / ROWS;  // subgroups that share rows
const uint DOWN = WAVE_ROWS / M, S_RIGHT = KEYS / ACROSS / N, O_RIGHT = 4 * QUADS / ACROSS / N;
#define Sums coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>
#define Rows coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA>
#define Columns coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB>
Sums o[DOWN * O_RIGHT];

uint id = gl_LocalInvocationID.x, wave_row, wave;
#include "include/tile_rows.glsl"

#include "include/attention_coop_stage.glsl"

// Scores of the keys from `key0` on, not yet masked, to s_tile.
void scores(uint base, uint key0, uint keys) {
    Sums s[DOWN * S_RIGHT];
    [[unroll]] for (uint i = 0; i < DOWN * S_RIGHT; i++) s[i] = Sums(0.0);
    for (uint c = 0; c < QUADS / 2; c += DEPTH / 8) {
        stage_keys(base, key0, keys, 2 * c);
        barrier();
        [[unroll]] for (uint e = 0; e < DEPTH / 8; e += K / 8) {
            Columns b[S_RIGHT];
            [[unroll]] for (uint j = 0; j < S_RIGHT; j++)
                coopMatLoad(b[j], stage, (wave * S_RIGHT + j) * N * K_PITCH + e, K_PITCH,
                            gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint i = 0; i < DOWN; i++) {
                Rows a;
                coopMatLoad(a, q_tile, (wave_row + M * i) * Q_PITCH + c + e, Q_PITCH,
                            gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint j = 0; j < S_RIGHT; j++)
                    s[i * S_RIGHT + j] = coopMatMulAdd(a, b[j], s[i * S_RIGHT + j]);
            }
        }
        barrier();
    }
    [[unroll]] for (uint i = 0; i < DOWN; i++)
        [[unroll]] for (uint j = 0; j < S_RIGHT; j++)
            coopMatStore(s[i * S_RIGHT + j], s_tile,
                         (wave_row + M * i) * S_PITCH + (wave * S_RIGHT + j) * N / 4, S_PITCH,
                         gl_CooperativeMatrixLayoutRowMajor);
}

// Two threads a row, 32 keys each: probabilities against the running maximum to s_tile, and to the stage what
// brings the row's output to it.
void softmax(uint sees, inout float top, inout float part) {
    uint row = id >> 1, half_row = id & 1;
    float score[KEYS / 2], now = top, sum = 0.0;
    [[unroll]] for (uint j = 0; j < KEYS / 2; j += 4) {
        vec4 x = uintBitsToFloat(s_tile[row * S_PITCH + (half_row * KEYS / 2 + j) / 4]);
        [[unroll]] for (uint t = 0; t < 4; t++) {
            score[j + t] = half_row * KEYS / 2 + j + t < sees ? x[t] : -INFINITY;
            now = max(now, score[j + t]);
        }
    }
    now = max(now, subgroupShuffleXor(now, 1));
    barrier();  // the scores have been read
    [[unroll]] for (uint j = 0; j < KEYS / 2; j += 8) {
        uvec4 words;
        [[unroll]] for (uint t = 0; t < 8; t += 2) {
            float p[2];  // rounded here, as their sum is what the output is divided by
            [[unroll]] for (uint u = 0; u < 2; u++) {
                float e = near_half(LARGEST * exp_nan(score[j + t + u] - now));
                p[u] = half_row * KEYS / 2 + j + t + u < sees ? e : 0.0;  // a driver's exp(-inf) need not be 0
            }
            words[t / 2] = pack_half(p[0], p[1]);
            sum += p[0] + p[1];
        }
        s_tile[row * P_PITCH + (half_row * KEYS / 2 + j) / 8] = words;
    }
    float factor = exp_nan(top - now);
    [[unroll]] for (uint j = 0; j < N / 8; j++)
        stage[row * (N / 4) + half_row * (N / 8) + j] = uvec4(floatBitsToUint(factor));
    part = part * factor + sum;
    top = now;
}

void accumulate(uint base, uint key0, uint keys) {
    [[unroll]] for (uint i = 0; i < DOWN; i++) {
        Sums factor;
        coopMatLoad(factor, stage, (wave_row + M * i) * (N / 4), N / 4, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint j = 0; j < O_RIGHT; j++) o[i * O_RIGHT + j] = o[i * O_RIGHT + j] * factor;
    }
    barrier();
    for (uint c = 0; c < KEYS; c += VALUES) {
        if (key0 + c >= keys) break;
        stage_values(base, key0 + c, keys);
        barrier();
        [[unroll]] for (uint e = 0; e < VALUES; e += K) {
            Rows a[DOWN];
            [[unroll]] for (uint i = 0; i < DOWN; i++)
                coopMatLoad(a[i], s_tile, (wave_row + M * i) * P_PITCH + (c + e) / 8, P_PITCH,
                            gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint j = 0; j < O_RIGHT; j++) {
                Columns b;
                coopMatLoad(b, stage, (wave * O_RIGHT + j) * N * V_PITCH + e / 8, V_PITCH,
                            gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint i = 0; i < DOWN; i++)
                    o[i * O_RIGHT + j] = coopMatMulAdd(a[i], b, o[i * O_RIGHT + j]);
            }
        }
        barrier();
    }
}

#include "include/attention_coop_out.glsl"

void main() {
    uint total = step_params.tokens * (heads / kv_heads);
    group = heads / kv_heads;
    row0 = gl_WorkGroupID.x * ROWS;
    if (row0 >= total) return;
    valid = min(ROWS, total - row0);
    wave_row = gl_SubgroupID / ACROSS * WAVE_ROWS;
    wave = gl_SubgroupID % ACROSS;
    uint keys = min(step_params.past + (row0 + valid - 1) / group + 1, context);
    uint seen = min(step_params.past + (row0 + min(id >> 1, valid - 1)) / group + 1, context);
    uint base = gl_WorkGroupID.y * context;
    float top = -INFINITY, part = 0.0;
    for (uint i = id; i < ROWS * QUADS / 2; i += 128) {
        uint row = i / (QUADS / 2), at = place(row) * QUADS + 2 * (i % (QUADS / 2));
        q_tile[row * Q_PITCH + i % (QUADS / 2)] =
            halves(scale * unpack_quad(q.v[at]), scale * unpack_quad(q.v[at + 1]));
    }
    [[unroll]] for (uint i = 0; i < DOWN * O_RIGHT; i++) o[i] = Sums(0.0);

    for (uint key0 = 0; key0 < keys; key0 += KEYS) {
        scores(base, key0, keys);
        barrier();
        softmax(seen > key0 ? seen - key0 : 0, top, part);
        barrier();
        accumulate(base, key0, keys);
    }
    part += subgroupShuffleXor(part, 1);
    if ((id & 1) == 0) sums[id >> 1] = part;
    barrier();
    [[unroll]] for (uint i = 0; i < DOWN; i++) store(i);
}

#version 460
#extension GL_GOOGLE_include_directive : require
// Flash attention for GPUs: 256 threads take 64 query rows of one KV head (its query heads x tokens) and
// stream over the keys, 64 at a time. q and k go through shared memory 16 columns at a time, a thread makes
// 4 x 4 scores; four threads do a row's softmax; then v goes through 8 keys at a time, and a thread keeps
// 8 rows by 4 columns of the output (twice that for heads wider than 128).
#include "include/common.glsl"
#include "include/quads.glsl"
#include "include/nan.glsl"
#include "include/cache.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint QUADS = 64;  // head dimension / 4
layout(constant_id = 1) const uint GATED = 0;
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

const uint ROWS = 64, KEYS = 64, COLUMNS = 16, SETS = (QUADS + 31) / 32;
const uint PAD = ROWS / 4 + 1;                   // vec4s a line; one more against bank conflicts
shared vec4 stage[max(2 * COLUMNS * PAD, 512)];  // q and k by [column][row], or v by [key][quad]
shared vec4 p_tile[ROWS][KEYS / 4 + 1];          // scores, then probabilities, by [row][key]
shared float factors[ROWS];                      // what brings a row's output to its newest maximum

uint id = gl_LocalInvocationID.x;
#include "include/tile_rows.glsl"

// One row's (or key's) four columns to four lines of the stage.
void stage_columns(uint line, uint r, vec4 x) {
    [[unroll]] for (uint t = 0; t < 4; t++) stage[(line + t) * PAD + (r >> 2)][r & 3] = x[t];
}

// Scores of the keys from `key0` on, not yet scaled or masked, to p_tile.
void scores(uint q_at, uint k_at) {
    vec4 s[4];
    [[unroll]] for (uint i = 0; i < 4; i++) s[i] = vec4(0.0);
    for (uint c = 0; c < QUADS; c += COLUMNS / 4) {
        uint part = id & 3;
        bool there = c + part < QUADS;
        stage_columns(4 * part, id >> 2, there ? unpack_quad(q.v[q_at * QUADS + c + part]) : vec4(0.0));
        stage_columns(COLUMNS + 4 * part, id >> 2, there ? cached(k, k_at * QUADS + c + part) : vec4(0.0));
        barrier();
        [[unroll]] for (uint e = 0; e < COLUMNS; e++) {
            vec4 a = stage[e * PAD + (id >> 4)], b = stage[(COLUMNS + e) * PAD + (id & 15)];
            [[unroll]] for (uint i = 0; i < 4; i++) s[i] += a[i] * b;
        }
        barrier();
    }
    [[unroll]] for (uint i = 0; i < 4; i++) p_tile[4 * (id >> 4) + i][id & 15] = s[i];
}

// Four threads a row, 16 keys each: probabilities against the running maximum.
void softmax(uint sees, inout float top, inout float part) {
    uint row = id >> 2, first = 4 * (id & 3);
    float score[16], now = top, sum = 0.0;
    [[unroll]] for (uint j = 0; j < 16; j++) {
        score[j] = 16 * (id & 3) + j < sees ? p_tile[row][first + j / 4][j & 3] * scale : -INFINITY;
        now = max_nan(now, score[j]);
    }
    now = max_nan(now, subgroupShuffleXor(now, 1));
    now = max_nan(now, subgroupShuffleXor(now, 2));
    [[unroll]] for (uint j = 0; j < 16; j++) {  // a driver's exp(-inf) need not be 0
        float p = 16 * (id & 3) + j < sees ? exp_nan(score[j] - now) : 0.0;
        p_tile[row][first + j / 4][j & 3] = p;
        sum += p;
    }
    float factor = exp_nan(top - now);
    part = part * factor + sum;
    top = now;
    if ((id & 3) == 0) factors[row] = factor;
}

void main() {
    uint total = step_params.tokens * (heads / kv_heads);
    group = heads / kv_heads;
    row0 = gl_WorkGroupID.x * ROWS;
    if (row0 >= total) return;
    valid = min(ROWS, total - row0);
    uint keys = min(step_params.past + (row0 + valid - 1) / group + 1, context);
    uint seen = min(step_params.past + (row0 + min(id >> 2, valid - 1)) / group + 1, context);
    uint base = gl_WorkGroupID.y * context, q_at = place(id >> 2), rows = 8 * (id >> 5);
    float top = -INFINITY, part = 0.0;
    vec4 o[8][SETS];
    [[unroll]] for (uint r = 0; r < 8; r++) [[unroll]] for (uint set = 0; set < SETS; set++) o[r][set] = vec4(0.0);

    for (uint key0 = 0; key0 < keys; key0 += KEYS) {
        scores(q_at, base + min(key0 + (id >> 2), keys - 1));
        barrier();
        softmax(seen > key0 ? seen - key0 : 0, top, part);
        barrier();
        [[unroll]] for (uint r = 0; r < 8; r++)
            [[unroll]] for (uint set = 0; set < SETS; set++) o[r][set] *= factors[rows + r];
        for (uint c = 0; c < KEYS; c += 8) {
            if (key0 + c >= keys) break;
            for (uint i = id; i < 8 * QUADS; i += 256)
                stage[i] = cached(v, (base + min(key0 + c + i / QUADS, keys - 1)) * QUADS + i % QUADS);
            barrier();
            [[unroll]] for (uint f = 0; f < 2; f++) {
                vec4 p[8];
                [[unroll]] for (uint r = 0; r < 8; r++) p[r] = p_tile[rows + r][c / 4 + f];
                [[unroll]] for (uint set = 0; set < SETS; set++) [[unroll]] for (uint t = 0; t < 4; t++) {
                    vec4 x = stage[(4 * f + t) * QUADS + min((id & 31) + 32 * set, QUADS - 1)];
                    [[unroll]] for (uint r = 0; r < 8; r++) o[r][set] += p[r][t] * x;
                }
            }
            barrier();
        }
    }
    part += subgroupShuffleXor(part, 1);
    part += subgroupShuffleXor(part, 2);
    if ((id & 3) == 0) factors[id >> 2] = part;
    barrier();
    [[unroll]] for (uint r = 0; r < 8; r++) [[unroll]] for (uint set = 0; set < SETS; set++) {
        uint quad = (id & 31) + 32 * set, at = place(rows + r);
        if (rows + r >= valid || quad >= QUADS) continue;
        vec4 x = o[r][set] / factors[rows + r];
        if (GATED != 0) {
            vec4 g = unpack_quad(gate.v[at / heads * gate_stride + (at % heads * 2 + 1) * QUADS + quad]);
            x *= vec4(sigmoid(g.x), sigmoid(g.y), sigmoid(g.z), sigmoid(g.w));
        }
        y.v[at * QUADS + quad] = pack_quad(x);
    }
}

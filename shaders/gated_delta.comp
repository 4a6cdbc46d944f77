#version 460
#extension GL_GOOGLE_include_directive : require
// Gated delta rule as a scan over the tokens, the state in registers. Eight lanes (a cluster) share
// COLUMNS columns of one head's state, each has SIZE / 8 rows of them: k and q then need no broadcast, and
// one state vector is read for both dot products: o = g S^T q + (k.q) delta needs S before its update.
#include "include/common.glsl"
#include "include/quads.glsl"
#include "include/gates.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
#ifdef TEXELS
layout(set = 0, binding = 0) uniform usamplerBuffer conv;
#endif
layout(constant_id = 1) const uint SIZE = 128;   // s: 32, 64 or 128
layout(constant_id = 2) const uint COLUMNS = 8;  // 1, 2, 4, 8, 16 or 32, at most SIZE
const uint QUADS = SIZE / 32;                    // groups of four rows that a lane has
const uint ROWS = SIZE / 8;
const uint WIDTH = COLUMNS < 8 ? COLUMNS : 8;    // columns that the lanes of a cluster speak for at once
const uint GROUPS = COLUMNS / WIDTH;             // ... and how many each lane speaks for

layout(push_constant, scalar) uniform Push {
#ifndef TEXELS
    InU64x2 conv;       // [tokens, 2 * key_heads * s + value_heads * s] float32: q, k, v
#endif
    InF32 alpha;        // [tokens, value_heads], rows gate_stride apart
    InF32 beta;         // the same
    InF32 dt_bias;      // [value_heads]
    InF32 a;            // [value_heads], -exp(A_log)
    InOutU64x2 state;   // [value_heads, s columns (of v), s rows (of k)] float32
    OutF32 y;           // [tokens, value_heads * s]
    InStep step_params;
#ifdef GAPS
    InF32 gaps;         // [tokens, value_heads]: log decay over the tokens dropped before each
#endif
    uint key_heads;
    uint value_heads;
    uint gate_stride;
    float eps;
};

#ifdef TEXELS
#include "include/texel.glsl"
u64vec2 conv_quad(uint i) { return texel(conv, i); }
#else
u64vec2 conv_quad(uint i) { return conv.v[i]; }
#endif

void load(uint quad, out float x[ROWS]) {
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        vec4 four = unpack_quad(conv_quad(quad + 8 * i));
        [[unroll]] for (uint j = 0; j < 4; j++) x[4 * i + j] = four[j];
    }
}

float dot_rows(float x[ROWS], float z[ROWS]) {
    float sum = 0.0;
    [[unroll]] for (uint i = 0; i < QUADS; i++)
        sum += (x[4 * i] * z[4 * i] + x[4 * i + 1] * z[4 * i + 1])
             + (x[4 * i + 2] * z[4 * i + 2] + x[4 * i + 3] * z[4 * i + 3]);
    return sum;
}

float cluster_total(float x) {
    [[unroll]] for (uint bit = 1; bit < 8; bit <<= 1) x += subgroupShuffleXor(x, bit);
    return x;
}

// Sums over the cluster of WIDTH values a lane: lane l gets the total of x[l % WIDTH].
float cluster_totals(float x[WIDTH]) {
    uint lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint b = 0; b < 3; b++) {
        bool odd = ((lane >> b) & 1u) != 0;
        if ((2u << b) <= WIDTH) {
            [[unroll]] for (uint j = 0; j < (WIDTH >> (b + 1)); j++)
                x[j] = (odd ? x[2 * j + 1] : x[2 * j])
                     + subgroupShuffleXor(odd ? x[2 * j] : x[2 * j + 1], 1u << b);
        } else {
            x[0] += subgroupShuffleXor(x[0], 1u << b);
        }
    }
    return x[0];
}

// GROUPS neighbouring floats, which lie in one quad or begin one.
void load_values(uint at, out float x[GROUPS]) {
    [[unroll]] for (uint j = 0; j < GROUPS; j += 4) {
        vec4 four = unpack_quad(conv_quad((at + j) / 4));
        if (GROUPS < 4 && (at & 2u) != 0u) four.xy = four.zw;
        if (GROUPS == 1 && (at & 1u) != 0u) four.x = four.y;
        [[unroll]] for (uint t = 0; t < min(GROUPS, 4); t++) x[j + t] = four[t];
    }
}

void store_values(uint at, float x[GROUPS]) {
    if (GROUPS == 1) y.v[at] = x[0];
    [[unroll]] for (uint j = 0; j + 1 < GROUPS; j += 2)
        OutU64(uint64_t(y)).v[at / 2 + j / 2] = pack_f32x2(vec2(x[j], x[j + 1]));
}

float s[COLUMNS][ROWS];  // this lane's rows of its cluster's columns of the state, for all tokens

void load_state(uint at) {
    [[unroll]] for (uint c = 0; c < COLUMNS; c++)
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            vec4 four = unpack_quad(state.v[at + c * (SIZE / 4) + 8 * i]);
            [[unroll]] for (uint j = 0; j < 4; j++) s[c][4 * i + j] = four[j];
        }
}

void store_state(uint at) {
    [[unroll]] for (uint c = 0; c < COLUMNS; c++)
        [[unroll]] for (uint i = 0; i < QUADS; i++)
            state.v[at + c * (SIZE / 4) + 8 * i] =
                pack_quad(vec4(s[c][4 * i], s[c][4 * i + 1], s[c][4 * i + 2], s[c][4 * i + 3]));
}

// One token: g decays the state, b is the strength of the update. v and o are of the columns that this
// lane speaks for, (lane % WIDTH) * GROUPS + j.
void step_token(float k[ROWS], float q[ROWS], float v[GROUPS], float g, float b, out float o[GROUPS]) {
    uint first = gl_SubgroupInvocationID & ~7u;  // of the cluster's lanes
    float kk = cluster_total(dot_rows(k, k)), qq = cluster_total(dot_rows(q, q));
    float kq = cluster_total(dot_rows(k, q));
    float k_scale = 1.0 / max(sqrt(kk), eps);
    float q_scale = 1.0 / (max(sqrt(qq), eps) * sqrt(float(SIZE)));
    float delta[GROUPS];
    [[unroll]] for (uint j = 0; j < GROUPS; j++) {
        float sk[WIDTH], sq[WIDTH];
        [[unroll]] for (uint c = 0; c < WIDTH; c++) {
            sk[c] = dot_rows(s[c * GROUPS + j], k);
            sq[c] = dot_rows(s[c * GROUPS + j], q);
        }
        delta[j] = b * (v[j] - g * k_scale * cluster_totals(sk)) * k_scale;
        o[j] = (g * cluster_totals(sq) + delta[j] * kq) * q_scale;
    }
    [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
        float d = subgroupShuffle(delta[c % GROUPS], first + c / GROUPS);
        [[unroll]] for (uint i = 0; i < ROWS; i++) s[c][i] = g * s[c][i] + k[i] * d;
    }
}

void main() {
    uint lane = gl_SubgroupInvocationID & 7u, first = gl_SubgroupInvocationID & ~7u;
    uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    uint column = (gl_WorkGroupID.x * (gl_WorkGroupSize.x / 8) + thread / 8) * COLUMNS;
    uint head = gl_WorkGroupID.y, tokens = step_params.tokens;
    if (column >= SIZE || tokens == 0) return;
    uint stride = (2 * key_heads + value_heads) * SIZE;
    uint q_at = (head % key_heads) * SIZE / 4 + lane, k_at = q_at + key_heads * SIZE / 4;
    uint v_at = (2 * key_heads + head) * SIZE + column + lane % WIDTH * GROUPS;
    uint y_at = head * SIZE + column + lane * GROUPS;
    uint state_at = (head * SIZE + column) * (SIZE / 4) + lane;
    load_state(state_at);
    for (uint t0 = 0; t0 < tokens; t0 += 8) {
        // Each lane works out the gates of one of eight tokens.
        uint gate_at = min(t0 + lane, tokens - 1) * gate_stride + head;
        float g8 = exp_nonpositive(a.v[head] * softplus(alpha.v[gate_at] + dt_bias.v[head]));
#ifdef GAPS
        g8 *= exp_nonpositive(gaps.v[min(t0 + lane, tokens - 1) * value_heads + head]);
#endif
        float b8 = sigmoid(beta.v[gate_at]);
        uint end = min(t0 + 8, tokens);
        [[dont_unroll]] for (uint t = t0; t < end; t++) {
            float k[ROWS], q[ROWS], v[GROUPS], o[GROUPS];
            load(k_at + t * (stride / 4), k);
            load(q_at + t * (stride / 4), q);
            load_values(v_at + t * stride, v);
            float g = subgroupShuffle(g8, first + t - t0), b = subgroupShuffle(b8, first + t - t0);
            step_token(k, q, v, g, b, o);
            if (lane < WIDTH) store_values(y_at + t * value_heads * SIZE, o);
        }
    }
    store_state(state_at);
}

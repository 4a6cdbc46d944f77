#version 460
#extension GL_GOOGLE_include_directive : require
// Flash attention: a workgroup takes ROWS query rows of one KV head (its query heads x tokens, so that a
// key is read once for the whole group) and streams over the keys in blocks of TILES tiles. In a block: the
// scores of one tile after another, each with the running maximum it saw; then the sum over the values, 4
// columns a lane. Arrays indexed by a loop over rows or columns are private memory on software drivers
// (cheapest there, with CHUNK = 1); with CHUNK = ROWS and LOCAL >= dim / 4 all indices are constants.
#include "include/common.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
#ifdef TEXELS
layout(set = 0, binding = 0) uniform usamplerBuffer q;
layout(set = 0, binding = 1) uniform usamplerBuffer k;
layout(set = 0, binding = 2) uniform usamplerBuffer v;
#endif
#include "include/nan.glsl"
#include "include/reduce.glsl"
#include "include/qk_tile.glsl"
layout(constant_id = 5) const uint TILES = 4;
layout(constant_id = 6) const uint GATED = 0;
layout(constant_id = 7) const uint SPLIT = 0;  // a workgroup has `span` keys; attention_merge joins them

#include "include/quads.glsl"

layout(push_constant, scalar) uniform Push {
#ifndef TEXELS
    InU64x2 q;        // [tokens, heads, dim] float32
    InU64x2 k;        // [kv_heads, context, dim] float32 or, with HALF, float16
    InU64x2 v;        // the same
#endif
    InU64x2 gate;     // [tokens, heads, 2 * dim], the gate in each head's second half (GATED); rows
                      // gate_stride groups of four apart
    OutU64x2 y;       // [tokens, heads, dim], or [splits, tokens, heads, dim], not yet divided by the sums (SPLIT)
    OutF32 stats;     // [splits, tokens, heads, 2]: maximum, sum (SPLIT)
#ifdef PACKED
    OutU64 packed;    // the rounded row of a single token, in place of y
#endif
    InStep step_params;
    uint heads;
    uint kv_heads;
    uint context;
    uint gate_stride;
    uint span;
    float scale;
};

const uint SETS = (QUADS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;  // a set: 4 columns of every lane
const uint STRIDE = TILES * TILE / 2 + 1;  // pairs of probabilities a row; odd, so that rows change banks
shared uint64_t pairs[ROWS * STRIDE];
shared float tops[(TILES + 1) * ROWS];     // running maximum before the block and after each tile
shared float factors[(TILES + 1) * ROWS];  // what brings the output so far, and each tile, to the newest one
shared float parts[(gl_WorkGroupSize.x + 7) / 8];

float top[ROWS];            // running maximum of each row
float part[ROWS];           // this lane's share of each row's sum of exp(score - top)
float o[SETS * ROWS * 4];   // the output so far
float current[ROWS * 4];    // one set of it
uint seen[ROWS];            // keys that each row sees
uint group, first, valid;   // query heads a KV head; first row of this tile; rows of it that exist

uint place(uint r) {  // token * heads + head of a row
    uint index = first + min(r, valid - 1);
    return index / group * heads + gl_WorkGroupID.y * group + index % group;
}

float workgroup_top(float x) {
    x = subgroup_largest(x);
    if (gl_WorkGroupSize.x == 8 || gl_NumSubgroups == 1) return x;
    barrier();
    if (subgroupElect()) parts[gl_SubgroupID] = x;
    barrier();
    for (uint i = 0; i < gl_NumSubgroups; i++) x = max(x, parts[i]);
    return x;
}

float workgroup_sum(float x) {
    x = subgroup_total(x);
    if (gl_WorkGroupSize.x == 8 || gl_NumSubgroups == 1) return x;
    barrier();
    if (subgroupElect()) parts[gl_SubgroupID] = x;
    barrier();
    x = 0.0;
    for (uint i = 0; i < gl_NumSubgroups; i++) x += parts[i];
    return x;
}

// Scores of row r in the tile at `key0` -> probabilities against the running maximum, in `pairs`.
void softmax_row(uint r, uint tile, uint key0) {
    float score[WIDTH], p[WIDTH], before = top[r];
    bool sees[WIDTH];
    [[unroll]] for (uint j = 0; j < WIDTH; j++) {
        sees[j] = key0 + lane_key(j) < seen[r];
        score[j] = sees[j] ? s[r * WIDTH + j] * scale : -INFINITY;
    }
    float now = max(before, workgroup_top(max(max(score[0], score[1]), max(score[2], score[3]))));
    [[unroll]] for (uint j = 0; j < WIDTH; j++)  // a driver's exp(-inf) need not be 0
        p[j] = sees[j] ? exp_nan(score[j] - now) : 0.0;
    part[r] = part[r] * exp_nan(before - now) + ((p[0] + p[1]) + (p[2] + p[3]));
    top[r] = now;
    [[unroll]] for (uint j = 0; j < WIDTH; j += 2)
        pairs[r * STRIDE + (tile * TILE + lane_key(j)) / 2] = pack64(floatBitsToUint(vec2(p[j], p[j + 1])));
    if (gl_LocalInvocationID.x == 0) tops[(tile + 1) * ROWS + r] = now;
}

// Adds what the block's values give to columns [4 * quad, 4 * quad + 4).
void accumulate(uint base, uint block, uint tiles, uint keys, uint set, uint quad) {
    EACH_ROW(r) {
        float alpha = factors[r];
        [[unroll]] for (uint j = 0; j < 4; j++) current[r * 4 + j] = o[(set * ROWS + r) * 4 + j] * alpha;
    }
    float acc[ROWS][4];  // constant indices only: registers
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint j = 0; j < 4; j++) acc[r][j] = current[r * 4 + j];
    [[dont_unroll]] for (uint tile = 0; tile < tiles; tile++) {
        float factor[BANDS];
        [[unroll]] for (uint i = 0; i < BANDS; i++) factor[i] = factors[(tile + 1) * ROWS + lane_row(i)];
        [[dont_unroll]] for (uint c = 0; c < TILE; c += 4) {
            uint at = tile * TILE + c;
            float value[4][4];  // [key][column]
            [[unroll]] for (uint t = 0; t < 4; t++)
                cache_quad(v, (base + min(block + at + t, keys - 1)) * QUADS + quad, value[t]);
            [[unroll]] for (uint i = 0; i < BANDS; i++) {
                uint pair = lane_row(i) * STRIDE + at / 2;
                float mine[4];
                unpack_quad(u64vec2(pairs[pair], pairs[pair + 1]), mine);
                [[unroll]] for (uint t = 0; t < 4; t++) mine[t] *= factor[i];
                [[unroll]] for (uint p = 0; p < 8; p++) {
                    if (i * 8 + p >= ROWS) break;
                    float w[4];
                    [[unroll]] for (uint t = 0; t < 4; t++) w[t] = subgroupShuffle(mine[t], p);
                    [[unroll]] for (uint j = 0; j < 4; j++)
                        acc[i * 8 + p][j] += (w[0] * value[0][j] + w[1] * value[1][j])
                            + (w[2] * value[2][j] + w[3] * value[3][j]);
                }
            }
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint j = 0; j < 4; j++) current[r * 4 + j] = acc[r][j];
    EACH_ROW(r) [[unroll]] for (uint j = 0; j < 4; j++) o[(set * ROWS + r) * 4 + j] = current[r * 4 + j];
}

#include "include/attention_out.glsl"

void main() {
    uint total = step_params.tokens * (heads / kv_heads), lane = gl_LocalInvocationID.x;
    group = heads / kv_heads;
    first = gl_WorkGroupID.x * ROWS;
    if (first >= total) return;
    valid = min(ROWS, total - first);
    uint start = SPLIT != 0 ? gl_WorkGroupID.z * span : 0, limit = SPLIT != 0 ? start + span : context;
    EACH_ROW(r) {
        seen[r] = min(step_params.past + (first + min(r, valid - 1)) / group + 1, min(context, limit));
        top[r] = -INFINITY;
        part[r] = 0.0;
        for (uint set = 0; set < SETS; set++)
            [[unroll]] for (uint j = 0; j < 4; j++) o[(set * ROWS + r) * 4 + j] = 0.0;
    }
    uint base = gl_WorkGroupID.y * context, keys = seen[ROWS - 1];
    if (start >= keys) return;
    [[unroll]] for (uint i = 0; i < BANDS; i++) q_at[i] = place(lane_row(i)) * QUADS;
    stage_queries(q);
    [[dont_unroll]] for (uint block = start; block < keys; block += TILES * TILE) {
        uint tiles = min(TILES, (keys - block + TILE - 1) / TILE);
        EACH_ROW(r) if (lane == 0) tops[r] = top[r];
        [[dont_unroll]] for (uint tile = 0; tile < tiles; tile++) {
            uint key0 = block + tile * TILE, k_at[WIDTH];
            [[unroll]] for (uint j = 0; j < WIDTH; j++)
                k_at[j] = (base + min(key0 + lane_key(j), keys - 1)) * QUADS;
            qk_tile(q, k, k_at);
            EACH_ROW(r) softmax_row(r, tile, key0);
        }
        barrier();
        for (uint i = lane; i < (tiles + 1) * ROWS; i += gl_WorkGroupSize.x)
            factors[i] = exp_nan(tops[i] - tops[tiles * ROWS + i % ROWS]);
        barrier();
        for (uint set = 0; set < SETS; set++)  // lanes beyond the last column repeat it
            accumulate(base, block, tiles, keys, set, min(set * gl_WorkGroupSize.x + lane, QUADS - 1));
        barrier();  // the probabilities have been read
    }
    EACH_ROW(r) {
        float sum = workgroup_sum(part[r]);
        if (SPLIT != 0) store_part(r, sum);
        else store_row(r, sum);
    }
#ifdef PACKED
    barrier();
    pack_heads();
#endif
}

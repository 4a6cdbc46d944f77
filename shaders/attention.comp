#version 460
#extension GL_GOOGLE_include_directive : require
// Flash attention: a workgroup takes ROWS query rows of one KV head (its query heads x tokens, so that a
// key is read once for the whole group) and streams over the keys in blocks. Within a block: scores of one
// tile after another, each with the running maximum it saw; then the sum over the block's values, 4 columns
// a lane. The unfinished output waits in y between blocks: a private array indexed by a variable, or shared
// memory, costs more on software drivers.
#include "include/common.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
#include "include/nan.glsl"
#include "include/reduce.glsl"
#include "include/qk_tile.glsl"
layout(constant_id = 2) const uint TILES = 4;  // tiles a block
layout(constant_id = 3) const uint GATED = 0;

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer InOutU64x2 { u64vec2 v[]; };

layout(push_constant, scalar) uniform Push {
    InU64x2 q;        // [tokens, heads, dim] float32
    InU64x2 k;        // [kv_heads, context, dim]
    InU64x2 v;        // [kv_heads, context, dim]
    InU64x2 gate;     // [tokens, heads, 2 * dim], the gate in each head's second half (GATED)
    InOutU64x2 y;     // [tokens, heads, dim]
    InStep step_params;
    uint heads;
    uint kv_heads;
    uint context;
    uint quads;       // dim / 4
    float scale;
};

const uint STRIDE = TILES * TILE / 2 + 1;  // pairs of probabilities a row; odd, so that rows change banks
shared uint64_t pairs[ROWS * STRIDE];
shared float tops[(TILES + 1) * ROWS];     // running maximum before the block and after each tile
shared float factors[(TILES + 1) * ROWS];  // what brings the output so far, and each tile, to the newest maximum
shared float parts[ROWS * ((gl_WorkGroupSize.x + 7) / 8)];

float top[ROWS];   // running maximum of each row
float part[ROWS];  // this lane's share of each row's sum of exp(score - top)
uint seen[ROWS];   // keys that each row sees
uint place[ROWS];  // token * heads + head of each row
uint valid;        // rows of this tile that exist

void find_rows(uint first, uint total, uint group) {
    valid = min(ROWS, total - first);
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        uint index = first + min(r, valid - 1), token = index / group;
        place[r] = token * heads + gl_WorkGroupID.y * group + index % group;
        seen[r] = min(step_params.past + token + 1, context);
        top[r] = uintBitsToFloat(0xff800000u);
        part[r] = 0.0;
    }
}

// The maximum of each row over the workgroup; `largest` holds this lane's.
void rows_largest(inout float largest[ROWS]) {
    [[unroll]] for (uint r = 0; r < ROWS; r++) largest[r] = subgroup_largest(largest[r]);
    if (gl_WorkGroupSize.x == 8 || gl_NumSubgroups == 1) return;
    barrier();
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        if (subgroupElect()) parts[gl_SubgroupID * ROWS + r] = largest[r];
    barrier();
    for (uint i = 0; i < gl_NumSubgroups; i++)
        [[unroll]] for (uint r = 0; r < ROWS; r++) largest[r] = max(largest[r], parts[i * ROWS + r]);
}

void rows_total(inout float sum[ROWS]) {
    [[unroll]] for (uint r = 0; r < ROWS; r++) sum[r] = subgroup_total(sum[r]);
    if (gl_WorkGroupSize.x == 8 || gl_NumSubgroups == 1) return;
    barrier();
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        if (subgroupElect()) parts[gl_SubgroupID * ROWS + r] = sum[r];
    barrier();
    [[unroll]] for (uint r = 0; r < ROWS; r++) sum[r] = 0.0;
    for (uint i = 0; i < gl_NumSubgroups; i++)
        [[unroll]] for (uint r = 0; r < ROWS; r++) sum[r] += parts[i * ROWS + r];
}

// Scores of the tile at `key0` -> probabilities against the running maximum, in `pairs`.
void softmax_tile(uint tile, uint key0) {
    float largest[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        [[unroll]] for (uint j = 0; j < WIDTH; j++)
            s[r][j] = key0 + lane_key(j) < seen[r] ? s[r][j] * scale : uintBitsToFloat(0xff800000u);
        largest[r] = max(max(s[r][0], s[r][1]), max(s[r][2], s[r][3]));
    }
    rows_largest(largest);
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        float before = top[r], p[WIDTH];
        top[r] = max(before, largest[r]);
        [[unroll]] for (uint j = 0; j < WIDTH; j++)  // a driver's exp(-inf) need not be 0
            p[j] = key0 + lane_key(j) < seen[r] ? exp_nan(s[r][j] - top[r]) : 0.0;
        part[r] = part[r] * exp(before - top[r]) + ((p[0] + p[1]) + (p[2] + p[3]));
        [[unroll]] for (uint j = 0; j < WIDTH; j += 2)
            pairs[r * STRIDE + (tile * TILE + lane_key(j)) / 2] = pack64(floatBitsToUint(vec2(p[j], p[j + 1])));
        if (gl_LocalInvocationID.x == 0) tops[(tile + 1) * ROWS + r] = top[r];
    }
}

float o[ROWS][4];  // this lane's 4 columns of the output

// What the block's values add to columns [4 * quad, 4 * quad + 4).
void accumulate(uint base, uint block, uint tiles, uint keys, uint quad) {
    [[dont_unroll]] for (uint tile = 0; tile < tiles; tile++) {
        float factor[BANDS];
        [[unroll]] for (uint i = 0; i < BANDS; i++) factor[i] = factors[(tile + 1) * ROWS + min(lane_row(i), ROWS - 1)];
        [[dont_unroll]] for (uint c = 0; c < TILE; c += 4) {
            uint at = tile * TILE + c;
            float value[4][4];  // [key][column]
            [[unroll]] for (uint t = 0; t < 4; t++)
                unpack_quad(v.v[(base + min(block + at + t, keys - 1)) * quads + quad], value[t]);
            [[unroll]] for (uint i = 0; i < BANDS; i++) {
                uint pair = min(lane_row(i), ROWS - 1) * STRIDE + at / 2;
                float mine[4];
                unpack_quad(u64vec2(pairs[pair], pairs[pair + 1]), mine);
                [[unroll]] for (uint t = 0; t < 4; t++) mine[t] *= factor[i];
                [[unroll]] for (uint p = 0; p < 8; p++) {
                    if (i * 8 + p >= ROWS) break;
                    float w[4];
                    [[unroll]] for (uint t = 0; t < 4; t++) w[t] = subgroupBroadcast(mine[t], p);
                    [[unroll]] for (uint j = 0; j < 4; j++)
                        o[i * 8 + p][j] += (w[0] * value[0][j] + w[1] * value[1][j]) + (w[2] * value[2][j] + w[3] * value[3][j]);
                }
            }
        }
    }
}

void load_columns(uint quad, bool first) {
    [[unroll]] for (uint i = 0; i < BANDS; i++) {
        float factor = factors[min(lane_row(i), ROWS - 1)];
        [[unroll]] for (uint p = 0; p < 8; p++) {
            if (i * 8 + p >= ROWS) break;
            float alpha = subgroupBroadcast(factor, p);
            if (first) [[unroll]] for (uint j = 0; j < 4; j++) o[i * 8 + p][j] = 0.0;
            else unpack_quad(y.v[place[i * 8 + p] * quads + quad], o[i * 8 + p]);
            [[unroll]] for (uint j = 0; j < 4; j++) o[i * 8 + p][j] *= alpha;
        }
    }
}

void store_columns(uint quad, bool last) {
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        if (r >= valid) continue;
        if (last) {
            float g[4] = {1.0, 1.0, 1.0, 1.0};
            if (GATED != 0) unpack_quad(gate.v[(place[r] * 2 + 1) * quads + quad], g);
            [[unroll]] for (uint j = 0; j < 4; j++)
                o[r][j] = o[r][j] / part[r] * (GATED != 0 ? sigmoid(g[j]) : 1.0);
        }
        y.v[place[r] * quads + quad] = u64vec2(pack64(floatBitsToUint(vec2(o[r][0], o[r][1]))),
                                               pack64(floatBitsToUint(vec2(o[r][2], o[r][3]))));
    }
}

void main() {
    uint group = heads / kv_heads, first = gl_WorkGroupID.x * ROWS, total = step_params.tokens * group;
    if (first >= total) return;
    find_rows(first, total, group);
    uint base = gl_WorkGroupID.y * context, keys = seen[ROWS - 1], lane = gl_LocalInvocationID.x;
    uint q_at[BANDS];
    [[unroll]] for (uint i = 0; i < BANDS; i++) {
        uint index = first + min(lane_row(i), valid - 1);
        q_at[i] = (index / group * heads + gl_WorkGroupID.y * group + index % group) * quads;
    }
    [[dont_unroll]] for (uint block = 0; block < keys; block += TILES * TILE) {
        uint tiles = min(TILES, (keys - block + TILE - 1) / TILE);
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            if (lane == 0) tops[r] = top[r];
        [[dont_unroll]] for (uint tile = 0; tile < tiles; tile++) {
            uint key0 = block + tile * TILE, k_at[WIDTH];
            [[unroll]] for (uint j = 0; j < WIDTH; j++) k_at[j] = (base + min(key0 + lane_key(j), keys - 1)) * quads;
            qk_tile(q, q_at, k, k_at, quads);
            softmax_tile(tile, key0);
        }
        barrier();
        for (uint i = lane; i < (tiles + 1) * ROWS; i += gl_WorkGroupSize.x)
            factors[i] = exp_nan(tops[i] - tops[tiles * ROWS + i % ROWS]);
        barrier();
        bool last = block + TILES * TILE >= keys;
        if (last) rows_total(part);
        for (uint c = 0; c < quads; c += gl_WorkGroupSize.x) {
            uint quad = min(c + lane, quads - 1);  // lanes beyond the last column repeat it, and do not store
            load_columns(quad, block == 0);
            accumulate(base, block, tiles, keys, quad);
            if (c + lane < quads) store_columns(quad, last);
        }
        barrier();
    }
}

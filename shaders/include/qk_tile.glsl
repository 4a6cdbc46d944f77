// A register tile of q . k: ROWS query rows against WIDTH keys a lane, for attention and the score kernels.
// Lanes own keys; the query values are loaded by 8 lanes, a row each, and spread by shuffles (on software
// drivers one by a constant costs a fraction of a broadcast), so any subgroup of at least 8 lanes works.
// Loads are 4 floats wide: `quads` = head dimension / 4 of them a row.
#include "cache.glsl"
#ifdef TEXELS
#include "texel.glsl"
#define Quads usamplerBuffer  // four floats at a time, through a view (software drivers) or by address
#define QUAD(from, i) texel(from, i)
#else
#define Quads InU64x2
#define QUAD(from, i) from.v[i]
#endif
layout(constant_id = 1) const uint ROWS = 16;   // query rows of the tile
layout(constant_id = 2) const uint QUADS = 64;  // head dimension / 4
layout(constant_id = 3) const uint STAGED = 0;  // keep the queries in private memory (software drivers)
layout(constant_id = 4) const uint CHUNK = 1;    // unrolling by rows outside the inner loops
const uint BANDS = (ROWS + 7) / 8;              // a band is what 8 lanes load at once
const uint WIDTH = 4;                           // keys a lane: two neighbours, twice
const uint TILE = WIDTH * gl_WorkGroupSize.x;   // keys a tile
#define INFINITY uintBitsToFloat(0x7f800000u)

#define EACH_ROW(r) \
    for (uint chunk = 0; chunk < ROWS; chunk += CHUNK) [[unroll]] for (uint r = chunk; r < chunk + CHUNK; r++)

uint lane_row(uint band) { return min(band * 8 + (gl_SubgroupInvocationID & 7), ROWS - 1); }

// The j-th key of this lane, relative to the tile: 2l, 2l+1, then the same behind all lanes' pairs.
uint lane_key(uint j) { return (j >> 1) * 2 * gl_WorkGroupSize.x + 2 * gl_LocalInvocationID.x + (j & 1); }

void unpack_quad(u64vec2 x, out float o[4]) {
    vec2 a = unpack_f32x2(x.x), b = unpack_f32x2(x.y);
    o[0] = a.x; o[1] = a.y; o[2] = b.x; o[3] = b.y;
}

// Four elements of a cache.
void cache_quad(Quads from, uint i, out float o[4]) {
    if (HALF == 0) {
        unpack_quad(QUAD(from, i), o);
        return;
    }
#ifdef TEXELS
    u64vec2 two = texel(from, i / 2);
    vec4 x = unpack_half_quad(unpack32((i & 1) != 0 ? two.y : two.x));
#else
    vec4 x = unpack_half_quad(unpack32(InU64(from).v[i]));
#endif
    [[unroll]] for (uint t = 0; t < 4; t++) o[t] = x[t];
}

float s[ROWS * WIDTH];                             // the tile
float staged[STAGED != 0 ? BANDS * QUADS * 4 : 1]; // this lane's row of each band
uint q_at[BANDS];                                  // where it starts in q, in quads; set by the shader

void stage_queries(Quads q) {
    if (STAGED == 0) return;
    for (uint i = 0; i < BANDS; i++) {
        uint at = q_at[i];
        for (uint c = 0; c < QUADS; c++) {
            float x[4];
            unpack_quad(QUAD(q, at + c), x);
            [[unroll]] for (uint t = 0; t < 4; t++) staged[(i * QUADS + c) * 4 + t] = x[t];
        }
    }
}

// k_at: where the key of lane_key(j) starts, in quads.
void qk_tile(Quads q, Quads k, uint k_at[WIDTH]) {
    float acc[ROWS][WIDTH];
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint j = 0; j < WIDTH; j++) acc[r][j] = 0.0;
    [[dont_unroll]] for (uint c = 0; c < QUADS; c++) {
        float key[WIDTH][4];
        [[unroll]] for (uint j = 0; j < WIDTH; j++) cache_quad(k, k_at[j] + c, key[j]);
        [[unroll]] for (uint i = 0; i < BANDS; i++) {
            float mine[4];
            if (STAGED == 0) unpack_quad(QUAD(q, q_at[i] + c), mine);
            else [[unroll]] for (uint t = 0; t < 4; t++) mine[t] = staged[(i * QUADS + c) * 4 + t];
            [[unroll]] for (uint p = 0; p < 8; p++) {
                if (i * 8 + p >= ROWS) break;
                float row[4];
                [[unroll]] for (uint t = 0; t < 4; t++) row[t] = subgroupShuffle(mine[t], p);
                [[unroll]] for (uint j = 0; j < WIDTH; j++)
                    acc[i * 8 + p][j] += (row[0] * key[j][0] + row[1] * key[j][1])
                        + (row[2] * key[j][2] + row[3] * key[j][3]);
            }
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint j = 0; j < WIDTH; j++) s[r * WIDTH + j] = acc[r][j];
}

// A register tile of q . k: ROWS query rows against WIDTH keys a lane, for attention and the score kernels.
// Lanes own keys; the query values are loaded by 8 lanes, a row each, and spread by broadcast, so any
// subgroup of at least 8 lanes works. Loads are 4 floats wide: `quads` = head dimension / 4 of them a row.
layout(constant_id = 1) const uint ROWS = 16;  // query rows of the tile, at most 16
const uint BANDS = (ROWS + 7) / 8;             // a band is what 8 lanes load at once
const uint WIDTH = 4;                          // keys a lane: two neighbours, twice
const uint TILE = WIDTH * gl_WorkGroupSize.x;  // keys a tile

uint lane_row(uint band) { return band * 8 + (gl_SubgroupInvocationID & 7); }

// The j-th key of this lane, relative to the tile: 2l, 2l+1, then the same behind all lanes' pairs.
uint lane_key(uint j) { return (j >> 1) * 2 * gl_WorkGroupSize.x + 2 * gl_LocalInvocationID.x + (j & 1); }

void unpack_quad(u64vec2 x, out float o[4]) {
    vec2 a = unpack_f32x2(x.x), b = unpack_f32x2(x.y);
    o[0] = a.x; o[1] = a.y; o[2] = b.x; o[3] = b.y;
}

float dot_tree(float a[4], float b[4]) { return (a[0] * b[0] + a[1] * b[1]) + (a[2] * b[2] + a[3] * b[3]); }

float s[ROWS][WIDTH];  // the tile

// q_at: where the row of lane_row(band) starts, k_at: where the key of lane_key(j) starts, in quads.
void qk_tile(InU64x2 q, uint q_at[BANDS], InU64x2 k, uint k_at[WIDTH], uint quads) {
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint j = 0; j < WIDTH; j++) s[r][j] = 0.0;
    [[dont_unroll]] for (uint c = 0; c < quads; c++) {
        float key[WIDTH][4];
        [[unroll]] for (uint j = 0; j < WIDTH; j++) unpack_quad(k.v[k_at[j] + c], key[j]);
        [[unroll]] for (uint i = 0; i < BANDS; i++) {
            float mine[4];
            unpack_quad(q.v[q_at[i] + c], mine);
            [[unroll]] for (uint p = 0; p < 8; p++) {
                if (i * 8 + p >= ROWS) break;
                float row[4];
                [[unroll]] for (uint t = 0; t < 4; t++) row[t] = subgroupBroadcast(mine[t], p);
                [[unroll]] for (uint j = 0; j < WIDTH; j++) s[i * 8 + p][j] += dot_tree(row, key[j]);
            }
        }
    }
}

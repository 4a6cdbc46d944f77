// Rows rounded for the products of --precision fast, by whichever kernel makes them, in the layout that a define
// names: PAIRS or VECTOR (include/pairs.glsl), DOT (include/dot_rows.glsl), HALF (include/half_rows.glsl).
// The including shader has step_params, packed, and `octet`, which may be asked for the same elements twice.
#ifdef HALF
#include "half_rows.glsl"
#include "reduce.glsl"
#else
#ifdef DOT
#include "dot_rows.glsl"
#else
#include "pairs.glsl"
#endif
#include "round.glsl"
#endif
#ifdef PAIRS
const uint SLOTS = 2;     // rows that a lane makes together
const uint TOGETHER = 4;  // pairs of a workgroup: whole cache lines are then written by one processor core
#else
const uint SLOTS = 1;
const uint TOGETHER = 1;
#endif
const uint WORKGROUP_ROWS = SLOTS * TOGETHER;  // of a workgroup

// Elements 8 at to 8 at + 7 of the lane's row `slot`.
void octet(uint slot, uint at, out vec4 v[2]);

void unpack_octet(u64vec4 words, out vec4 v[2]) {
    v[0] = unpack_quad(words.xy);
    v[1] = unpack_quad(words.zw);
}

uint row0;  // the first of the workgroup's rows

// Makes `first` the first row; false where no row of the layout begins there.
bool packs_rows(uint first) {
    row0 = first;
#ifdef PAIRS
    return first < ((step_params.tokens + GROUP_ROWS - 1) & ~(GROUP_ROWS - 1));
#else
    return first < step_params.tokens;
#endif
}

// Rows past the end repeat the last one: they are multiplied, but not stored.
uint valid_row(uint row) { return min(row, step_params.tokens - 1); }

// The lane's rows among those of the workgroup.
uint own_row(uint slot) { return SLOTS * (gl_LocalInvocationID.x % TOGETHER) + slot; }

#ifdef HALF
// The whole row, by one workgroup: under a power of two that its largest value says.
void pack_rows(uint k) {
    vec4 v[2];
    float largest = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < k / 8; i += gl_WorkGroupSize.x) {
        octet(0, i, v);
        [[unroll]] for (uint t = 0; t < 2; t++) {
            vec4 a = abs(v[t]);
            largest = max(max(largest, max(a.x, a.y)), max(a.z, a.w));
        }
    }
    // With a largest value of 2^e: scale = 2^(e - 14), within what both it and its inverse can be.
    uint exponent = clamp(floatBitsToUint(workgroup_largest(largest)) >> 23, 15u, 254u);
    float scale = uintBitsToFloat((exponent - 14u) << 23), inverse = uintBitsToFloat((268u - exponent) << 23);
    OutU64 halves = OutU64(uint64_t(packed) + half_row_at(row0, k));
    for (uint i = gl_LocalInvocationID.x; i < k / 8; i += gl_WorkGroupSize.x) {
        octet(0, i, v);
        [[unroll]] for (uint t = 0; t < 2; t++) {
            vec4 a = v[t] * inverse;
            halves.v[2 * i + t] = pack64(uvec2(pack_half(a.x, a.y), pack_half(a.z, a.w)));
        }
    }
    if (gl_LocalInvocationID.x == 0) halves.v[k / 4] = uint64_t(floatBitsToUint(scale));
}
#else
// 32 elements of row `slot` as levels; returns their scale.
float round_slot(uint slot, uint run, out int levels[RUN]) {
    float v[RUN];
    [[unroll]] for (int i = 0; i < RUN / 8; i++) {
        vec4 eight[2];
        octet(slot, RUN / 8 * run + i, eight);
        [[unroll]] for (int t = 0; t < 8; t++) v[8 * i + t] = eight[t >> 2][t & 3];
    }
    return round_run(v, levels);
}

void pack_run(uint k, uint run) {
#ifdef OPEN_RUN
    OPEN_RUN(run);  // what the including shader reads once for all of it
#endif
    int level[SLOTS][RUN];
    float scale[SLOTS];
    [[unroll]] for (int s = 0; s < SLOTS; s++) scale[s] = round_slot(s, run, level[s]);
#ifdef PAIRS
    uint64_t at = uint64_t(packed) + (uint64_t(row0 / GROUP_ROWS) * (k / RUN) + run) * RUN_TEXELS * 16;
    uint pair = (row0 + own_row(0)) % GROUP_ROWS / 2;
    [[unroll]] for (int i = 0; i < RUN; i += 8) {
        uvec4 w;
        [[unroll]] for (int t = 0; t < 4; t++) {
            int e = i + 2 * t;
            ivec4 levels = ivec4(level[0][e], level[0][e + 1], level[1][e], level[1][e + 1]) + 128;
            w[t] = uint(levels.x | (levels.y << 8) | (levels.z << 16) | (levels.w << 24));
        }
        OutU64x2(at + 16 * i + 16 * pair).v[0] = u64vec2(pack64(w.xy), pack64(w.zw));
    }
    OutU64(at + SCALES_AT * 16 + 8 * pair).v[0] = pack_f32x2(vec2(scale[0], scale[1]));
#endif
#ifdef VECTOR
    // The levels of elements 4e + 2 and 4e in a word, those of 4e + 3 and 4e + 1 in the next; then the scale and
    // the scaled sum of each half.
    OutU64x2 texels = OutU64x2(uint64_t(packed) + VECTOR_TEXELS * 16 * run);
    int sum[2] = {0, 0};
    [[unroll]] for (int e = 0; e < RUN / 8; e++) {
        uvec4 w;
        [[unroll]] for (int t = 0; t < 4; t++) {
            int at = 8 * e + 4 * (t >> 1) + (t & 1);
            w[t] = uint(level[0][at + 2] + (level[0][at] << 16));
            sum[e >> 1] += level[0][at] + level[0][at + 2];
        }
        texels.v[e] = u64vec2(pack64(w.xy), pack64(w.zw));
    }
    texels.v[4] = pack_quad(vec4(scale[0], scale[0] * float(sum[0]), scale[0] * float(sum[1]), 0.0));
#endif
#ifdef DOT
    uvec2 levels[4] = uvec2[4](uvec2(0), uvec2(0), uvec2(0), uvec2(0));
    ivec2 sums = ivec2(0);
    [[unroll]] for (uint i = 0; i < RUN; i++) {
        levels[i >> 3][(i >> 2) & 1u] |= uint(level[0][i] & 0xff) << (8u * (i & 3u));
        sums[i >> 4] += level[0][i];
    }
    uint64_t row_at = uint64_t(packed) + dot_row_at(row0, k);
    [[unroll]] for (uint i = 0; i < 4; i++) OutU64(row_at + RUN * run).v[i] = pack64(levels[i]);
    OutU64(row_at + k).v[run] = pack64(pack_head(scale[0], sums));
#endif
}

// The workgroup's rows. A loop costs a software driver half a run to enter.
void pack_rows(uint k) {
    for (uint run = gl_LocalInvocationID.x / TOGETHER; run < k / RUN; run += gl_WorkGroupSize.x / TOGETHER)
        pack_run(k, run);
}
#endif

// As much of them as a workgroup makes without a loop: its share by gl_WorkGroupID.x.
void pack_share(uint k) {
#ifdef HALF
    pack_rows(k);
#else
    uint run = (gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationID.x) / TOGETHER;
    if (run < k / RUN) pack_run(k, run);
#endif
}

// Where attention.comp leaves a row: the output itself, or a range's share of it for attention_merge. PACKED: the
// heads of a single token are kept in shared memory until all are there, then rounded for products.
#ifdef PACKED
#include "pack_rows.glsl"
shared float outputs[ROWS * QUADS * 4];

void octet(uint slot, uint at, out vec4 v[2]) {
    uint from = 8 * at - place(0) * QUADS * 4;
    [[unroll]] for (uint t = 0; t < 8; t++) v[t >> 2][t & 3] = outputs[from + t];
}

void pack_heads() {
    uint start = place(0) * QUADS / 8, runs = valid * QUADS / 8;
    for (uint run = gl_LocalInvocationID.x; run < runs; run += gl_WorkGroupSize.x) pack_run(0, start + run);
}
#endif

void store_part(uint r, float total) {
    if (r >= valid) return;
    uint at = gl_WorkGroupID.z * step_params.tokens * heads + place(r);
    for (uint set = 0; set < SETS; set++) {
        uint quad = set * gl_WorkGroupSize.x + gl_LocalInvocationID.x, from = (set * ROWS + r) * 4;
        if (quad < QUADS)
            y.v[at * QUADS + quad] = u64vec2(pack64(floatBitsToUint(vec2(o[from], o[from + 1]))),
                                             pack64(floatBitsToUint(vec2(o[from + 2], o[from + 3]))));
    }
    if (gl_LocalInvocationID.x == 0) {
        stats.v[2 * at] = top[r];
        stats.v[2 * at + 1] = total;
    }
}

void store_row(uint r, float total) {
    uint at = place(r);
    for (uint set = 0; set < SETS; set++) {
        uint quad = set * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
        if (quad >= QUADS || r >= valid) continue;
        float x[4];
        [[unroll]] for (uint j = 0; j < 4; j++) x[j] = o[(set * ROWS + r) * 4 + j] / total;
        if (GATED != 0) {
            float g[4];
            unpack_quad(gate.v[at / heads * gate_stride + (at % heads * 2 + 1) * QUADS + quad], g);
            [[unroll]] for (uint j = 0; j < 4; j++) x[j] *= sigmoid(g[j]);
        }
#ifdef PACKED
        [[unroll]] for (uint j = 0; j < 4; j++) outputs[(r * QUADS + quad) * 4 + j] = x[j];
#endif
#ifndef PACKED
        y.v[at * QUADS + quad] = u64vec2(pack64(floatBitsToUint(vec2(x[0], x[1]))),
                                         pack64(floatBitsToUint(vec2(x[2], x[3]))));
#endif
    }
}

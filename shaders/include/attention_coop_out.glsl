// Where attention.coop.comp leaves its output: a subgroup's matrices of M rows through its part of q_tile (which
// nobody needs any more) to the rows that exist.
void store(uint i) {
    const uint WIDE = O_RIGHT * N / 4;
    uint own = gl_SubgroupID * M * WIDE;
    [[unroll]] for (uint j = 0; j < O_RIGHT; j++)
        coopMatStore(o[i * O_RIGHT + j], q_tile, own + j * N / 4, WIDE, gl_CooperativeMatrixLayoutRowMajor);
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    [[dont_unroll]] for (uint e = gl_SubgroupInvocationID; e < M * WIDE; e += SUBGROUP) {
        uint row = wave_row + M * i + e / WIDE, quad = wave * WIDE + e % WIDE, at = place(row);
        if (row >= valid) continue;
        vec4 x = uintBitsToFloat(q_tile[own + e]) / sums[row];
        if (GATED != 0) {
            vec4 g = unpack_quad(gate.v[at / heads * gate_stride + (at % heads * 2 + 1) * QUADS + quad]);
            [[unroll]] for (uint t = 0; t < 4; t++) x[t] *= sigmoid(g[t]);
        }
        y.v[at * QUADS + quad] = pack_quad(x);
    }
    subgroupBarrier();
}

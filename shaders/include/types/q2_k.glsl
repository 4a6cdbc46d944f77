// 84 bytes: 16 bytes of 4-bit scales (low) and minima (high), 64 bytes of 2-bit quants, halves d and dmin.
// w = d scale q - dmin minimum, in groups of 16. Chunk c has bits 2 (c % 4) of 32 of the bytes.
#define Q_MIN 0
#define Q_MAX 3
#define SCALE_RUN 16
#include "quants.glsl"
#define SCALE_RUN 16
#define BLOCK 256
#define UNIT 128
#define BLOCK_BYTES 84
struct Block {
    uvec4 scales;  // byte g: group g
    float d, dmin;
};
Block open_block(Address at) {
    uint64_t w[3];
    bytes18(at, w);
    // The block starts at a multiple of 4, so both halves lie in one aligned word.
    uint64_t last = word((at + 80) & ~Address(7)) >> ((uint(at) & 4u) * 8u);
    return Block(uvec4(unpack32(w[0]), unpack32(w[1])), half_in(last, 0), half_in(last, 16));
}
struct Unit { uvec2 q[4]; };
Unit open_unit(Block b, Address at, uint u) {
    Unit unit;
    bytes32(at + 16 + 32 * u, unit.q);
    return unit;
}
Chunk open_chunk(Block b, Unit unit, uint c) {
    Chunk chunk;
    [[unroll]] for (int i = 0; i < 4; i++) chunk.q[i] = (unit.q[i] >> (2u * (c & 3u))) & 0x03030303u;
    uint s = pick(b.scales, c >> 1) >> (16u * (c & 1u));
    [[unroll]] for (int i = 0; i < 2; i++)
        chunk.s[i] = vec2(b.d * float(int((s >> (8 * i)) & 15u)),
                          -b.dmin * float(int((s >> (8 * i + 4)) & 15u)));
    return chunk;
}

// 136 bytes: half d, 16 bits of two high scale bits, 32 bits of four low ones, 128 bytes of nibbles by groups
// of 32 (16 bytes each, low nibbles first). w = d (scale - 32) codebook[q].
#define IQ4_CODEBOOK
#include "quants.glsl"
#define BLOCK 256
#define UNIT 32
#define BLOCK_BYTES 136
struct Block {
    uvec2 scales;  // low: nibble g, high: bits 2 g
    float d;
};
Block open_block(Address at) {
    uvec2 w = unpack32(word(at));
    return Block(uvec2(w.y, w.x >> 16), unpackHalf2x16(w.x).x);
}
struct Unit { uint64_t low, high; };
Unit open_unit(Block b, Address at, uint u) {
    return Unit(word(at + 8 + 16 * u), word(at + 16 + 16 * u));
}
Chunk open_chunk(Block b, Unit unit, uint c) {
    Chunk chunk;
    nibbles(unit.low, unit.high, chunk.q);
    uint s = ((b.scales.x >> (4u * c)) & 15u) | (((b.scales.y >> (2u * c)) & 3u) << 4);
    chunk.s[0] = chunk.s[1] = vec2(b.d * float(int(s) - 32), 0.0);
    return chunk;
}

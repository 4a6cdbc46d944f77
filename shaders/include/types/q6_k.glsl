// 210 bytes: 128 bytes of low nibbles, 64 bytes of two high bits, 16 signed byte scales, half d.
// w = d scale (q - 32), in groups of 16. Of each 128 elements, chunk j has low nibbles in 32 bytes (j % 2),
// in their upper halves from j = 2 on, and bits 2 j of 32 bytes.
#define Q_MIN -32
#define Q_MAX 31
#define SCALE_RUN 16
#include "quants.glsl"
#define SCALE_RUN 16
#define BLOCK 256
#define UNIT 128
#define BLOCK_BYTES 210
struct Block {
    uvec4 scales;  // byte g: group g, signed
    float d;
};
Block open_block(Address at) {
    uint64_t w[3];
    bytes18(at + 192, w);
    return Block(uvec4(unpack32(w[0]), unpack32(w[1])), half_in(w[2], 0));
}
struct Unit { uvec2 even[4], odd[4], high[4]; };  // low nibbles of chunks 0 and 2, of 1 and 3; the high bits
Unit open_unit(Block b, Address at, uint u) {
    Unit unit;
    bytes32(at + 64 * u, unit.even);
    bytes32(at + 64 * u + 32, unit.odd);
    bytes32(at + 128 + 32 * u, unit.high);
    return unit;
}
Chunk open_chunk(Block b, Unit unit, uint c) {
    Chunk chunk;
    [[unroll]] for (int i = 0; i < 4; i++) {
        uvec2 low = ((c & 1u) == 0u ? unit.even[i] : unit.odd[i]) >> (2u * (c & 2u));
        uvec2 high = unit.high[i] >> (2u * (c & 3u));
        chunk.q[i] = minus((low & 0x0f0f0f0fu) | ((high & 0x03030303u) << 4), 0x20202020u);
    }
    uint s = pick(b.scales, c >> 1) >> (16u * (c & 1u));
    chunk.s[0] = vec2(b.d * float(int(s << 24) >> 24), 0.0);
    chunk.s[1] = vec2(b.d * float(int(s << 16) >> 24), 0.0);
    return chunk;
}

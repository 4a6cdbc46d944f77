// 110 bytes: 32 bytes of third bits, 64 bytes of 2-bit quants, 12 bytes of 6-bit scales, half d.
// w = d (scale - 32) (q - 4), in groups of 16. Chunk c has bits 2 (c % 4) of 32 of the bytes and third bit c.
#define Q_MIN -4
#define Q_MAX 3
#define SCALE_RUN 16
#include "quants.glsl"
#define SCALE_RUN 16
#define BLOCK 256
#define UNIT 128
#define BLOCK_BYTES 110
struct Block {
    uvec2 third[4];
    uvec4 scales;  // byte g: group g, signed
    float d;
};
Block open_block(Address at) {
    uint64_t w[3];
    bytes18(at + 96, w);
    uvec2 low = unpack32(w[0]);  // four low bits: groups 0 to 7 in the low nibbles, 8 to 15 in the high ones
    uvec4 high = (uvec4(uint(w[1])) >> uvec4(0, 2, 4, 6)) & 0x03030303u;  // two high bits: groups 4 i + byte
    uvec4 scales = (uvec4(low, low >> 4) & 0x0f0f0f0fu) | (high << 4);
    Block b;
    bytes32(at, b.third);
    b.scales = uvec4(minus(scales.xy, 0x20202020u), minus(scales.zw, 0x20202020u));
    b.d = half_in(w[1], 32);
    return b;
}
struct Unit { uvec2 q[4]; };
Unit open_unit(Block b, Address at, uint u) {
    Unit unit;
    bytes32(at + 32 + 32 * u, unit.q);
    return unit;
}
Chunk open_chunk(Block b, Unit unit, uint c) {
    Chunk chunk;
    [[unroll]] for (int i = 0; i < 4; i++)
        chunk.q[i] = minus(((unit.q[i] >> (2u * (c & 3u))) & 0x03030303u)
                           | (((b.third[i] >> c) & 0x01010101u) << 2), 0x04040404u);
    uint s = pick(b.scales, c >> 1) >> (16u * (c & 1u));
    chunk.s[0] = vec2(b.d * float(int(s << 24) >> 24), 0.0);
    chunk.s[1] = vec2(b.d * float(int(s << 16) >> 24), 0.0);
    return chunk;
}

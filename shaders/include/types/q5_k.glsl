// 176 bytes: head, 32 bytes of fifth bits (bit g: group g), 128 bytes of nibbles as in Q4_K.
// w = d scale q - dmin minimum.
#define Q_MIN 0
#define Q_MAX 31
#include "quants.glsl"
#include "k_scales.glsl"
#define BLOCK 256
#define UNIT 64
#define BLOCK_BYTES 176
struct Block {
    Scales scales;
    uvec2 fifth[4];
};
Block open_block(Address at) {
    Block b;
    b.scales = open_scales(at);
    words32(at + 16, b.fifth);
    return b;
}
struct Unit { uvec2 q[4]; };
Unit open_unit(Block b, Address at, uint u) {
    Unit unit;
    words32(at + 48 + 32 * u, unit.q);
    return unit;
}
Chunk open_chunk(Block b, Unit unit, uint c) {
    Chunk chunk;
    [[unroll]] for (int i = 0; i < 4; i++)
        chunk.q[i] = ((unit.q[i] >> (4u * (c & 1u))) & 0x0f0f0f0fu)
                     | (((b.fifth[i] >> c) & 0x01010101u) << 4);
    chunk.s[0] = chunk.s[1] = group_scale(b.scales, c);
    return chunk;
}

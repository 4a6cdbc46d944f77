// 144 bytes: head, 128 bytes of nibbles; each 32 bytes hold two groups, the first in the low nibbles.
// w = d scale q - dmin minimum.
#define Q_MIN 0
#define Q_MAX 15
#include "quants.glsl"
#include "k_scales.glsl"
#define BLOCK 256
#define UNIT 64
#define BLOCK_BYTES 144
#define Block Scales
Block open_block(Address at) { return open_scales(at); }
struct Unit { uvec2 q[4]; };
Unit open_unit(Block b, Address at, uint u) {
    Unit unit;
    words32(at + 16 + 32 * u, unit.q);
    return unit;
}
Chunk open_chunk(Block b, Unit unit, uint c) {
    Chunk chunk;
    [[unroll]] for (int i = 0; i < 4; i++) chunk.q[i] = (unit.q[i] >> (4u * (c & 1u))) & 0x0f0f0f0fu;
    chunk.s[0] = chunk.s[1] = group_scale(b, c);
    return chunk;
}

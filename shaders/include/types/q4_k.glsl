// 144 bytes: head, 128 bytes of nibbles; each 32 bytes hold two groups, the first in the low nibbles.
// w = d scale q - dmin minimum.
#include "quants.glsl"
#include "k_scales.glsl"
#define BLOCK 256
#define BLOCK_BYTES 144
Chunk open_chunk(Block b, uint64_t at, uint c) {
    Chunk chunk;
    words32(at + 16 + 32 * (c >> 1), chunk.q);
    [[unroll]] for (int i = 0; i < 4; i++) chunk.q[i] = (chunk.q[i] >> (4u * (c & 1u))) & 0x0f0f0f0fu;
    chunk.s[0] = chunk.s[1] = group_scale(b, c);
    return chunk;
}

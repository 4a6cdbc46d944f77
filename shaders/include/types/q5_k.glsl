// 176 bytes: head, 32 bytes of fifth bits (bit g: group g), 128 bytes of nibbles as in Q4_K.
// w = d scale q - dmin minimum.
#include "quants.glsl"
#include "k_scales.glsl"
#define BLOCK 256
#define BLOCK_BYTES 176
Chunk open_chunk(Block b, uint64_t at, uint c) {
    Chunk chunk;
    uvec2 fifth[4];
    words32(at + 16, fifth);
    words32(at + 48 + 32 * (c >> 1), chunk.q);
    [[unroll]] for (int i = 0; i < 4; i++)
        chunk.q[i] = ((chunk.q[i] >> (4u * (c & 1u))) & 0x0f0f0f0fu) | (((fifth[i] >> c) & 0x01010101u) << 4);
    chunk.s[0] = chunk.s[1] = group_scale(b, c);
    return chunk;
}

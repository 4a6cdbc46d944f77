// 18 bytes: half d, 16 bytes of nibbles. w = d codebook[q].
#define IQ4_CODEBOOK
#include "quants.glsl"
#include "single.glsl"
#define BLOCK_BYTES 18
Unit open_unit(Block b, Address at, uint u) {
    uint64_t w[3];
    bytes18(at, w);
    Chunk chunk;
    nibbles(funnel(w[0], w[1], 16u), funnel(w[1], w[2], 16u), chunk.q);
    chunk.s[0] = chunk.s[1] = vec2(half_in(w[0], 0), 0.0);
    return chunk;
}

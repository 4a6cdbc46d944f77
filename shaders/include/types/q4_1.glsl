// 20 bytes: halves d and m, 16 bytes of nibbles. w = d q + m.
#define Q_MIN 0
#define Q_MAX 15
#include "quants.glsl"
#include "single.glsl"
#define BLOCK_BYTES 20
Unit open_unit(Block b, Address at, uint u) {
    uint64_t w[3];
    bytes18(at, w);
    Chunk chunk;
    nibbles(funnel(w[0], w[1], 32u), funnel(w[1], w[2], 32u), chunk.q);
    chunk.s[0] = chunk.s[1] = vec2(half_in(w[0], 0), half_in(w[0], 16));
    return chunk;
}

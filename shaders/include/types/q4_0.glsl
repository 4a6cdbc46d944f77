// 18 bytes: half d, 16 bytes of nibbles. w = d (q - 8).
#define Q_MIN -8
#define Q_MAX 7
#include "quants.glsl"
#include "single.glsl"
#define BLOCK_BYTES 18
Unit open_unit(Block b, Address at, uint u) {
    uint64_t w[3];
    bytes18(at, w);
    Chunk chunk;
    nibbles(funnel(w[0], w[1], 16u), funnel(w[1], w[2], 16u), chunk.q);
    [[unroll]] for (int i = 0; i < 4; i++) chunk.q[i] = minus(chunk.q[i], 0x08080808u);
    chunk.s[0] = chunk.s[1] = vec2(half_in(w[0], 0), 0.0);
    return chunk;
}

// 22 bytes: half d, 32 fifth bits, 16 bytes of nibbles. w = d (q - 16).
#define Q_MIN -16
#define Q_MAX 15
#include "quants.glsl"
#include "single.glsl"
#define BLOCK_BYTES 22
Unit open_unit(Block b, Address at, uint u) {
    uint64_t w[5];
    bytes34(at, w);
    uint fifth = uint(w[0] >> 16);
    Chunk chunk;
    nibbles(funnel(w[0], w[1], 48u), funnel(w[1], w[2], 48u), chunk.q);
    [[unroll]] for (int i = 0; i < 4; i++)
        chunk.q[i] = minus(chunk.q[i] | (spread(fifth >> (8 * i)) << 4), 0x10101010u);
    chunk.s[0] = chunk.s[1] = vec2(half_in(w[0], 0), 0.0);
    return chunk;
}

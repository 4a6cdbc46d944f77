// 24 bytes: halves d and m, 32 fifth bits, 16 bytes of nibbles. w = d q + m.
#define Q_MIN 0
#define Q_MAX 31
#include "quants.glsl"
#include "single.glsl"
#define BLOCK_BYTES 24
Unit open_unit(Block b, Address at, uint u) {
    uint64_t w[3];
    words3(at, w);
    uint64_t head = w[0];
    uint fifth = uint(head >> 32);
    Chunk chunk;
    nibbles(w[1], w[2], chunk.q);
    [[unroll]] for (int i = 0; i < 4; i++) chunk.q[i] |= spread(fifth >> (8 * i)) << 4;
    chunk.s[0] = chunk.s[1] = vec2(half_in(head, 0), half_in(head, 16));
    return chunk;
}

// 34 bytes: half d, 32 signed bytes. w = d q.
#include "quants.glsl"
#include "single.glsl"
#define BLOCK_BYTES 34
Unit open_unit(Block b, Address at, uint u) {
    uint64_t w[5];
    bytes34(at, w);
    Chunk chunk;
    [[unroll]] for (int i = 0; i < 4; i++) chunk.q[i] = unpack32(funnel(w[i], w[i + 1], 16u));
    chunk.s[0] = chunk.s[1] = vec2(half_in(w[0], 0), 0.0);
    return chunk;
}

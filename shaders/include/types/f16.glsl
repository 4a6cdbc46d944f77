// IEEE half precision.
#include "floats.glsl"
#define BLOCK_BYTES 16
struct Unit { u64vec2 words; };
#define Chunk Unit
Unit open_unit(Block b, Address at, uint u) { return Unit(words2(at)); }
Chunk open_chunk(Block b, Unit unit, uint c) { return unit; }
vec2 scale8(Chunk chunk, uint h) { return vec2(1.0, 0.0); }
void quants8(Chunk chunk, uint h, out float q[8]) {
    [[unroll]] for (int t = 0; t < 4; t++) {
        vec2 pair = unpackHalf2x16(unpack32(chunk.words[t >> 1])[t & 1]);
        q[2 * t] = pair.x;
        q[2 * t + 1] = pair.y;
    }
}

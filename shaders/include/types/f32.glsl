// float32.
#include "floats.glsl"
#define BLOCK_BYTES 32
struct Unit { u64vec4 words; };
#define Chunk Unit
Unit open_unit(Block b, Address at, uint u) { return Unit(words4(at)); }
Chunk open_chunk(Block b, Unit unit, uint c) { return unit; }
vec2 scale8(Chunk chunk, uint h) { return vec2(1.0, 0.0); }
void quants8(Chunk chunk, uint h, out float q[8]) {
    [[unroll]] for (int t = 0; t < 4; t++) {
        vec2 pair = unpack_f32x2(chunk.words[t]);
        q[2 * t] = pair.x;
        q[2 * t + 1] = pair.y;
    }
}

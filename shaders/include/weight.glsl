// Weights as GGML stores them. The define TYPE_<NAME> selects types/<name>.glsl, the one place that knows
// the type's layout. A row is walked by blocks, a block by units, a unit by chunks, a chunk by 8 elements:
//   BLOCK, BLOCK_BYTES            elements and bytes of a block
//   UNIT                          elements of a unit: what shares bytes, so that no byte is read twice
//   CHUNK                         elements of a chunk: 32, or 8 for plain floats
//   Block open_block(at)          what is read once for the block at this address (its scales)
//   Unit open_unit(b, at, u)      unit u of the block, as stored
//   Chunk open_chunk(b, unit, c)  chunk c of the block, which lies in this unit
//   quants8(chunk, h, q)          elements 8h to 8h + 7 of the chunk, before scaling
//   scale8(chunk, h)              their (scale, offset): weight = scale * q + offset
// Quantised types define SCALE_RUN, the elements that share a scale, and, where all eight bits of a byte are
// not needed, the range Q_MIN to Q_MAX of their quants. Addresses are in bytes; a matrix starts at a multiple
// of 16. words.glsl says where they lie.
#include "words.glsl"
#if defined(TYPE_F32)
#include "types/f32.glsl"
#elif defined(TYPE_F16)
#include "types/f16.glsl"
#elif defined(TYPE_BF16)
#include "types/bf16.glsl"
#elif defined(TYPE_Q4_0)
#include "types/q4_0.glsl"
#elif defined(TYPE_Q4_1)
#include "types/q4_1.glsl"
#elif defined(TYPE_Q5_0)
#include "types/q5_0.glsl"
#elif defined(TYPE_Q5_1)
#include "types/q5_1.glsl"
#elif defined(TYPE_Q8_0)
#include "types/q8_0.glsl"
#elif defined(TYPE_Q2_K)
#include "types/q2_k.glsl"
#elif defined(TYPE_Q3_K)
#include "types/q3_k.glsl"
#elif defined(TYPE_Q4_K)
#include "types/q4_k.glsl"
#elif defined(TYPE_Q5_K)
#include "types/q5_k.glsl"
#elif defined(TYPE_Q6_K)
#include "types/q6_k.glsl"
#elif defined(TYPE_IQ4_NL)
#include "types/iq4_nl.glsl"
#elif defined(TYPE_IQ4_XS)
#include "types/iq4_xs.glsl"
#endif

// Loops over parts stay loops, or their bodies would leave the CPU's instruction cache, unless they run once.
#if BLOCK == UNIT
#define UNIT_LOOP [[unroll]]
#else
#define UNIT_LOOP [[dont_unroll]]
#endif
#if UNIT == CHUNK
#define CHUNK_LOOP [[unroll]]
#else
#define CHUNK_LOOP [[dont_unroll]]
#endif
#if CHUNK == 8
#define STEP_LOOP [[unroll]]
#else
#define STEP_LOOP [[dont_unroll]]
#endif

// Sums run along 64 elements of k; those sums are added up with what each addition loses (Knuth's TwoSum),
// so that rounding does not grow with k. `unit` counts units from the start of the row.
#define END_OF_SUM(unit) (((unit + 1) * UNIT) % 64 == 0)
void add_exactly(inout float total, inout float lost, inout float x) {
    precise float sum = total + x;
    precise float back = sum - total;
    precise float error = (total - (sum - back)) + (x - back);
    lost += error;
    total = sum;
    x = 0.0;
}

void weights8(Chunk chunk, uint h, out float w[8]) {
    float q[8];
    quants8(chunk, h, q);
    vec2 s = scale8(chunk, h);
    [[unroll]] for (int t = 0; t < 8; t++) w[t] = q[t] * s.x + s.y;
}

// The chunk that starts at element e of a row, for kernels that do not walk rows in order.
Chunk chunk_at(Address row_at, uint e) {
    Address at = row_at + Address(e / BLOCK) * BLOCK_BYTES;
    Block block = open_block(at);
    return open_chunk(block, open_unit(block, at, (e % BLOCK) / UNIT), (e % BLOCK) / CHUNK);
}

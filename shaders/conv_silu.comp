#version 460
#extension GL_GOOGLE_include_directive : require
// Causal depthwise convolution over the last four tokens, then silu. A lane walks all tokens of its two
// channels: the three previous inputs stay in registers, and nobody else touches the lane's state.
#include "include/common.glsl"
#include "include/quads.glsl"
#include "include/gates.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    InU64 x;         // [tokens, channels] float32, rows `stride` pairs apart
    InF32 weight;    // [channels, 4], oldest token first
    InOutU64 state;  // [3, channels]: the inputs before this batch, oldest first
    OutU64 y;        // [tokens, channels]
    InStep step_params;
    uint pairs;      // channels / 2
    uint stride;
};

uint64_t convolved(vec2 w[4], vec2 a, vec2 b, vec2 c, vec2 d) {
    vec2 sum = (w[0] * a + w[1] * b) + (w[2] * c + w[3] * d);
    return pack_f32x2(vec2(silu(sum.x), silu(sum.y)));
}

void main() {
    uint pair = gl_GlobalInvocationID.x, tokens = step_params.tokens, t = 0;
    if (pair >= pairs || tokens == 0) return;
    vec2 w[4], m[7];  // m: three inputs before, then those of UNROLLED tokens
    const uint UNROLLED = 4;
    [[unroll]] for (uint j = 0; j < 4; j++) w[j] = vec2(weight.v[8 * pair + j], weight.v[8 * pair + 4 + j]);
    [[unroll]] for (uint j = 0; j < 3; j++) m[j] = unpack_f32x2(state.v[j * pairs + pair]);
    for (; t + UNROLLED <= tokens; t += UNROLLED) {
        [[unroll]] for (uint j = 0; j < UNROLLED; j++) m[3 + j] = unpack_f32x2(x.v[(t + j) * stride + pair]);
        [[unroll]] for (uint j = 0; j < UNROLLED; j++)
            y.v[(t + j) * pairs + pair] = convolved(w, m[j], m[j + 1], m[j + 2], m[j + 3]);
        [[unroll]] for (uint j = 0; j < 3; j++) m[j] = m[UNROLLED + j];
    }
    for (; t < tokens; t++) {
        m[3] = unpack_f32x2(x.v[t * stride + pair]);
        y.v[t * pairs + pair] = convolved(w, m[0], m[1], m[2], m[3]);
        [[unroll]] for (uint j = 0; j < 3; j++) m[j] = m[j + 1];
    }
    [[unroll]] for (uint j = 0; j < 3; j++) state.v[j * pairs + pair] = pack_f32x2(m[j]);
}

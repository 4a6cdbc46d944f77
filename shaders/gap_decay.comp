#version 460
#extension GL_GOOGLE_include_directive : require
// y = the log decay of each head's state over the tokens dropped before each token; a lane walks a head's tokens.
#include "include/common.glsl"
#include "include/gates.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
layout(constant_id = 1) const uint MEAN = 0;  // a dropped token decays as one with alpha 0, or as the mean so far

layout(push_constant, scalar) uniform Push {
    InF32 alpha;      // [tokens, value_heads], rows gate_stride apart
    InF32 dt_bias;    // [value_heads]
    InF32 a;          // [value_heads], -exp(A_log)
    InU32 gaps;       // [tokens]: tokens dropped before each
    InOutF32 total;   // [value_heads]: sum of the log decays of the step's `past` tokens
    OutF32 y;         // [tokens, value_heads]
    InStep step_params;
    uint value_heads;
    uint gate_stride;
};

void main() {
    uint head = gl_GlobalInvocationID.x, tokens = step_params.tokens, past = step_params.past;
    if (head >= value_heads) return;
    float rate = a.v[head], bias = dt_bias.v[head], sum = total.v[head], typical = rate * softplus(bias);
    for (uint t = 0; t < tokens; t++) {
        float each = MEAN == 0 ? typical : sum / float(max(past + t, 1));
        y.v[t * value_heads + head] = float(gaps.v[t]) * each;
        if (MEAN != 0) sum += rate * softplus(alpha.v[t * gate_stride + head] + bias);
    }
    if (MEAN != 0) total.v[head] = sum;
}

#version 460
#extension GL_GOOGLE_include_directive : require
// Joins what attention left of each range of keys: a workgroup has one head of one token, four columns a lane.
#include "include/common.glsl"
#include "include/quads.glsl"
#include "include/nan.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
layout(constant_id = 1) const uint QUADS = 64;  // head dimension / 4
layout(constant_id = 2) const uint GATED = 0;
#define INFINITY uintBitsToFloat(0x7f800000u)

layout(push_constant, scalar) uniform Push {
    InU64x2 parts;  // [splits, tokens, heads, dim] float32, weighted by exp(score - maximum)
    InF32 stats;    // [splits, tokens, heads, 2]: maximum, sum of the weights
    InU64x2 gate;   // [tokens, heads, 2 * dim], the gate in each head's second half (GATED); rows
                    // gate_stride groups of four apart
    OutU64x2 y;     // [tokens, heads, dim]
    InStep step_params;
    uint heads;
    uint context;
    uint gate_stride;
    uint span;      // keys a range
};

void main() {
    uint token = gl_WorkGroupID.x, head = gl_WorkGroupID.y, all = step_params.tokens * heads;
    if (token >= step_params.tokens) return;
    uint at = token * heads + head, keys = min(step_params.past + token + 1, context);
    uint used = (keys + span - 1) / span;
    float most = -INFINITY, sum = 0.0;
    for (uint i = 0; i < used; i++) most = max(most, stats.v[2 * (i * all + at)]);
    for (uint i = 0; i < used; i++)
        sum += stats.v[2 * (i * all + at) + 1] * exp_nan(stats.v[2 * (i * all + at)] - most);
    for (uint quad = gl_LocalInvocationID.x; quad < QUADS; quad += gl_WorkGroupSize.x) {
        vec4 x = vec4(0.0);
        for (uint i = 0; i < used; i++) {
            float weight = exp_nan(stats.v[2 * (i * all + at)] - most);
            x += weight * unpack_quad(parts.v[(i * all + at) * QUADS + quad]);
        }
        x /= sum;
        if (GATED != 0) {
            vec4 g = unpack_quad(gate.v[token * gate_stride + (head * 2 + 1) * QUADS + quad]);
            x *= vec4(sigmoid(g.x), sigmoid(g.y), sigmoid(g.z), sigmoid(g.w));
        }
        y.v[at * QUADS + quad] = pack_quad(x);
    }
}

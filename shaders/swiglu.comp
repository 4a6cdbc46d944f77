#version 460
#extension GL_GOOGLE_include_directive : require
// y = silu(gate) * up, row by row: four values a lane at a time.
#include "include/common.glsl"
#include "include/quads.glsl"
#include "include/gates.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
layout(constant_id = 1) const uint QUADS = 32;  // groups of four values that a lane works through

layout(push_constant, scalar) uniform Push {
    InU64x2 gate;  // [tokens, n] float32, rows `stride` groups of four apart
    InU64x2 up;    // the same
    OutU64x2 y;    // [tokens, n], dense
    InStep step_params;
    uint n;        // groups of four values
    uint stride;
};

void main() {
    uint row = gl_WorkGroupID.y;
    if (row >= step_params.tokens) return;
    uint base = gl_WorkGroupID.x * gl_WorkGroupSize.x * QUADS + gl_LocalInvocationID.x;
    for (uint i = 0; i < QUADS; i++) {
        uint at = base + i * gl_WorkGroupSize.x;
        if (at >= n) return;
        vec4 g = unpack_quad(gate.v[row * stride + at]), u = unpack_quad(up.v[row * stride + at]);
        y.v[row * n + at] = pack_quad(vec4(silu(g.x), silu(g.y), silu(g.z), silu(g.w)) * u);
    }
}

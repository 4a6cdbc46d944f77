#version 460
#extension GL_GOOGLE_include_directive : require
// y = silu(gate) * up over all values of the valid rows, which are contiguous: four values a lane at a time.
#include "include/common.glsl"
#include "include/quads.glsl"
#include "include/gates.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
layout(constant_id = 1) const uint QUADS = 32;  // groups of four values that a lane works through

layout(push_constant, scalar) uniform Push {
    InU64x2 gate;  // [tokens, n] float32
    InU64x2 up;    // [tokens, n]
    OutU64x2 y;    // [tokens, n]
    InStep step_params;
    uint n;
};

void main() {
    uint total = step_params.tokens * n, whole = total / 4;
    uint base = gl_WorkGroupID.x * gl_WorkGroupSize.x * QUADS + gl_LocalInvocationID.x;
    for (uint i = 0; i < QUADS; i++) {
        uint at = base + i * gl_WorkGroupSize.x;
        if (4 * at >= total) return;
        // The last group may be short; a buffer has slack behind it that may be read, never written.
        vec4 g = unpack_quad(gate.v[at]), u = unpack_quad(up.v[at]);
        vec4 r = vec4(silu(g.x), silu(g.y), silu(g.z), silu(g.w)) * u;
        if (at < whole) y.v[at] = pack_quad(r);
        else for (uint j = 0; j < total % 4; j++) OutF32(uint64_t(y)).v[4 * at + j] = r[j];
    }
}

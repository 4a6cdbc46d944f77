#version 460
#extension GL_GOOGLE_include_directive : require
#ifdef HALF
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
// y = silu(gate) * up, row by row: four values a lane at a time. PACKED: rounded for products instead.
#include "include/common.glsl"
#include "include/quads.glsl"
#include "include/gates.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
layout(constant_id = 1) const uint QUADS = 32;  // groups of four values that a lane works through

layout(push_constant, scalar) uniform Push {
    InU64x2 gate;   // [tokens, n] float32, rows `stride` groups of four apart
    InU64x2 up;     // the same
#ifdef PACKED
    OutU64 packed;  // [tokens] rows, see include/pack_rows.glsl
#endif
#ifndef PACKED
    OutU64x2 y;     // [tokens, n], dense
#endif
    InStep step_params;
    uint n;         // groups of four values
    uint stride;
};

vec4 gated(vec4 g, vec4 u) { return vec4(silu(g.x), silu(g.y), silu(g.z), silu(g.w)) * u; }

#ifdef PACKED
#include "include/pack_rows.glsl"

void octet(uint slot, uint at, out vec4 v[2]) {
    vec4 g[2], u[2];
    uint64_t row = 16 * uint64_t(valid_row(row0 + own_row(slot))) * uint64_t(stride);
    unpack_octet(InU64x4(uint64_t(gate) + row).v[at], g);
    unpack_octet(InU64x4(uint64_t(up) + row).v[at], u);
    [[unroll]] for (uint t = 0; t < 2; t++) {
        precise vec4 product = gated(g[t], u[t]);
        v[t] = product;
    }
}

void main() {
    if (!packs_rows(gl_WorkGroupID.y * WORKGROUP_ROWS)) return;
    pack_share(4 * n);
}
#endif
#ifndef PACKED
void main() {
    uint row = gl_WorkGroupID.y;
    if (row >= step_params.tokens) return;
    uint base = gl_WorkGroupID.x * gl_WorkGroupSize.x * QUADS + gl_LocalInvocationID.x;
    for (uint i = 0; i < QUADS; i++) {
        uint at = base + i * gl_WorkGroupSize.x;
        if (at >= n) return;
        vec4 g = unpack_quad(gate.v[row * stride + at]), u = unpack_quad(up.v[row * stride + at]);
        y.v[row * n + at] = pack_quad(gated(g, u));
    }
}
#endif

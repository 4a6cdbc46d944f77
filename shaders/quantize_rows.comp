#version 460
#extension GL_GOOGLE_include_directive : require
#ifdef HALF
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
// Rows of x rounded for the products of --precision fast, where no kernel rounds what it makes itself.
#include "include/common.glsl"
#include "include/quads.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    InF32 x;        // [tokens, k]
    OutU64 packed;  // [tokens] rows, see include/pack_rows.glsl
    InStep step_params;
    uint k;
};
#include "include/pack_rows.glsl"

void octet(uint slot, uint at, out vec4 v[2]) {
    unpack_octet(InU64x4(uint64_t(x) + 4 * uint64_t(valid_row(row0 + own_row(slot))) * uint64_t(k)).v[at], v);
}

void main() {
    if (!packs_rows(gl_WorkGroupID.y * WORKGROUP_ROWS)) return;
    pack_share(k);
}

#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
// Rows of x rounded to float16 under a power of two for each row, for matmul.coop. A workgroup makes a row.
#include "include/common.glsl"
#include "include/quads.glsl"
#include "include/half_rows.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
#include "include/reduce.glsl"

layout(push_constant, scalar) uniform Push {
    InF32 x;        // [tokens, k]
    OutU64 packed;  // [tokens] rows (include/half_rows.glsl)
    InStep step_params;
    uint k;
};

void main() {
    uint row = gl_WorkGroupID.x;
    if (row >= step_params.tokens) return;
    InU64x4 xs = InU64x4(uint64_t(x) + 4 * uint64_t(row) * uint64_t(k));
    float largest = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < k / 8; i += gl_WorkGroupSize.x)
        [[unroll]] for (uint t = 0; t < 4; t++) {
            vec2 pair = abs(unpack_f32x2(xs.v[i][t]));
            largest = max(largest, max(pair.x, pair.y));
        }
    // With a largest value of 2^e: scale = 2^(e - 14), within what both it and its inverse can be.
    uint exponent = clamp(floatBitsToUint(workgroup_largest(largest)) >> 23, 15u, 254u);
    float scale = uintBitsToFloat((exponent - 14u) << 23), inverse = uintBitsToFloat((268u - exponent) << 23);
    OutU64 halves = OutU64(uint64_t(packed) + half_row_at(row, k));
    for (uint i = gl_LocalInvocationID.x; i < k / 8; i += gl_WorkGroupSize.x)
        [[unroll]] for (uint t = 0; t < 2; t++) {
            vec2 a = unpack_f32x2(xs.v[i][2 * t]) * inverse, b = unpack_f32x2(xs.v[i][2 * t + 1]) * inverse;
            halves.v[2 * i + t] = pack64(uvec2(pack_half(a.x, a.y), pack_half(b.x, b.y)));
        }
    if (gl_LocalInvocationID.x == 0) halves.v[k / 4] = uint64_t(floatBitsToUint(scale));
}

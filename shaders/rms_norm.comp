#version 460
#extension GL_GOOGLE_include_directive : require
// y = x / rms(x) * weight, one workgroup a row. The row is read twice rather than kept: any n works.
// Rows of an even length go two values at a time.
#include "include/common.glsl"
#include "include/quads.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
#include "include/reduce.glsl"

layout(push_constant, scalar) uniform Push {
    InF32 x;       // [tokens, n]
    InF32 weight;  // [n]
    OutF32 y;      // [tokens, n], or [n] of the last valid row
    InStep step_params;
    uint n;
    uint last;     // 1: only the last valid row, written to row 0 of y
    float eps;
};

void norm_pairs(uint base, uint out_base) {
    InU64 xs = InU64(uint64_t(x)), ws = InU64(uint64_t(weight));
    OutU64 ys = OutU64(uint64_t(y));
    float sum = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < n / 2; i += gl_WorkGroupSize.x) {
        vec2 v = unpack_f32x2(xs.v[base / 2 + i]);
        sum += v.x * v.x + v.y * v.y;
    }
    float scale = inversesqrt(workgroup_total(sum) / float(n) + eps);
    for (uint i = gl_LocalInvocationID.x; i < n / 2; i += gl_WorkGroupSize.x)
        ys.v[out_base / 2 + i] = pack_f32x2(unpack_f32x2(xs.v[base / 2 + i]) * scale * unpack_f32x2(ws.v[i]));
}

void norm_singles(uint base, uint out_base) {
    float sum = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) {
        float v = x.v[base + i];
        sum += v * v;
    }
    float scale = inversesqrt(workgroup_total(sum) / float(n) + eps);
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x)
        y.v[out_base + i] = x.v[base + i] * scale * weight.v[i];
}

void main() {
    uint tokens = step_params.tokens, row = last == 1 ? tokens - 1 : gl_WorkGroupID.x;
    if (row >= tokens) return;  // no token at all: tokens - 1 wraps around to more than any row
    uint out_row = last == 1 ? 0 : row;
    if (n % 2 == 0) norm_pairs(row * n, out_row * n);
    else norm_singles(row * n, out_row * n);
}

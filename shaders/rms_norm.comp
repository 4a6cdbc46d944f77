#version 460
#extension GL_GOOGLE_include_directive : require
#ifdef HALF
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
// y = x / rms(x) * weight, one workgroup a row. The row is read twice rather than kept: any n works.
// Rows of an even length go two values at a time. PACKED: rounded for products too, or (without KEEP) instead.
#include "include/common.glsl"
#include "include/quads.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
layout(constant_id = 1) const uint KEEP = 1;
#include "include/reduce.glsl"

layout(push_constant, scalar) uniform Push {
    InF32 x;       // [tokens, n]
    InF32 weight;  // [n]
    OutF32 y;      // [tokens, n], or [n] of the last valid row
#ifdef PACKED
    OutU64 packed; // see include/pack_rows.glsl
#endif
    InStep step_params;
    uint n;
    uint last;     // 1: only the last valid row, written to row 0 of y
    float eps;
};

float pairs_scale(uint base) {
    InU64 xs = InU64(uint64_t(x));
    float sum = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < n / 2; i += gl_WorkGroupSize.x) {
        vec2 v = unpack_f32x2(xs.v[base / 2 + i]);
        sum += v.x * v.x + v.y * v.y;
    }
    return inversesqrt(workgroup_total(sum) / float(n) + eps);
}

void store_pairs(uint base, uint out_base, float scale) {
    InU64 xs = InU64(uint64_t(x)), ws = InU64(uint64_t(weight));
    OutU64 ys = OutU64(uint64_t(y));
    for (uint i = gl_LocalInvocationID.x; i < n / 2; i += gl_WorkGroupSize.x)
        ys.v[out_base / 2 + i] = pack_f32x2(unpack_f32x2(xs.v[base / 2 + i]) * scale * unpack_f32x2(ws.v[i]));
}

#ifdef PACKED
#include "include/pack_rows.glsl"
uint base[SLOTS];    // of the lane's own rows
float scale[SLOTS];

void octet(uint slot, uint at, out vec4 v[2]) {
    vec4 w[2];
    unpack_octet(InU64x4(uint64_t(x) + 4 * uint64_t(base[slot])).v[at], v);
    unpack_octet(InU64x4(uint64_t(weight)).v[at], w);
    [[unroll]] for (uint t = 0; t < 2; t++) {
        precise vec4 normed = v[t] * scale[slot] * w[t];
        v[t] = normed;
    }
}

void main() {
    if (!packs_rows(gl_WorkGroupID.x * WORKGROUP_ROWS)) return;
    for (uint first = 0; first < WORKGROUP_ROWS; first += SLOTS)
        [[unroll]] for (uint s = 0; s < SLOTS; s++) {
            uint row = valid_row(row0 + first + s), from = (last == 1 ? step_params.tokens - 1 : row) * n;
            float found = pairs_scale(from);
            if (KEEP != 0 && row0 + first + s == row) store_pairs(from, row * n, found);
            if (first + s == own_row(s)) {
                base[s] = from;
                scale[s] = found;
            }
        }
    pack_rows(n);
}
#endif
#ifndef PACKED
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
    if (n % 2 == 0) store_pairs(row * n, out_row * n, pairs_scale(row * n));
    else norm_singles(row * n, out_row * n);
}
#endif

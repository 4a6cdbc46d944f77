#version 460
#extension GL_GOOGLE_include_directive : require
// Per-head RMSNorm and RoPE of queries and keys; keys and values go to their cache slots. One workgroup a
// head of one token: the query heads first, then the KV heads (each stores its key and its value).
#include "include/common.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
#include "include/reduce.glsl"
#include "include/phase.glsl"
layout(constant_id = 1) const uint GATED = 0;     // queries are followed by gates, head by head
layout(constant_id = 2) const uint ADJACENT = 0;  // pairs (2i, 2i+1) instead of (i, i + rotary/2)
layout(constant_id = 3) const uint Q_NORM = 0;
layout(constant_id = 4) const uint K_NORM = 0;

layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer OutU64 { uint64_t v[]; };

layout(push_constant, scalar) uniform Push {
    InF32 q_in;       // [tokens, heads, dim], or [tokens, heads, 2 * dim] (GATED); rows q_stride floats apart
    InF32 k_in;       // [tokens, kv_heads, dim], rows kv_stride floats apart
    InF32 v_in;       // the same
    InF32 q_weight;   // [dim] (Q_NORM)
    InF32 k_weight;   // [dim] (K_NORM)
    OutF32 q_out;     // [tokens, heads, dim]
    OutF32 k_cache;   // [kv_heads, context, dim]
    OutF32 v_cache;   // [kv_heads, context, dim]
    InU32 positions;  // [tokens]
    InU64 phases;     // [rotary / 2], turns a position
    InStep step_params;
    uint heads;
    uint kv_heads;
    uint dim;
    uint rotary;
    uint context;
    uint q_stride;
    uint kv_stride;
    float eps;
};

void head(InF32 x, uint from, OutF32 y, uint to, bool norm, InF32 weight, uint token) {
    uint lane = gl_LocalInvocationID.x;
    float scale = 1.0;
    if (norm) {
        float sum = 0.0;
        for (uint i = lane; i < dim / 2; i += gl_WorkGroupSize.x) {
            vec2 p = unpack_f32x2(InU64(x).v[from / 2 + i]);
            sum += dot(p, p);
        }
        scale = inversesqrt(workgroup_total(sum) / float(dim) + eps);
    }
    uint64_t position = positions.v[token];
    for (uint i = lane; i < rotary / 2; i += gl_WorkGroupSize.x) {
        uint first = ADJACENT != 0 ? 2 * i : i, second = ADJACENT != 0 ? 2 * i + 1 : i + rotary / 2;
        float a = x.v[from + first] * scale, b = x.v[from + second] * scale, s, c;
        if (norm) {
            a *= weight.v[first];
            b *= weight.v[second];
        }
        sincos_turns(phases.v[i] * position, s, c);
        y.v[to + first] = a * c - b * s;
        y.v[to + second] = b * c + a * s;
    }
    for (uint i = rotary / 2 + lane; i < dim / 2; i += gl_WorkGroupSize.x) {
        vec2 p = unpack_f32x2(InU64(x).v[from / 2 + i]);
        if (norm) p *= scale * unpack_f32x2(InU64(weight).v[i]);
        OutU64(y).v[to / 2 + i] = pack64(floatBitsToUint(p));
    }
}

void main() {
    uint token = gl_WorkGroupID.x, h = gl_WorkGroupID.y;
    if (token >= step_params.tokens) return;
    if (h < heads) {
        uint from = token * q_stride + h * dim * (1 + GATED);
        head(q_in, from, q_out, (token * heads + h) * dim, Q_NORM != 0, q_weight, token);
        return;
    }
    uint g = h - heads, slot = step_params.past + token;
    if (slot >= context) return;
    uint from = token * kv_stride + g * dim, to = (g * context + slot) * dim;
    head(k_in, from, k_cache, to, K_NORM != 0, k_weight, token);
    for (uint i = gl_LocalInvocationID.x; i < dim / 2; i += gl_WorkGroupSize.x)
        OutU64(v_cache).v[to / 2 + i] = InU64(v_in).v[from / 2 + i];
}

#version 460
#extension GL_GOOGLE_include_directive : require
// Per-head RMSNorm and RoPE of queries and keys; keys and values go to their cache slots. One workgroup a
// head of one token: the query heads first, then the KV heads (each stores its key and its value).
#include "include/common.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
#include "include/reduce.glsl"
#include "include/phase.glsl"
#include "include/cache.glsl"
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
    OutF32 k_cache;   // [kv_heads, context, dim] float32 or, with HALF, float16
    OutF32 v_cache;   // the same
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

// The i-th pair of components, normed and turned.
vec2 turned(InF32 x, uint from, uint i, bool norm, float scale, InF32 weight, uint64_t position) {
    uint first = ADJACENT != 0 ? 2 * i : i, second = ADJACENT != 0 ? 2 * i + 1 : i + rotary / 2;
    float a = x.v[from + first], b = x.v[from + second], s, c;
    if (norm) {
        a = a * scale * weight.v[first];
        b = b * scale * weight.v[second];
    }
    sincos_turns(phases.v[i] * position, s, c);
    return vec2(a * c - b * s, b * c + a * s);
}

// Two neighbours, the first with an even index.
void put(OutF32 y, uint at, bool halves, vec2 p) {
    if (halves) OutU32(y).v[at / 2] = packHalf2x16(vec2(near_half(p.x), near_half(p.y)));
    else OutU64(y).v[at / 2] = pack64(floatBitsToUint(p));
}

void turn(InF32 x, uint from, OutF32 y, uint to, bool norm, float scale, InF32 weight, uint64_t position, bool halves) {
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    if (ADJACENT != 0) {
        for (uint i = lane; i < rotary / 2; i += lanes)
            put(y, to + 2 * i, halves, turned(x, from, i, norm, scale, weight, position));
    } else if (halves) {  // two pairs at a time: their halves share words
        for (uint i = 2 * lane; i < rotary / 2; i += 2 * lanes) {
            vec2 p = turned(x, from, i, norm, scale, weight, position);
            vec2 q = turned(x, from, i + 1, norm, scale, weight, position);
            put(y, to + i, true, vec2(p.x, q.x));
            put(y, to + i + rotary / 2, true, vec2(p.y, q.y));
        }
    } else {
        for (uint i = lane; i < rotary / 2; i += lanes) {
            vec2 p = turned(x, from, i, norm, scale, weight, position);
            y.v[to + i] = p.x;
            y.v[to + i + rotary / 2] = p.y;
        }
    }
}

void head(InF32 x, uint from, OutF32 y, uint to, bool norm, InF32 weight, uint token, bool halves) {
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
    turn(x, from, y, to, norm, scale, weight, positions.v[token], halves);
    for (uint i = rotary / 2 + lane; i < dim / 2; i += gl_WorkGroupSize.x) {
        vec2 p = unpack_f32x2(InU64(x).v[from / 2 + i]);
        if (norm) p *= scale * unpack_f32x2(InU64(weight).v[i]);
        put(y, to + 2 * i, halves, p);
    }
}

void main() {
    uint token = gl_WorkGroupID.x, h = gl_WorkGroupID.y;
    if (token >= step_params.tokens) return;
    if (h < heads) {
        uint from = token * q_stride + h * dim * (1 + GATED);
        head(q_in, from, q_out, (token * heads + h) * dim, Q_NORM != 0, q_weight, token, false);
        return;
    }
    uint g = h - heads, slot = step_params.past + token;
    if (slot >= context) return;
    uint from = token * kv_stride + g * dim, to = (g * context + slot) * dim;
    head(k_in, from, k_cache, to, K_NORM != 0, k_weight, token, HALF != 0);
    for (uint i = gl_LocalInvocationID.x; i < dim / 2; i += gl_WorkGroupSize.x)
        put(v_cache, to + 2 * i, HALF != 0, unpack_f32x2(InU64(v_in).v[from / 2 + i]));
}

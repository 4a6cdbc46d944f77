#version 460
#extension GL_GOOGLE_include_directive : require
#ifdef HALF
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
// y = x / rms(x) * weight * silu(z), head by head: one workgroup a row, eight lanes (a cluster) a head.
// PACKED: rounded for products instead.
#include "include/common.glsl"
#include "include/quads.glsl"
#include "include/gates.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
layout(constant_id = 1) const uint SIZE = 128;  // values of a head, a multiple of 32
layout(constant_id = 2) const uint HEADS = 16;  // PACKED: as many as `heads` says
const uint QUADS = SIZE / 32;                   // groups of four values that a lane has

layout(push_constant, scalar) uniform Push {
    InU64x2 x;       // [tokens, heads * SIZE] float32
    InU64x2 weight;  // [SIZE]
    InU64x2 z;       // [tokens, heads * SIZE], rows `stride` groups of four apart
#ifdef PACKED
    OutU64 packed;   // [tokens] rows, see include/pack_rows.glsl
#endif
#ifndef PACKED
    OutU64x2 y;      // [tokens, heads * SIZE]
#endif
    InStep step_params;
    uint heads;
    uint stride;
    float eps;
};

// The values that this lane has of a head, and 1 / rms of all.
float head_scale(uint at, out vec4 v[QUADS]) {
    float sum = 0.0;
    [[unroll]] for (uint i = 0; i < QUADS; i++) {
        v[i] = unpack_quad(x.v[at + 8 * i]);
        sum += (v[i].x * v[i].x + v[i].y * v[i].y) + (v[i].z * v[i].z + v[i].w * v[i].w);
    }
    [[unroll]] for (uint bit = 1; bit < 8; bit <<= 1) sum += subgroupShuffleXor(sum, bit);
    return inversesqrt(sum / float(SIZE) + eps);
}

vec4 gated(vec4 v, float scale, vec4 w, vec4 z) {
    return v * scale * w * vec4(silu(z.x), silu(z.y), silu(z.z), silu(z.w));
}

#ifdef PACKED
#ifdef HALF
const uint OCTETS = 1;  // whose weights a lane has at a time
#define OPEN_OCTET(at) open(at, at / (SIZE / 8))
#endif
#ifndef HALF
const uint OCTETS = 4;
#define OPEN_OCTET(at)
#define OPEN_RUN(run) open(4 * run, run / (SIZE / 32))
#endif
void open(uint at, uint head);
#include "include/pack_rows.glsl"
shared float scales[WORKGROUP_ROWS * HEADS];
vec4 w[2 * OCTETS];
float scale[SLOTS];

// What octets from `at` on have in common: their weights, and 1 / rms of the head.
void open(uint at, uint head) {
    [[unroll]] for (uint i = 0; i < 2 * OCTETS; i++) w[i] = unpack_quad(weight.v[2 * (at % (SIZE / 8)) + i]);
    [[unroll]] for (uint s = 0; s < SLOTS; s++) scale[s] = scales[own_row(s) * heads + head];
}

void octet(uint slot, uint at, out vec4 v[2]) {
    OPEN_OCTET(at);
    vec4 g[2];
    uint row = valid_row(row0 + own_row(slot));
    unpack_octet(InU64x4(uint64_t(x) + 4 * uint64_t(row) * uint64_t(heads * SIZE)).v[at], v);
    unpack_octet(InU64x4(uint64_t(z) + 16 * uint64_t(row) * uint64_t(stride)).v[at], g);
    [[unroll]] for (uint t = 0; t < 2; t++) {
        precise vec4 normed = gated(v[t], scale[slot], w[2 * (at % OCTETS) + t], g[t]);
        v[t] = normed;
    }
}

void main() {
    if (!packs_rows(gl_WorkGroupID.x * WORKGROUP_ROWS)) return;
    uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID, lane = thread & 7u;
    vec4 v[QUADS];
    for (uint i = 0; i < WORKGROUP_ROWS; i++) {
        uint at = valid_row(row0 + i) * heads;
        for (uint head = thread / 8; head < heads; head += gl_WorkGroupSize.x / 8) {
            float found = head_scale((at + head) * (SIZE / 4) + lane, v);
            if (lane == 0) scales[i * heads + head] = found;
        }
    }
    barrier();
    pack_rows(heads * SIZE);
}
#endif
#ifndef PACKED
void main() {
    uint row = gl_WorkGroupID.x;
    if (row >= step_params.tokens) return;
    uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID, lane = thread & 7u;
    vec4 w[QUADS], v[QUADS];
    [[unroll]] for (uint i = 0; i < QUADS; i++) w[i] = unpack_quad(weight.v[lane + 8 * i]);
    for (uint head = thread / 8; head < heads; head += gl_WorkGroupSize.x / 8) {
        uint at = (row * heads + head) * (SIZE / 4) + lane, z_at = row * stride + head * (SIZE / 4) + lane;
        float scale = head_scale(at, v);
        [[unroll]] for (uint i = 0; i < QUADS; i++)
            y.v[at + 8 * i] = pack_quad(gated(v[i], scale, w[i], unpack_quad(z.v[z_at + 8 * i])));
    }
}
#endif

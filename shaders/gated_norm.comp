#version 460
#extension GL_GOOGLE_include_directive : require
// y = x / rms(x) * weight * silu(z), head by head: one workgroup a row, eight lanes (a cluster) a head.
#include "include/common.glsl"
#include "include/quads.glsl"
#include "include/gates.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
layout(constant_id = 1) const uint SIZE = 128;  // values of a head, a multiple of 32
const uint QUADS = SIZE / 32;                   // groups of four values that a lane has

layout(push_constant, scalar) uniform Push {
    InU64x2 x;       // [tokens, heads * SIZE] float32
    InU64x2 weight;  // [SIZE]
    InU64x2 z;       // [tokens, heads * SIZE], rows `stride` groups of four apart
    OutU64x2 y;      // [tokens, heads * SIZE]
    InStep step_params;
    uint heads;
    uint stride;
    float eps;
};

void main() {
    uint row = gl_WorkGroupID.x;
    if (row >= step_params.tokens) return;
    uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID, lane = thread & 7u;
    vec4 w[QUADS];
    [[unroll]] for (uint i = 0; i < QUADS; i++) w[i] = unpack_quad(weight.v[lane + 8 * i]);
    for (uint head = thread / 8; head < heads; head += gl_WorkGroupSize.x / 8) {
        uint at = (row * heads + head) * (SIZE / 4) + lane, z_at = row * stride + head * (SIZE / 4) + lane;
        vec4 v[QUADS];
        float sum = 0.0;
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            v[i] = unpack_quad(x.v[at + 8 * i]);
            sum += (v[i].x * v[i].x + v[i].y * v[i].y) + (v[i].z * v[i].z + v[i].w * v[i].w);
        }
        [[unroll]] for (uint bit = 1; bit < 8; bit <<= 1) sum += subgroupShuffleXor(sum, bit);
        float scale = inversesqrt(sum / float(SIZE) + eps);
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            vec4 g = unpack_quad(z.v[z_at + 8 * i]);
            vec4 gate = vec4(silu(g.x), silu(g.y), silu(g.z), silu(g.w));
            y.v[at + 8 * i] = pack_quad(v[i] * scale * w[i] * gate);
        }
    }
}

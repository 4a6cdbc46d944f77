#version 460
#extension GL_GOOGLE_include_directive : require
// The key of the largest value of each chunk of x: the first of the two launches of argmax and top_k.
#include "include/common.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
#include "include/keys.glsl"
#include "include/chunk.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer OutKeys { uint64_t v[]; };

layout(push_constant, scalar) uniform Push {
    InU64 x;       // [n] float32
    OutKeys keys;  // [chunks]
    uint n;
    uint chunk;    // values a chunk, even
};

void main() {
    uint64_t best = largest_in_chunk(x, gl_WorkGroupID.x, chunk, n, ~uint64_t(0));
    if (gl_LocalInvocationID.x == 0) keys.v[gl_WorkGroupID.x] = best;
}

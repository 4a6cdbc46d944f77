#version 460
#extension GL_GOOGLE_include_directive : require
// y[past + i, :] = x[index[i], :]: the rows of a batch that go on, behind those of earlier batches.
#include "include/common.glsl"
#include "include/quads.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    InU64 x;      // [tokens, n] float32
    InU32 index;  // [step tokens] rows of x
    OutU64 y;     // [.., n] float32
    InStep step_params;
    uint pairs;   // n / 2
};

void main() {
    uint count = step_params.tokens, first = step_params.past;
    for (uint row = gl_WorkGroupID.x; row < count; row += gl_NumWorkGroups.x)
        for (uint i = gl_LocalInvocationID.x; i < pairs; i += gl_WorkGroupSize.x)
            y.v[(first + row) * pairs + i] = x.v[index.v[row] * pairs + i];
}

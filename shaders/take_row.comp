#version 460
#extension GL_GOOGLE_include_directive : require
// y = the last valid row of x.
#include "include/common.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    InF32 x;   // [tokens, n]
    OutF32 y;  // [n]
    InStep step_params;
    uint n;
};

void main() {
    uint tokens = step_params.tokens;
    if (tokens == 0) return;
    for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x)
        y.v[i] = x.v[(tokens - 1) * n + i];
}

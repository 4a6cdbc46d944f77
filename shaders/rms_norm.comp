#version 460
#extension GL_GOOGLE_include_directive : require
// y = x / rms(x) * weight, one workgroup a row. The row is read twice rather than kept: any n works.
#include "include/common.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
#include "include/reduce.glsl"

layout(push_constant, scalar) uniform Push {
    InF32 x;       // [tokens, n]
    InF32 weight;  // [n]
    OutF32 y;      // [tokens, n]
    InStep step_params;
    uint n;
    float eps;
};

void main() {
    uint row = gl_WorkGroupID.x;
    if (row >= step_params.tokens) return;
    uint base = row * n;
    float sum = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) {
        float v = x.v[base + i];
        sum += v * v;
    }
    float scale = inversesqrt(workgroup_total(sum) / float(n) + eps);
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x)
        y.v[base + i] = x.v[base + i] * scale * weight.v[i];
}

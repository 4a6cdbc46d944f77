#version 460
#extension GL_GOOGLE_include_directive : require
// importance += row, over the prompt's keys; the first row of a prompt starts the sum.
#include "include/common.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
layout(constant_id = 1) const uint KEYS = 1024;  // keys a workgroup

layout(push_constant, scalar) uniform Push {
    InF32 row;            // [context]
    InOutF32 importance;  // [context]
    InStep step_params;
    uint context;
};

void main() {
    uint end = min(min(step_params.prompt, context), (gl_WorkGroupID.x + 1) * KEYS);
    for (uint i = gl_WorkGroupID.x * KEYS + gl_LocalInvocationID.x; i < end; i += gl_WorkGroupSize.x)
        importance.v[i] = step_params.row == 0 ? row.v[i] : importance.v[i] + row.v[i];
}

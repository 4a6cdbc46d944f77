// What every shader needs: extensions, buffer references by access, the step parameters.
// A reference's prefix (In, Out, InOut) is its access: the build reads it from the push-constant block.
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer InF32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) writeonly buffer OutF32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer InOutF32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer InU32 { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) writeonly buffer OutU32 { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer InOutU32 { uint v[]; };
// 64-bit loads are the unit of cost on software drivers: 8 bytes for the price of 4.
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer InU64 { uint64_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer InU64x2 { u64vec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer InU64x4 { u64vec4 v[]; };

// What changes from one replay of a recording to the next (spvk/kernels/step.py packs it).
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer InStep {
    uint tokens;   // rows of this batch that are valid; recordings are sized for the largest batch
    uint past;     // KV slots filled before this batch; row i goes to slot past + i
    uint prompt;   // keys that importance is wanted for (the prompt's tokens)
    uint row;      // index of the current score row (lookahead step)
};

vec2 unpack_f32x2(uint64_t x) { return uintBitsToFloat(unpack32(x)); }

// Four float32 at a time, as two 64-bit words (the cheapest load and store of a software driver).
layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer OutU64x2 { u64vec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer InOutU64x2 { u64vec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer OutU64 { uint64_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer InOutU64 { uint64_t v[]; };

uint64_t pack_f32x2(vec2 x) { return pack64(floatBitsToUint(x)); }
vec4 unpack_quad(u64vec2 q) { return vec4(unpack_f32x2(q.x), unpack_f32x2(q.y)); }
u64vec2 pack_quad(vec4 q) { return u64vec2(pack_f32x2(q.xy), pack_f32x2(q.zw)); }

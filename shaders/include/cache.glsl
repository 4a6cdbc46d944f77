// The KV cache's element: float32, or float16 (HALF), four to 64 bits.
layout(constant_id = 8) const uint HALF = 0;

vec4 unpack_half_quad(uvec2 x) { return vec4(unpackHalf2x16(x.x), unpackHalf2x16(x.y)); }

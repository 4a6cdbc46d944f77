// The KV cache's element: float32, or float16 (HALF), four to 64 bits.
layout(constant_id = 8) const uint HALF = 0;

// The nearest value of 11 bits: packHalf2x16 leaves the rounding to the driver. Below 2^-14 it still does.
float near_half(float x) {
    uint u = floatBitsToUint(x), near = (u + 0xfffu + ((u >> 13) & 1u)) & 0xffffe000u;
    return uintBitsToFloat((u & 0x7f800000u) == 0x7f800000u ? u : near);
}

vec4 unpack_half_quad(uvec2 x) { return vec4(unpackHalf2x16(x.x), unpackHalf2x16(x.y)); }

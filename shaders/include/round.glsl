// Rounding of activations: 255 levels, the scale is the largest magnitude of 32 elements / 127.
// 32 elements from this address as levels; returns the scale. What is not finite makes the scale NaN.
float round_run(uint64_t start, out int levels[RUN]) {
    float v[RUN];
    uint most = 0;
    [[unroll]] for (int i = 0; i < RUN / 8; i++) {
        u64vec4 words = InU64x4(start + 32 * i).v[0];
        [[unroll]] for (int t = 0; t < 8; t++) {
            v[8 * i + t] = unpack_f32x2(words[t >> 1])[t & 1];
            most = max(most, floatBitsToUint(v[8 * i + t]) & 0x7fffffffu);  // NaN is above all
        }
    }
    bool usable = most > 0x0d800000u && most < 0x7f800000u;  // above 2^-100: 127 / most is finite
    float largest = uintBitsToFloat(most), to_levels = 127.0 / largest;
    [[unroll]] for (int i = 0; i < RUN; i++)
        levels[i] = usable ? int(roundEven(v[i] * to_levels)) : 0;
    return usable ? largest / 127.0 : most < 0x7f800000u ? 0.0 : uintBitsToFloat(0x7fc00000u);
}

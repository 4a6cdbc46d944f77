// Sines and cosines of rotary angles, the same on every driver: Vulkan promises only 2^-11 for its own.
// A phase is a fraction of a turn in 64-bit fixed point, so reduction to a quarter turn is exact, and so is
// frequency * position modulo one turn. The angle is kept in two floats; the polynomials are minimax fits
// on [-pi/4, pi/4]. `precise`: what is lost in one rounding is recovered in the next line.
void sincos_turns(uint64_t phase, out float sine, out float cosine) {
    uvec2 w = unpack32(phase);
    uint quarter = (w.y + 0x20000000u) >> 30;
    int rest = int(w.y - (quarter << 30));  // signed rest, in 2^-32 turns
    // 2 pi / 2^32 in 12 bits, times the upper 12 bits of the rest, is exact; `low` is all that is left out.
    precise float high = float(rest & ~0x1ffff) * 1.462922227801755e-09;
    precise float low = float(rest & ~0x1ffff) * -4.148534595389635e-15
        + float(rest & 0x1ffff) * 1.4629180792671596e-09 + float(w.x >> 8) * 8.71967124502158e-17;
    precise float x = high + low;
    precise float tail = (high - x) + low;
    float z = x * x;
    float s = x + (x * z * (-0.16666651 + z * (0.008331976 + z * -0.00019495293)) + tail * (1.0 - 0.5 * z));
    float c = 1.0 - (0.5 * z - z * z * (0.041666646 + z * (-0.0013887364 + z * 2.443809e-05)) + x * tail);
    sine = (quarter & 1) == 0 ? s : c;
    cosine = (quarter & 1) == 0 ? c : s;
    if ((quarter & 2) != 0) sine = -sine;
    if (quarter == 1 || quarter == 2) cosine = -cosine;
}

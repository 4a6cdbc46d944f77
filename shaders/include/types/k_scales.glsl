// The head of Q4_K and Q5_K blocks, 16 bytes: halves d and dmin, 6-bit scales and minima of 8 groups of 32.
struct Scales {
    uvec2 scales, minima;  // byte g: group g
    float d, dmin;
};
Scales open_scales(Address at) {
    u64vec2 w = words2(at);
    // a.y, b.x: six bits of groups 0 to 3 and the two high bits of groups 4 to 7; b.y: their four low bits.
    uvec2 a = unpack32(w.x), b = unpack32(w.y);
    uvec2 low = uvec2(a.y, b.x) & 0x3f3f3f3fu, high = (uvec2(a.y, b.x) >> 2) & 0x30303030u;
    high |= uvec2(b.y, b.y >> 4) & 0x0f0f0f0fu;
    vec2 halves = unpackHalf2x16(a.x);
    return Scales(uvec2(low.x, high.x), uvec2(low.y, high.y), halves.x, halves.y);
}
vec2 group_scale(Scales b, uint g) {
    uint shift = 8u * (g & 3u);
    uint s = (g < 4u ? b.scales.x : b.scales.y) >> shift, m = (g < 4u ? b.minima.x : b.minima.y) >> shift;
    return vec2(b.d * float(int(s & 63u)), -b.dmin * float(int(m & 63u)));
}

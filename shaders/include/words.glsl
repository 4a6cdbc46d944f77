// Where weights are read from: device addresses, or, where WEIGHT_TEXELS is defined, the view `w` of 128-bit
// texels. Software drivers gather texels without a loop over the lanes: on Mesa 22 at a tenth of the price.
#ifdef WEIGHT_TEXELS
#include "texel.glsl"
#define Address uint  // bytes from the start of w
u64vec2 words2(uint at) { return texel(w, at / 16); }
uint64_t word(uint at) {
    u64vec2 both = words2(at);
    return (at & 8u) != 0u ? both.y : both.x;
}
u64vec4 words4(uint at) { return u64vec4(texel(w, at / 16), texel(w, at / 16 + 1)); }
void words3(uint at, out uint64_t q[3]) {
    u64vec2 a = words2(at), b = words2(at + 16);
    bool odd = (at & 8u) != 0u;
    q[0] = odd ? a.y : a.x;
    q[1] = odd ? b.x : a.y;
    q[2] = odd ? b.y : b.x;
}
void words5(uint at, out uint64_t q[5]) {
    u64vec2 a = words2(at), b = words2(at + 16), c = words2(at + 32);
    bool odd = (at & 8u) != 0u;
    q[0] = odd ? a.y : a.x;
    q[1] = odd ? b.x : a.y;
    q[2] = odd ? b.y : b.x;
    q[3] = odd ? c.x : b.y;
    q[4] = odd ? c.y : c.x;
}
uint row_address(uint row, uint row_bytes) { return row * row_bytes; }
#else
#define Address uint64_t
uint64_t word(uint64_t at) { return InU64(at).v[0]; }
u64vec2 words2(uint64_t at) { return InU64x2(at).v[0]; }
u64vec4 words4(uint64_t at) { return InU64x4(at).v[0]; }
void words3(uint64_t at, out uint64_t q[3]) {
    [[unroll]] for (int i = 0; i < 3; i++) q[i] = InU64(at).v[i];
}
void words5(uint64_t at, out uint64_t q[5]) {
    [[unroll]] for (int i = 0; i < 5; i++) q[i] = InU64(at).v[i];
}
uint64_t row_address(InU64 matrix, uint row, uint row_bytes) {
    return uint64_t(matrix) + uint64_t(row) * uint64_t(row_bytes);
}
#endif

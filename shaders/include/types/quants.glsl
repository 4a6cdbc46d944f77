// What the quantised types share: a chunk is 32 bytes, one an element, with a (scale, offset) for each 16.
// Blocks whose size is no multiple of 8 bytes are read by the aligned 64-bit words around them, and shifted.
#define CHUNK 32
struct Chunk {
    uvec2 q[4];  // 4 x 8 signed bytes (IQ4: indices into the codebook)
    vec2 s[2];
};

// The low word of (high, low) >> bits, for bits below 64.
uint64_t funnel(uint64_t low, uint64_t high, uint bits) {
    return (low >> bits) | ((high << 1) << (63u - bits));
}
float half_in(uint64_t word, int bit) { return unpackHalf2x16(uint(word >> bit)).x; }

// 32 bytes from a multiple of 16.
void words32(Address at, out uvec2 q[4]) {
    u64vec4 w = words4(at);
    [[unroll]] for (int i = 0; i < 4; i++) q[i] = unpack32(w[i]);
}

// 32 bytes from any address, or 34 from an even one: whole words, then what is left in the last one read.
void bytes34(Address at, out uint64_t q[5]) {
    uint bits = (uint(at) & 7u) * 8u;
    uint64_t w[5];
    words5(at & ~Address(7), w);
    [[unroll]] for (int i = 0; i < 4; i++) q[i] = funnel(w[i], w[i + 1], bits);
    q[4] = w[4] >> bits;
}
void bytes32(Address at, out uvec2 q[4]) {
    uint64_t w[5];
    bytes34(at, w);
    [[unroll]] for (int i = 0; i < 4; i++) q[i] = unpack32(w[i]);
}

// The same for 18 bytes from an even address, or 20 from a multiple of 4.
void bytes18(Address at, out uint64_t q[3]) {
    uint bits = (uint(at) & 7u) * 8u;
    uint64_t w[3];
    words3(at & ~Address(7), w);
    q[0] = funnel(w[0], w[1], bits);
    q[1] = funnel(w[1], w[2], bits);
    q[2] = w[2] >> bits;
}

// 16 bytes of nibbles, low ones first, as 32 bytes.
void nibbles(uint64_t low, uint64_t high, out uvec2 q[4]) {
    const uint m = 0x0f0f0f0fu;
    uvec2 a = unpack32(low), b = unpack32(high);
    q[0] = a & m;
    q[1] = b & m;
    q[2] = (a >> 4) & m;
    q[3] = (b >> 4) & m;
}

// In each byte: n - bias, for n below 128; `bias` has the same byte four times.
uvec2 minus(uvec2 n, uint bias) { return ((n | 0x80808080u) - bias) ^ 0x80808080u; }

// Bit i of x to bit 0 of byte i, for eight bits.
uvec2 spread(uint x) { return (uvec2(x & 15u, (x >> 4) & 15u) * 0x00204081u) & 0x01010101u; }

// Choose by selects: an array indexed by a variable would go through memory on software drivers.
uint pick(uvec4 v, uint i) {
    uvec2 pair = i < 2u ? v.xy : v.zw;
    return (i & 1u) == 0u ? pair.x : pair.y;
}

vec2 scale8(Chunk chunk, uint h) { return h < 2u ? chunk.s[0] : chunk.s[1]; }

#ifndef SCALE_RUN
#define SCALE_RUN 32  // elements that share a scale
#endif

#ifdef IQ4_CODEBOOK
// The 16 values as signed bytes, four a word.
int byte_of(uint z, int t) {
    uint n = z >> (8 * t);
    uint low = (n & 4u) == 0u ? 0xbfad9881u : 0xf6eaddcfu;   // -127 -104 -83 -65, -49 -35 -22 -10
    uint high = (n & 4u) == 0u ? 0x26190d01u : 0x71594535u;  // 1 13 25 38, 53 69 89 113
    uint four = (n & 8u) == 0u ? low : high;
    return int(four << (24u - 8u * (n & 3u))) >> 24;
}
#else
int byte_of(uint z, int t) { return int(z << (24 - 8 * t)) >> 24; }
#endif
float value(uint z, int t) { return float(byte_of(z, t)); }

// Four signed bytes of a word of the chunk's.
uint bytes4(uint z) {
#ifdef IQ4_CODEBOOK
    z = (byte_of(z, 0) & 0xff) | (byte_of(z, 1) & 0xff) << 8 | (byte_of(z, 2) & 0xff) << 16 | byte_of(z, 3) << 24;
#endif
    return z;
}

uvec2 words8(Chunk chunk, uint h) {
    uvec2 first = (h & 1u) == 0u ? chunk.q[0] : chunk.q[1], last = (h & 1u) == 0u ? chunk.q[2] : chunk.q[3];
    return h < 2u ? first : last;
}

void quants8(Chunk chunk, uint h, out float q[8]) {
    uvec2 z = words8(chunk, h);
    [[unroll]] for (int t = 0; t < 4; t++) {
        q[t] = value(z.x, t);
        q[4 + t] = value(z.y, t);
    }
}

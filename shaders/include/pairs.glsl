// Activations rounded to levels -127 to 127, those of two rows in a word: low + 65536 high. One 32-bit
// multiplication by a weight then makes two products, and sums of them stay apart as long as each fits 16
// bits. pack_rows.glsl writes the levels, groups of 16 rows by runs of 32 elements:
//   [tokens / 16][k / 32] of [4 steps][8 pairs][16 bytes] levels, [8 pairs][2] scales
const uint GROUP_ROWS = 16;
const uint RUN = 32;
const uint SCALES_AT = GROUP_ROWS * RUN / 16;  // texels of 16 bytes
const uint RUN_TEXELS = SCALES_AT + 4;
const uint VECTOR_TEXELS = 5;                  // of a run of a single row, see pack_rows.glsl

int low_of(int pair) { return (pair << 16) >> 16; }
int high_of(int pair) { return (pair + 0x8000) >> 16; }

// A pair's words of eight elements, from bytes (low 0, low 1, high 0, high 1, low 2, …), each 128 too large.
void unpack_pairs(u64vec2 bytes, out int words[8]) {
    [[unroll]] for (int t = 0; t < 8; t++) {
        uint both = unpack32(bytes[t / 4])[(t / 2) & 1];
        words[t] = int((both >> (8 * (t & 1))) & 0x00ff00ffu) - 0x00800080;
    }
}

#ifdef Q_MAX
// Quants are centred: of levels times them, Q_SPAN products fit 16 bits.
#define Q_CENTRE ((Q_MIN + Q_MAX + 1) / 2)
#define Q_ABS ((Q_MAX - Q_MIN + 1) / 2)
#if 127 * Q_ABS * 32 < 32768
#define Q_SPAN 32
#elif 127 * Q_ABS * 16 < 32768
#define Q_SPAN 16
#else
#define Q_SPAN 8
#endif

// weight = scale * (q - centre) + (offset + scale * centre)
void centre_offsets(inout Chunk chunk) {
#if Q_CENTRE != 0
    [[unroll]] for (int i = 0; i < 2; i++) chunk.s[i].y += Q_CENTRE * chunk.s[i].x;
#endif
}

// Elements 8h to 8h + 7 of a chunk, centred.
void levels8(Chunk chunk, uint h, out int q[8]) {
    uvec2 z = words8(chunk, h);
    [[unroll]] for (int t = 0; t < 8; t++) {
#if Q_MIN < 0
        q[t] = byte_of(z[t >> 2], t & 3);
#else
        q[t] = int((z[t >> 2] >> (8 * (t & 3))) & 0xffu) - Q_CENTRE;
#endif
    }
}

// The same, two to a word: 0 + 65536 2, 1 + 65536 3, 4 + 65536 6, 5 + 65536 7.
void halves8(Chunk chunk, uint h, out int q[4]) {
    uvec2 z = words8(chunk, h);
#if Q_MIN < 0
    const int bias = 128 * 0x10001;  // signed bytes are made unsigned ones
    z ^= 0x80808080u;
#else
    const int bias = Q_CENTRE * 0x10001;
#endif
    [[unroll]] for (int t = 0; t < 4; t++)
        q[t] = int((z[t >> 1] >> (8 * (t & 1))) & 0x00ff00ffu) - bias;
}
#endif

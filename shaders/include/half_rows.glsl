// Rows rounded to float16 (pack_rows.glsl): k halves, then 16 bytes with the row's scale, a power of
// two. A value is half * scale. The largest of a row lies between 2^14 and 2^15, so that none overflows.
uint64_t half_row_at(uint row, uint k) { return uint64_t(row) * uint64_t(2 * k + 16); }
float half_row_scale(uint64_t rows, uint row, uint k) {
    return InF32(rows + half_row_at(row, k) + 2 * k).v[0];
}

// Two halves in a word, rounded to nearest: packHalf2x16 leaves the rounding to the driver.
uint pack_half(float a, float b) { return packFloat2x16(f16vec2(a, b)); }

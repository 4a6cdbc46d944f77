// Rows rounded to signed bytes (pack_rows.glsl): k levels, then a head for each 32 of them; a row is
// padded to a multiple of 16 bytes. A value is level * scale.
const uint RUN = 32, HEAD_BYTES = 8;
uint64_t dot_row_at(uint row, uint k) {
    return uint64_t(row) * uint64_t((k + k / RUN * HEAD_BYTES + 15) & ~15u);
}

// A head: the scale, and the sums of the levels of its first and last 16 elements, 16 bits each.
uvec2 pack_head(float scale, ivec2 sums) {
    return uvec2(floatBitsToUint(scale), (sums.x & 0xffff) | (sums.y << 16));
}
float head_scale(uvec2 head) { return uintBitsToFloat(head.x); }
ivec2 head_sums(uvec2 head) { return ivec2(int(head.y << 16) >> 16, int(head.y) >> 16); }

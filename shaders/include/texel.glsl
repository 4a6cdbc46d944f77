// 128 bits of a view, as two words.
u64vec2 texel(usamplerBuffer view, uint i) {
    uvec4 t = texelFetch(view, int(i));
    return u64vec2(pack64(t.xy), pack64(t.zw));
}

// What attention.coop.comp brings to shared memory as float16.
uvec4 halves(vec4 a, vec4 b) {
    return uvec4(pack_half(a.x, a.y), pack_half(a.z, a.w), pack_half(b.x, b.y), pack_half(b.z, b.w));
}

// DEPTH columns of the keys from `key0` on, key by key.
void stage_keys(uint base, uint key0, uint keys, uint quad0) {
    const uint EIGHTS = DEPTH / 8;
    uint eight = id % EIGHTS;
    [[unroll]] for (uint i = 0; i < KEYS; i += 128 / EIGHTS) {
        uint key = i + id / EIGHTS, at = (base + min(key0 + key, keys - 1)) * QUADS + quad0 + 2 * eight;
        u64vec2 two = k.v[HALF != 0 ? at / 2 : at];  // of a cache of halves all eight elements, as they are
        stage[key * K_PITCH + eight] = HALF != 0 ? uvec4(unpack32(two.x), unpack32(two.y))
                                                 : halves(unpack_quad(two), unpack_quad(k.v[at + 1]));
    }
}

// VALUES rows of the values from `key0` on, column by column: two neighbours of a column to a word.
void stage_values(uint base, uint key0, uint keys) {
    const uint PAIRS = VALUES / 2;
    uint pair = id % PAIRS, key = key0 + 2 * pair;
    uint even = (base + min(key, keys - 1)) * QUADS, odd = (base + min(key + 1, keys - 1)) * QUADS;
    [[unroll]] for (uint i = 0; i < QUADS; i += 128 / PAIRS) {
        uint quad = i + id / PAIRS;
        vec4 a = cached(v, even + quad), b = cached(v, odd + quad);
        [[unroll]] for (uint t = 0; t < 4; t++)
            stage[(4 * quad + t) * V_PITCH + pair / 4][pair & 3] = pack_half(a[t], b[t]);
    }
}

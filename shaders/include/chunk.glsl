// The largest key below a bound in a chunk of x, by all lanes of a workgroup; two values a load.
uint64_t largest_in_chunk(InU64 x, uint chunk_index, uint chunk, uint n, uint64_t bound) {
    // chunk is even, n need not be: the value behind it is read, but not used
    uint end = min((chunk_index + 1) * chunk, n);
    uint64_t best = 0;
    for (uint i = chunk_index * chunk + 2 * gl_LocalInvocationID.x; i < end; i += 2 * gl_WorkGroupSize.x) {
        vec2 pair = unpack_f32x2(x.v[i / 2]);
        uint64_t a = key_of(pair.x, i), b = i + 1 < end ? key_of(pair.y, i + 1) : 0;
        if (a < bound && a > best) best = a;
        if (b < bound && b > best) best = b;
    }
    return workgroup_largest_key(best);
}

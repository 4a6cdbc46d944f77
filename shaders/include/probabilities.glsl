// Second pass of a score row: what score_stats left, joined over the ranges, and the probabilities of a tile.
float top[ROWS];      // maximum of each row's scores over all keys
float inverse[ROWS];  // 1 / sum of exp(score - top)

// `head`: the first query head of the tile; `used`: ranges that hold keys.
void join_stats(InF32 stats, uint head, uint splits, uint used) {
    EACH_ROW(r) {
        uint at = (head + r) * splits * 2;
        float most = -INFINITY, sum = 0.0;
        for (uint i = gl_LocalInvocationID.x; i < used; i += gl_WorkGroupSize.x)
            most = max(most, stats.v[at + 2 * i]);
        most = workgroup_largest(most);
        for (uint i = gl_LocalInvocationID.x; i < used; i += gl_WorkGroupSize.x)
            sum += stats.v[at + 2 * i + 1] * exp_nan(stats.v[at + 2 * i] - most);
        top[r] = most;
        inverse[r] = 1.0 / workgroup_total(sum);
    }
}

float probability(uint r, uint j, float scale) {
    return exp_nan(s[r * WIDTH + j] * scale - top[r]) * inverse[r];
}

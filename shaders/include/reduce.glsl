// Sums and maxima over a workgroup of LOCAL lanes (a specialisation constant), for any subgroup size.
// The including shader declares local_size_x_id = 0 (LOCAL); every lane must call these together.
#ifndef REDUCE
#define REDUCE
shared float reduce_scratch[64];  // one slot a subgroup; a workgroup has at most 64 subgroups here

// A workgroup may be smaller than a subgroup.
uint lanes_together() { return min(gl_SubgroupSize, gl_WorkGroupSize.x); }

float subgroup_total(float x) {
    // Shuffles cost a third of subgroupAdd on software drivers, and give every device one summation order.
    for (uint step = 1; step < lanes_together(); step <<= 1) x += subgroupShuffleXor(x, step);
    return x;
}

float subgroup_largest(float x) {
    for (uint step = 1; step < lanes_together(); step <<= 1) x = max(x, subgroupShuffleXor(x, step));
    return x;
}

float workgroup_total(float x) {
    x = subgroup_total(x);
    if (gl_NumSubgroups == 1) return x;
    barrier();  // the scratch of an earlier call has been read
    if (subgroupElect()) reduce_scratch[gl_SubgroupID] = x;
    barrier();
    x = 0.0;
    for (uint i = 0; i < gl_NumSubgroups; i++) x += reduce_scratch[i];
    return x;
}

float workgroup_largest(float x) {
    x = subgroup_largest(x);
    if (gl_NumSubgroups == 1) return x;
    barrier();
    if (subgroupElect()) reduce_scratch[gl_SubgroupID] = x;
    barrier();
    x = reduce_scratch[0];
    for (uint i = 1; i < gl_NumSubgroups; i++) x = max(x, reduce_scratch[i]);
    return x;
}
#endif

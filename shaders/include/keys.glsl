// Values as 64-bit keys whose order is: larger value first, then lower index. NaN is above everything; both
// zeros are equal. The including shader declares local_size_x_id = 0; 0 is below every key.
const uint NAN_ORDER = 0xfffffffeu;  // above infinity, and its keys are below ~0, the bound that keeps all
shared uvec2 key_scratch[64];  // one slot a subgroup

uint64_t key_of(float x, uint index) {
    uint b = floatBitsToUint(x);
    uint order = (b & 0x80000000u) != 0 ? ~b : b | 0x80000000u;
    if (b == 0x80000000u) order = 0x80000000u;
    if ((b & 0x7fffffffu) > 0x7f800000u) order = NAN_ORDER;
    return pack64(uvec2(~index, order));
}

bool key_is_nan(uint64_t key) { return unpack32(key).y == NAN_ORDER; }
uint key_index(uint64_t key) { return ~unpack32(key).x; }

float key_value(uint64_t key) {
    uint order = unpack32(key).y;
    return uintBitsToFloat((order & 0x80000000u) != 0 ? order ^ 0x80000000u : ~order);
}

uint64_t workgroup_largest_key(uint64_t key) {  // every lane of the workgroup calls it and gets the answer
    // a workgroup may be smaller than a subgroup: nothing may come from lanes that do not run
    for (uint step = 1; step < min(gl_SubgroupSize, gl_WorkGroupSize.x); step <<= 1) {
        uvec2 k = unpack32(key);
        uint64_t other = pack64(uvec2(subgroupShuffleXor(k.x, step), subgroupShuffleXor(k.y, step)));
        key = other > key ? other : key;
    }
    if (gl_NumSubgroups == 1) return key;
    barrier();  // the scratch of an earlier call has been read
    if (subgroupElect()) key_scratch[gl_SubgroupID] = unpack32(key);
    barrier();
    for (uint i = 0; i < gl_NumSubgroups; i++) {
        uint64_t other = pack64(key_scratch[i]);
        key = other > key ? other : key;
    }
    return key;
}

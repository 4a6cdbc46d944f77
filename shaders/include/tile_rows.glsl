// What attention.tiles.comp and attention.coop.comp read by: their tiles' first row, how many of its rows exist, and
// the query heads of a KV head.
uint row0, valid, group;

uint place(uint r) {  // token * heads + head of a row
    uint index = row0 + min(r, valid - 1);
    return index / group * heads + gl_WorkGroupID.y * group + index % group;
}

vec4 cached(InU64x2 from, uint i) {
    return HALF == 0 ? unpack_quad(from.v[i]) : unpack_half_quad(unpack32(InU64(from).v[i]));
}

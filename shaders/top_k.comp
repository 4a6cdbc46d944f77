#version 460
#extension GL_GOOGLE_include_directive : require
// The k largest values by a tournament of chunks: take the largest of the chunks' keys, then put the next
// one of its chunk in its place. One workgroup; only k chunks are read again.
#include "include/common.glsl"
layout(local_size_x = 8, local_size_x_id = 0) in;
#include "include/keys.glsl"
#include "include/chunk.glsl"
const uint MOST_CHUNKS = 256;
shared uint64_t best_of[MOST_CHUNKS];

layout(push_constant, scalar) uniform Push {
    InU64 x;        // [n] float32
    InU64 keys;     // [chunks], as chunk_max wrote them
    OutU32 ids;     // [k]
    OutF32 values;  // [k]
    uint n;
    uint chunk;
    uint chunks;    // at most 256
    uint k;
};

void main() {
    uint lane = gl_LocalInvocationID.x;
    for (uint c = lane; c < chunks; c += gl_WorkGroupSize.x) best_of[c] = keys.v[c];
    for (uint r = 0; r < k; r++) {
        uint64_t best = 0;
        for (uint c = lane; c < chunks; c += gl_WorkGroupSize.x) best = best_of[c] > best ? best_of[c] : best;
        best = workgroup_largest_key(best);
        if (lane == 0) {
            ids.v[r] = key_is_nan(best) ? 0xffffffffu : key_index(best);
            values.v[r] = key_value(best);
        }
        if (r + 1 == k) return;
        // Every lane only reads the slots that it writes, so no barrier is needed around best_of.
        uint from = key_index(best) / chunk;
        uint64_t next = largest_in_chunk(x, from, chunk, n, best);
        if (from % gl_WorkGroupSize.x == lane) best_of[from] = next;
    }
}

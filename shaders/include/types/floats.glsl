// Plain floats: 8 to a block, which is also a unit and a chunk; no scale.
#define BLOCK 8
#define UNIT 8
#define CHUNK 8
struct Block { uint none; };
Block open_block(Address at) { return Block(0u); }

// Types whose block is one unit and one chunk: open_unit reads and decodes it.
#define BLOCK 32
#define UNIT 32
#define Unit Chunk
struct Block { uint none; };
Block open_block(Address at) { return Block(0u); }
Chunk open_chunk(Block b, Unit unit, uint c) { return unit; }

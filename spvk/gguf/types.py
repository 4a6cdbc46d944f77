"""ggml tensor types: number, name, block geometry, and how spvk computes with them.

Geometry follows ggml's type traits (checked against the `gguf` package by the tests): a row of ne0 elements
is ne0 / block_elements blocks of block_bytes bytes, with no padding between blocks or rows.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorType:
    """One ggml type.

    native: shaders read it as stored. repacked: converted to F16 or F32 at load (spvk.gguf.repack).
    Neither: the size is known, so a file with such a tensor opens, but the tensor cannot be computed with.
    """

    id: int
    name: str
    block_elements: int
    block_bytes: int
    native: bool = False
    repacked: bool = False

    def row_bytes(self, n: int) -> int:
        """Bytes of a row of n elements; n must be a multiple of block_elements."""
        return n // self.block_elements * self.block_bytes


_NATIVE = (
    (0, "F32", 1, 4), (1, "F16", 1, 2), (30, "BF16", 1, 2),
    (2, "Q4_0", 32, 18), (3, "Q4_1", 32, 20), (6, "Q5_0", 32, 22), (7, "Q5_1", 32, 24), (8, "Q8_0", 32, 34),
    (10, "Q2_K", 256, 84), (11, "Q3_K", 256, 110), (12, "Q4_K", 256, 144), (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210), (20, "IQ4_NL", 32, 18), (23, "IQ4_XS", 256, 136),
)
_REPACKED = (
    (16, "IQ2_XXS", 256, 66), (17, "IQ2_XS", 256, 74), (22, "IQ2_S", 256, 82),
    (18, "IQ3_XXS", 256, 98), (21, "IQ3_S", 256, 110), (19, "IQ1_S", 256, 50), (29, "IQ1_M", 256, 56),
    (34, "TQ1_0", 256, 54), (35, "TQ2_0", 256, 66), (39, "MXFP4", 32, 17), (40, "NVFP4", 64, 36),
)
_SIZE_ONLY = (
    (9, "Q8_1", 32, 40), (15, "Q8_K", 256, 292), (41, "Q1_0", 128, 18),
    (24, "I8", 1, 1), (25, "I16", 1, 2), (26, "I32", 1, 4), (27, "I64", 1, 8), (28, "F64", 1, 8),
)

TYPES: dict[int, TensorType] = {
    row[0]: TensorType(*row, native=rows is _NATIVE, repacked=rows is _REPACKED)
    for rows in (_NATIVE, _REPACKED, _SIZE_ONLY)
    for row in rows
}
BY_NAME: dict[str, TensorType] = {t.name: t for t in TYPES.values()}

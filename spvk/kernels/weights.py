"""What the kernels that read weights share: checks of a Matrix, a piece's push constants, folded grids."""

from __future__ import annotations

from ..gguf.types import BY_NAME
from ..recording import MAX_GROUPS, Buffer, Matrix
from ..shaders import WEIGHT_TYPES
from .checks import expect_multiple


def expect_matrix(kernel: str, w: Matrix) -> None:
    """Raise ValueError unless shaders can read `w`: type, row length and stride, the pieces' alignment."""
    if w.type not in WEIGHT_TYPES:
        raise ValueError(f"{kernel}: {w.name} is {w.type}, expected one of {', '.join(WEIGHT_TYPES)}")
    kind = BY_NAME[w.type]
    expect_multiple(kernel, **{f"k of {w.name} ({w.type})": (w.k, max(8, kind.block_elements))})
    if w.row_bytes != kind.row_bytes(w.k):
        raise ValueError(f"{kernel}: {w.name} has rows of {w.row_bytes} bytes, "
                         f"expected {kind.row_bytes(w.k)}")
    for first, rows, buffer in w.pieces:
        if buffer.nbytes < rows * w.row_bytes:
            raise ValueError(f"{kernel}: {w.name} has {buffer.nbytes} bytes for rows {first} to "
                             f"{first + rows}, expected at least {rows * w.row_bytes}")
        expect_multiple(kernel, **{f"offset of {w.name}": (buffer.offset, 16)})


def expect_aligned(kernel: str, **buffers: Buffer) -> None:
    """Raise ValueError unless each buffer starts at a multiple of 16 bytes, as wide loads need."""
    expect_multiple(kernel, **{f"offset of {name}": (b.offset, 16) for name, b in buffers.items()})


def piece_args(w: Matrix, first: int, rows: int, buffer: Buffer) -> dict[str, Buffer | int]:
    """The push constants that every weight shader has."""
    return dict(w=buffer, k=w.k, n=rows, row_bytes=w.row_bytes, first=first)


def fold(groups: int) -> tuple[int, int]:
    """(x, y) workgroups, at least `groups` in all, neither above what Vulkan guarantees for an axis."""
    y = -(-groups // MAX_GROUPS)
    return -(-groups // y), y

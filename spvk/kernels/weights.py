"""What the kernels that read weights share: checks of a Matrix, a piece's push constants, folded grids."""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from ..gguf.types import BY_NAME
from ..recording import MAX_GROUPS, Buffer, Matrix
from ..shaders import WEIGHT_TYPES
from .checks import expect_multiple

Pieces = tuple[tuple[int, int, Buffer], ...]  # of a Matrix: (first row, rows, buffer)


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


def row_stride(widths: Sequence[int]) -> int:
    """Floats from one row to the next where products of these widths lie side by side: a multiple of 8."""
    return -(-sum(widths) // 8) * 8


def side_by_side(weights: Sequence[Matrix]) -> list[Matrix]:
    """Weights whose products with one x lie side by side in rows of row_stride floats.

    Neighbours in memory of one type become one matrix, hence one dispatch.
    """
    out, column, stride = [], 0, row_stride([w.rows for w in weights])
    for w in weights:
        pieces = tuple((column + first, rows, buffer) for first, rows, buffer in w.pieces)
        column += w.rows
        if out and (joined := join(out[-1], w.type, w.row_bytes, pieces)):
            out[-1] = replace(out[-1], name=f"{out[-1].name} + {w.name}", pieces=joined)
        else:
            out.append(replace(w, rows=stride, pieces=pieces))
    return out


def join(left: Matrix, kind: str, row_bytes: int, pieces: Pieces) -> Pieces | None:
    """The pieces of both, the last of `left` and the first of `pieces` made one; None if they are no neighbours."""
    (first, rows, a), (_, more, b) = left.pieces[-1], pieces[0]
    end = a.offset + rows * row_bytes
    if (left.type, left.row_bytes) != (kind, row_bytes) or a.root is not b.root or b.offset != end:
        return None
    both = a.root.range(a.offset, (rows + more) * row_bytes, a.name)
    return (*left.pieces[:-1], (first, rows + more, both), *pieces[1:])


def fold(groups: int) -> tuple[int, int]:
    """(x, y) workgroups, at least `groups` in all, neither above what Vulkan guarantees for an axis."""
    y = -(-groups // MAX_GROUPS)
    return -(-groups // y), y

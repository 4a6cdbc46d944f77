"""Tensors to device memory, in bounded pieces straight from the mapped file."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Callable, Iterable, Sequence

import numpy as np

from ..recording import Buffer, Matrix
from .repack import repack
from .tensor import Tensor
from .types import TensorType

Rows = tuple[int, int, np.ndarray]  # first row, rows, their bytes
PIECE = 32 << 20   # bytes copied at once
REPACK = 4 << 20   # bytes repacked at once: working memory is up to twelve times that


def upload_vector(memory, tensor: Tensor) -> Buffer:
    """A small tensor as float32, whatever its type. `memory` is a vulkan.Memory."""
    data = tensor.dequantize().astype(np.float32, copy=False)
    buffer = Buffer(tensor.name, data.nbytes)
    memory.allocate(buffer)
    memory.upload(buffer, data)
    return buffer


def upload_matrices(
    memory, groups: Sequence[Sequence[Tensor]], notice: Callable[[str], None] = lambda line: None
) -> list[Matrix]:
    """Weights as the shaders read them; those of a group one behind the other, to be multiplied as one.

    A type without a shader is repacked, and `notice` gets the line that says so. Raises GGUFError for a
    type that nothing can dequantise, DeviceError when the memory is not there.
    """
    fills: list[Callable[[], None]] = []
    matrices = [m for group in groups for m in place(memory, group, notice, fills.append)]
    # Two copies at a time keep memory busy while one of them waits for pages.
    with ThreadPoolExecutor(2 if memory.mapped else 1) as pool:
        for done in [pool.submit(fill) for fill in fills]:
            done.result()
    return matrices


def place(memory, tensors: Sequence[Tensor], notice, later: Callable[[Callable[[], None]], None]) -> list[Matrix]:
    """Memory for a group, in one allocation where that holds it, else each cut by whole rows as the device's
    limit demands; `later` is given what fills it."""
    sources = [source_of(tensor, notice) for tensor in tensors]
    sizes = [t.rows * row_bytes for t, (_, row_bytes, _) in zip(tensors, sources)]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    if sum(sizes) <= memory.max_allocation - 4096 and all(start % 16 == 0 for start in starts):
        root = Buffer(" + ".join(t.name for t in tensors), sum(sizes))
        memory.allocate(root)
        pieces = [((0, t.rows, root.range(at, n, t.name)),) for t, at, n in zip(tensors, starts, sizes)]
    else:
        pieces = [allocate_rows(memory, t.name, t.rows, row_bytes) for t, (_, row_bytes, _) in zip(tensors, sources)]
    for where, (_, row_bytes, stream) in zip(pieces, sources):
        later(partial(fill_rows, memory, where, row_bytes, stream))
    return [
        Matrix(t.name, kind.name, t.shape[0], t.rows, row_bytes, where)
        for t, (kind, row_bytes, _), where in zip(tensors, sources, pieces)
    ]


def source_of(tensor: Tensor, notice: Callable[[str], None]) -> tuple[TensorType, int, Iterable[Rows]]:
    """(type, bytes of a row, stream of (first row, rows, bytes)) as the shaders will read the tensor."""
    if tensor.type.native:
        return tensor.type, tensor.row_bytes, tensor.pieces(PIECE)
    packed = repack(tensor, REPACK)
    notice(packed.notice)
    return packed.type, packed.row_bytes, packed


def allocate_rows(memory, name: str, rows: int, row_bytes: int) -> tuple[tuple[int, int, Buffer], ...]:
    """(first row, rows, buffer) of as few buffers as the device's allocation limit allows."""
    most = max(1, (memory.max_allocation - 4096) // row_bytes)
    pieces = tuple((at, min(most, rows - at), Buffer(name, min(most, rows - at) * row_bytes))
                   for at in range(0, rows, most))
    memory.allocate(*(buffer for _, _, buffer in pieces))
    return pieces


def fill_rows(memory, pieces, row_bytes: int, stream: Iterable[Rows]) -> None:
    """Copy a stream of (first row, rows, bytes) into the buffers, cutting where a buffer ends."""
    for row, count, data in stream:
        for first, rows, buffer in pieces:
            start, end = max(row, first), min(row + count, first + rows)
            if start < end:
                part = data[(start - row) * row_bytes:(end - row) * row_bytes]
                memory.upload(buffer.range((start - first) * row_bytes, part.nbytes), part)

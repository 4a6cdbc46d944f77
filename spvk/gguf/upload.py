"""Tensors to device memory, in bounded pieces straight from the mapped file."""

from __future__ import annotations

from typing import Callable, Iterator

import numpy as np

from ..recording import Buffer, Matrix
from .repack import repack
from .tensor import Tensor

PIECE = 32 << 20   # bytes copied at once
REPACK = 4 << 20   # bytes repacked at once: working memory is up to twelve times that


def upload_vector(memory, tensor: Tensor) -> Buffer:
    """A small tensor as float32, whatever its type. `memory` is a vulkan.Memory."""
    data = tensor.dequantize().astype(np.float32, copy=False)
    buffer = Buffer(tensor.name, data.nbytes)
    memory.allocate(buffer)
    memory.upload(buffer, data)
    return buffer


def upload_matrix(memory, tensor: Tensor, notice: Callable[[str], None] = lambda line: None) -> Matrix:
    """A weight as the shaders read it, cut by whole rows where the device allows no single allocation.

    A type without a shader is repacked, and `notice` gets the line that says so. Raises GGUFError for a
    type that nothing can dequantise, DeviceError when the memory is not there.
    """
    if tensor.type.native:
        kind, row_bytes, stream = tensor.type, tensor.row_bytes, tensor.pieces(PIECE)
    else:
        packed = repack(tensor, REPACK)
        notice(packed.notice)
        kind, row_bytes, stream = packed.type, packed.row_bytes, iter(packed)
    pieces = allocate_rows(memory, tensor.name, tensor.rows, row_bytes)
    fill_rows(memory, pieces, row_bytes, stream)
    return Matrix(tensor.name, kind.name, tensor.shape[0], tensor.rows, row_bytes, pieces)


def allocate_rows(memory, name: str, rows: int, row_bytes: int) -> tuple[tuple[int, int, Buffer], ...]:
    """(first row, rows, buffer) of as few buffers as the device's allocation limit allows."""
    most = max(1, (memory.max_allocation - 4096) // row_bytes)
    pieces = tuple((at, min(most, rows - at), Buffer(name, min(most, rows - at) * row_bytes))
                   for at in range(0, rows, most))
    memory.allocate(*(buffer for _, _, buffer in pieces))
    return pieces


def fill_rows(memory, pieces, row_bytes: int, stream: Iterator[tuple[int, int, np.ndarray]]) -> None:
    """Copy a stream of (first row, rows, bytes) into the buffers, cutting where a buffer ends."""
    for row, count, data in stream:
        for first, rows, buffer in pieces:
            start, end = max(row, first), min(row + count, first + rows)
            if start < end:
                part = data[(start - row) * row_bytes:(end - row) * row_bytes]
                memory.upload(buffer.range((start - first) * row_bytes, part.nbytes), part)

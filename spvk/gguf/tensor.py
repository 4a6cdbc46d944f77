"""One tensor of an open GGUF file: its description and its bytes, straight from the memory map."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

import numpy as np

from spvk.gguf.mismatch import mismatch, plain
from spvk.gguf.types import TensorType


@dataclass(frozen=True)
class Tensor:
    """A tensor as stored. Made only from a checked header, so no access can leave the file."""

    name: str
    shape: tuple[int, ...]  # elements, GGUF order: ne0 (a row's length) first
    type: TensorType
    nbytes: int
    path: str  # the file, or the part of a split file, that holds it
    offset: int  # bytes from the start of that file
    _map: mmap.mmap | bytes = field(repr=False, compare=False)

    @property
    def rows(self) -> int:
        return prod(self.shape[1:])

    @property
    def row_bytes(self) -> int:
        return self.type.row_bytes(self.shape[0])

    def raw(self) -> np.ndarray:
        """uint8 [nbytes], read-only, a view of the file."""
        return np.frombuffer(self._map, np.uint8, self.nbytes, self.offset)

    def pieces(self, max_bytes: int) -> Iterator[tuple[int, int, np.ndarray]]:
        """Whole rows in order as (row0, n_rows, uint8 [n_rows * row_bytes] view), at most max_bytes each.

        Raises GGUFError when one row is longer than max_bytes.
        """
        raw = self.raw()
        for row0, n in row_spans(self, self.row_bytes, max_bytes):
            start, end = row0 * self.row_bytes, (row0 + n) * self.row_bytes
            yield row0, n, raw[start:end]
            self._release(start, end)

    def _release(self, start: int, end: int) -> None:
        """Bytes of the tensor that have been read leave this process's memory; the page cache keeps them."""
        first, last = (-(-(self.offset + x) // mmap.PAGESIZE) * mmap.PAGESIZE for x in (start, end))
        if isinstance(self._map, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") and first < last:
            self._map.madvise(mmap.MADV_DONTNEED, first, min(last, len(self._map)) - first)

    def dequantize(self) -> np.ndarray:
        """float32 [..., ne1, ne0], a new array: for small tensors and tests.

        Raises GGUFError for a type that has no dequantiser.
        """
        values = dequantize_rows(self, self.raw()).reshape(self.shape[::-1])
        return np.require(values, requirements="W")  # F32 comes as a view of the file


def row_spans(tensor: Tensor, row_bytes: int, max_bytes: int) -> Iterator[tuple[int, int]]:
    """(first row, number of rows) of consecutive spans of at most max_bytes at row_bytes a row."""
    step = max_bytes // row_bytes
    if step < 1:
        raise mismatch(tensor.path, f"tensor {plain(tensor.name)}: row", f"{row_bytes} bytes",
                       f"at most {max_bytes} bytes a piece")
    for row0 in range(0, tensor.rows, step):
        yield row0, min(step, tensor.rows - row0)


def dequantize_rows(tensor: Tensor, raw: np.ndarray) -> np.ndarray:
    """float32 [rows, ne0] of whole rows of `tensor` given as uint8 bytes, by the `gguf` package."""
    from gguf import GGMLQuantizationType, quants  # here: slower to import than most files to open

    known = tensor.type.id in set(GGMLQuantizationType)  # an older package lacks the newest types
    if not (known and (tensor.type.native or tensor.type.repacked)):
        raise mismatch(tensor.path, f"tensor {plain(tensor.name)}: type", tensor.type.name,
                       "a type that can be dequantised")
    rows = raw.reshape(-1, tensor.row_bytes)
    with np.errstate(over="ignore", invalid="ignore"):  # odd scales give inf and nan, as in ggml
        return quants.dequantize(rows, GGMLQuantizationType(tensor.type.id))

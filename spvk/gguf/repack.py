"""Types without a shader, converted to F16 (or F32) a few rows at a time while they load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spvk.gguf.mismatch import plain
from spvk.gguf.tensor import Tensor, dequantize_rows, row_spans
from spvk.gguf.types import BY_NAME, TensorType

F16, F32 = BY_NAME["F16"], BY_NAME["F32"]
F16_MAX = 65504.0

# (byte offset of the block's float16 scale d, largest |value| / |d|): a look at the scales alone then shows
# that F16 is wide enough, without dequantising everything twice. The factor is the type's largest sub-scale
# times its largest grid value. Types with other kinds of scale (IQ1_M, MXFP4, NVFP4) are not here.
_SCALE = {
    "IQ2_XXS": (0, 15.5 / 4 * 43), "IQ2_XS": (0, 15.5 / 4 * 43), "IQ2_S": (0, 15.5 / 4 * 43),
    "IQ3_XXS": (0, 15.5 / 2 * 62), "IQ3_S": (0, 31.0 * 15), "IQ1_S": (0, 15 * 1.125),
    "TQ1_0": (52, 1.0), "TQ2_0": (64, 2.0),
}


@dataclass(frozen=True)
class Repacked:
    """A tensor as it will lie in device memory. Iterate for its pieces: (row0, n_rows, uint8 bytes)."""

    tensor: Tensor
    type: TensorType  # F16; F32 where a value is beyond the F16 range
    max_bytes: int

    @property
    def row_bytes(self) -> int:
        return self.type.row_bytes(self.tensor.shape[0])

    @property
    def nbytes(self) -> int:
        return self.tensor.rows * self.row_bytes

    @property
    def notice(self) -> str:
        name, old = plain(self.tensor.name), self.tensor.type.name
        return f"{name}: {old} has no shader, repacked to {self.type.name} ({self.nbytes / 1e6:.1f} MB)"

    def __iter__(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Whole rows in order, uint8 [n_rows * row_bytes], at most max_bytes each."""
        dtype = np.float32 if self.type is F32 else np.float16
        for row0, n, values in _dequantized(self.tensor, self.row_bytes, self.max_bytes):
            with np.errstate(over="ignore", invalid="ignore"):  # an infinite weight stays infinite
                yield row0, n, values.astype(dtype, copy=False).reshape(-1).view(np.uint8)


def repack(tensor: Tensor, max_bytes: int) -> Repacked:
    """Choose the type that holds every value of `tensor`; the conversion itself happens while iterating.

    max_bytes bounds a piece; working memory is up to twelve times that. Rounding to F16 is within 2^-12 of
    a value, or 2^-25 for values under 2^-14. Raises GGUFError for a type that has no dequantiser, and when
    a single row is longer than max_bytes.
    """
    wide = not _scales_fit(tensor, max_bytes) and _peak(tensor, max_bytes) > F16_MAX
    return Repacked(tensor, F32 if wide else F16, max_bytes)


def _scales_fit(tensor: Tensor, max_bytes: int) -> bool:
    """Whether the scales alone prove that every value is within the F16 range."""
    if tensor.type.name not in _SCALE:
        return False
    offset, factor = _SCALE[tensor.type.name]
    for _, _, raw in tensor.pieces(max(max_bytes, tensor.row_bytes)):
        scales = raw.reshape(-1, tensor.type.block_bytes)[:, offset:offset + 2].copy().view("<f2")
        if not np.abs(scales.astype(np.float32)).max() * factor <= F16_MAX:  # also when it is nan
            return False
    return True


def _peak(tensor: Tensor, max_bytes: int) -> float:
    """Largest finite |value|."""
    peak = 0.0
    row_bytes = F32.row_bytes(tensor.shape[0])
    for _, _, values in _dequantized(tensor, row_bytes, max(max_bytes, row_bytes)):
        peak = max(peak, float(np.abs(values, where=np.isfinite(values), out=np.zeros_like(values)).max()))
    return peak


def _dequantized(tensor: Tensor, row_bytes: int, max_bytes: int) -> Iterator[tuple[int, int, np.ndarray]]:
    raw = tensor.raw()
    for row0, n in row_spans(tensor, row_bytes, max_bytes):
        yield row0, n, dequantize_rows(tensor, raw[row0 * tensor.row_bytes:(row0 + n) * tensor.row_bytes])

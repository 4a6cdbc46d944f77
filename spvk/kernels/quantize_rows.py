"""Activations rounded once for all products that read them; the format depends on the device class.

`half` (class coopmat): float16 under a power of two for each row, so that nothing overflows or is lost to
rows of other sizes (shaders/include/half_rows.glsl). Plain floats and single rows keep the exact product.
"""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from ..shaders import QUANTS
from .checks import expect_bytes, expect_multiple
from .profile import Profile
from .weights import expect_aligned

HALF_TAIL = 16  # bytes behind the halves of a row: its scale


def reads_packed(profile: Profile, rows: int, weight_type: str) -> bool:
    """Does the product of `rows` rows with weights of this type read packed activations, not float32?"""
    return profile.precision == "fast" and profile.name == "coopmat" and rows > 1 and weight_type in QUANTS


def packed_bytes(profile: Profile, rows: int, k: int) -> int:
    """Bytes of `rows` packed rows of `k` values; 0 where no product reads them."""
    if profile.precision != "fast" or profile.name != "coopmat":
        return 0
    return rows * (2 * k + HALF_TAIL)


def quantize_rows(profile: Profile, x: Buffer, packed: Buffer, step: Buffer, *,
                  rows: int, k: int) -> Dispatch:
    """x [rows, k] float32 -> packed; the first step.tokens rows. k is a multiple of 32.

    Raises ValueError when a buffer is too small or not aligned, or for another k.
    """
    expect_multiple("quantize_rows", k=(k, 32))
    expect_bytes("quantize_rows", x=(x, 4 * rows * k), packed=(packed, packed_bytes(profile, rows, k)))
    expect_aligned("quantize_rows", x=x, packed=packed)
    args = dict(x=x, packed=packed, step_params=step, k=k)
    return Dispatch("quantize_rows.half", (rows, 1, 1), args, {"LOCAL": profile.local}, flops=4 * rows * k)


def reference_half(x: np.ndarray) -> np.ndarray:
    """What class coopmat multiplies in place of x [rows, k] float32: half * scale, float64 [rows, k].

    The largest of a row, between 2^e and 2^(e + 1), is brought to between 2^14 and 2^15 first.
    """
    x = np.asarray(x, np.float32)
    bits = np.fmax.reduce(np.abs(x), axis=-1, keepdims=True, initial=np.float32(0)).view(np.uint32)
    exponent = np.clip(bits >> 23, 15, 254)
    scale, inverse = ((e << 23).astype(np.uint32).view(np.float32) for e in (exponent - 14, 268 - exponent))
    with np.errstate(invalid="ignore"):
        return (x * inverse).astype(np.float16).astype(np.float64) * scale

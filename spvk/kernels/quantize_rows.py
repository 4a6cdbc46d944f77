"""Activations rounded once for all products that read them; the format depends on the device class.

`pairs` (class cpu): 255 levels with a scale for each 32 elements of a row, two rows to a 32-bit word, so that
one multiplication serves both (shaders/include/pairs.glsl); `vector` is the same for a single row. Types
whose quants need all eight bits, where no two products fit 16 bits, keep the exact product.
`half` (class coopmat): float16 under a power of two for each row, so that nothing overflows or is lost to
rows of other sizes (shaders/include/half_rows.glsl). `dot` (class dot): the levels of `pairs`, a row after the
other (shaders/include/dot_rows.glsl). On GPUs single rows keep the exact product, plain floats always do.
"""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from ..shaders import QUANTS, SMALL_QUANTS
from .checks import expect_bytes, expect_multiple
from .profile import Profile
from .weights import expect_aligned

GROUP_ROWS, RUN = 16, 32  # as in shaders/include/pairs.glsl
RUN_BYTES = GROUP_ROWS * RUN + 64
VECTOR_BYTES = 80  # of a run of a single row
HALF_TAIL = 16  # bytes behind the halves of a row: its scale
DOT_LOCAL = 64  # threads of a workgroup of quantize_rows.dot.comp, RUN elements each


def reads_packed(profile: Profile, rows: int, weight_type: str) -> bool:
    """Does the product of `rows` rows with weights of this type read packed activations, not float32?"""
    if profile.precision != "fast":
        return False
    if profile.name == "cpu":
        return weight_type in SMALL_QUANTS
    return profile.name in ("coopmat", "dot") and rows > 1 and weight_type in QUANTS


def packed_bytes(profile: Profile, rows: int, k: int) -> int:
    """Bytes of `rows` packed rows of `k` values; 0 where no product reads them."""
    if profile.precision != "fast":
        return 0
    if profile.name == "coopmat":
        return rows * (2 * k + HALF_TAIL)
    if profile.name == "dot":
        return rows * (-(-(k + 8 * k // RUN) // 16) * 16)
    if profile.name != "cpu":
        return 0
    if rows == 1:
        return -(-k // RUN) * VECTOR_BYTES
    return -(-rows // GROUP_ROWS) * -(-k // RUN) * RUN_BYTES


def quantize_rows(profile: Profile, x: Buffer, packed: Buffer, step: Buffer, *,
                  rows: int, k: int) -> Dispatch:
    """x [rows, k] float32 -> packed; the first step.tokens rows, or one row whatever these are.

    k is a multiple of 32. Raises ValueError when a buffer is too small or not aligned, or for another k.
    """
    expect_multiple("quantize_rows", k=(k, RUN))
    expect_bytes("quantize_rows", x=(x, 4 * rows * k), packed=(packed, packed_bytes(profile, rows, k)))
    expect_aligned("quantize_rows", x=x, packed=packed)
    args, spec = dict(x=x, packed=packed, step_params=step, k=k), {"LOCAL": profile.local}
    if profile.name == "coopmat":
        return Dispatch("quantize_rows.half", (rows, 1, 1), args, spec, flops=4 * rows * k)
    if profile.name == "dot":
        groups = (-(-k // (RUN * DOT_LOCAL)), rows, 1)
        return Dispatch("quantize_rows.dot", groups, args, {"LOCAL": DOT_LOCAL}, flops=4 * rows * k, split=1)
    if rows == 1:
        del args["step_params"]
        groups = (-(-k // RUN // profile.local), 1, 1)
        return Dispatch("quantize_rows.vector", groups, args, spec, flops=8 * k)
    groups = (-(-8 * k // RUN // profile.local), -(-rows // GROUP_ROWS), 1)
    return Dispatch("quantize_rows.pairs", groups, args, spec, flops=8 * rows * k, split=1)


def reference(x: np.ndarray) -> np.ndarray:
    """What classes cpu and dot multiply in place of x [rows, k] float32: level * scale, float64 [rows, k].

    The largest magnitude of 32 elements becomes 127 - c levels, c from 0 to 7, whichever loses least (squared
    error, float32 in order). The scale is NaN where they are not finite.
    """
    runs = np.asarray(x, np.float32).reshape(len(x), -1, RUN)
    largest = np.abs(runs).max(-1, keepdims=True)
    usable = np.isfinite(largest) & (largest > 2.0**-100)
    safe = np.where(usable, largest, np.float32(1))
    values, best, least = np.where(usable, runs, 0), np.zeros_like(safe), np.full_like(safe, np.inf)
    for top in np.arange(127, 119, -1, np.float32):
        level = values * (top / safe)
        loss = np.cumsum((level - np.rint(level)) ** 2, axis=-1, dtype=np.float32)[..., -1:] / (top * top)
        best, least = np.where(loss < least, top, best), np.minimum(loss, least)
    levels = np.rint(values * (best / safe)).astype(np.float64)
    scale = np.where(usable, safe / best, np.where(np.isfinite(largest), np.float32(0), np.float32(np.nan)))
    return (levels * scale.astype(np.float64)).reshape(x.shape)


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


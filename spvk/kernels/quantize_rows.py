"""Activations rounded once for all products that read them; the layout depends on the device class.

`pairs` (class cpu): 255 levels with a scale for each 32 elements of a row, two rows to a 32-bit word, so that
one multiplication serves both (shaders/include/pairs.glsl); `vector` is the same for a single row. Types
whose quants need all eight bits, where no two products fit 16 bits, keep the exact product.
`half` (class coopmat): float16 under a power of two for each row, so that nothing overflows or is lost to
rows of other sizes (shaders/include/half_rows.glsl). `dot` (class dot): the levels of `pairs`, a row after the
other (shaders/include/dot_rows.glsl). On GPUs single rows keep the exact product, plain floats always do.

rms_norm, swiglu and gated_norm round what they make themselves, attention where one workgroup has all of it
(single rows on class cpu); this kernel is for the rest. shaders/include/pack_rows.glsl serves all of them.
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
WORKGROUP_ROWS = 8  # that a workgroup makes of `pairs`, see shaders/include/pack_rows.glsl
DOT_LOCAL = 64  # threads of a workgroup where each makes RUN elements of layout `dot`


def reads_packed(profile: Profile, rows: int, weight_type: str) -> bool:
    """Does the product of `rows` rows with weights of this type read packed activations, not float32?"""
    if profile.precision != "fast":
        return False
    if profile.name == "cpu":
        return weight_type in SMALL_QUANTS
    return profile.name in ("coopmat", "dot") and rows > 1 and weight_type in QUANTS


def layout(profile: Profile, rows: int) -> str | None:
    """The layout of `rows` packed rows; None where no product reads them."""
    single, many = {"cpu": ("vector", "pairs"), "dot": ("dot",) * 2, "coopmat": ("half",) * 2}.get(
        profile.name, (None, None)
    )
    return None if profile.precision != "fast" else single if rows == 1 else many


def packed_bytes(profile: Profile, rows: int, k: int) -> int:
    """Bytes of `rows` packed rows of `k` values; 0 where no product reads them."""
    runs = -(-k // RUN)
    return {
        None: 0,
        "half": rows * (2 * k + HALF_TAIL),
        "dot": rows * (-(-(k + 8 * k // RUN) // 16) * 16),
        "vector": runs * VECTOR_BYTES,
        "pairs": -(-rows // GROUP_ROWS) * runs * RUN_BYTES,
    }[layout(profile, rows)]


def row_groups(profile: Profile, rows: int) -> int:
    """Workgroups that make packed rows: four pairs each, up to a whole group of pairs, or a row each."""
    pairs = layout(profile, rows) == "pairs"
    return -(-rows // GROUP_ROWS) * (GROUP_ROWS // WORKGROUP_ROWS) if pairs else rows


def share_groups(profile: Profile, rows: int, k: int) -> tuple[tuple[int, int, int], dict[str, int]]:
    """(workgroups, constants) where a row's runs of 32 may be shared out between workgroups."""
    kind = layout(profile, rows)
    local = DOT_LOCAL if kind == "dot" else profile.local
    lanes = k // RUN * (WORKGROUP_ROWS // 2 if kind == "pairs" else 1)
    x = 1 if kind == "half" else -(-lanes // local)  # the scale of a half is its whole row's
    return (x, row_groups(profile, rows), 1), {"LOCAL": local}


def expect_packed(kernel: str, profile: Profile, packed: Buffer, rows: int, k: int) -> None:
    """Raise ValueError unless `packed` has room for rows of whole runs."""
    expect_multiple(kernel, k=(k, RUN))
    expect_bytes(kernel, packed=(packed, packed_bytes(profile, rows, k)))
    expect_aligned(kernel, packed=packed)


def quantize_rows(
    profile: Profile, x: Buffer, packed: Buffer, step: Buffer, *, rows: int, k: int
) -> Dispatch:
    """x [rows, k] float32 -> packed; the first step.tokens rows.

    k is a multiple of 32. Raises ValueError when a buffer is too small or not aligned, or for another k.
    """
    expect_packed("quantize_rows", profile, packed, rows, k)
    expect_bytes("quantize_rows", x=(x, 4 * rows * k))
    expect_aligned("quantize_rows", x=x)
    groups, spec = share_groups(profile, rows, k)
    args = dict(x=x, packed=packed, step_params=step, k=k)
    return Dispatch(
        f"quantize_rows.{layout(profile, rows)}", groups, args, spec, flops=8 * rows * k, split=1, rounds=x
    )


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

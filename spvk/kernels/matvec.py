"""Matrix times one vector with fused dequantisation: y = W x, or y += W x. Decoding and the output head.

Variants: `lanes` (class cpu): a lane owns rows of W, x is spread by shuffles, and sums are scaled
instead of weights; `pairs` (packed x): the same in integers, two elements to a 32-bit multiplication. `rows` (class scalar): a subgroup or part of one to a row, lanes across k.

On lavapipe `rows` is slower for every type, several times so for quants: its lanes share neither x nor
scales.
"""

from __future__ import annotations

import numpy as np

from ..gguf.types import BY_NAME
from ..recording import Buffer, Dispatch, Matrix
from ..shaders import typed
from .checks import expect_bytes
from .profile import Profile
from .weights import expect_aligned, expect_matrix, fold, piece_args


def matvec(profile: Profile, x: Buffer, w: Matrix, y: Buffer, *,
           accumulate: bool = False, packed: Buffer | None = None) -> list[Dispatch]:
    """x [w.k] float32, w [w.rows, w.k] -> y [w.rows] float32; with `accumulate` the product is added to y.

    One dispatch for each piece of w. `packed` is x rounded by quantize_rows, for the variants that read it.
    Raises ValueError when a buffer is too small, or when shaders cannot read w (type, row length).
    """
    expect_matrix("matvec", w)
    expect_bytes("matvec", x=(x, 4 * w.k), y=(y, 4 * w.rows))
    expect_aligned("matvec", x=x)
    variant = pairs if packed else lanes if profile.name == "cpu" else across
    stem, spec, rows = variant(profile, w)
    source = dict(packed=packed) if packed else dict(x=x)
    spec = spec | {"LOCAL": profile.local, "ACCUMULATE": int(accumulate)}
    out = []
    for first, n, buffer in w.pieces:
        width, height = fold(-(-n // rows))
        args = dict(y=y, fold=width, **source, **piece_args(w, first, n, buffer))
        out.append(Dispatch(typed(stem, w.type), (width, height, 1), args, spec, flops=2 * n * w.k,
                            columns=(first, first + n)))
    return out


def lanes(profile: Profile, w: Matrix) -> tuple[str, dict[str, int], int]:
    """(source, constants, rows of W a workgroup): many rows a lane, unless few workgroups would be left."""
    wide = int(profile.choice("matvec.wide", "8")) if w.rows >= 64 * profile.local else 2
    return "matvec.lanes", {"WIDE": wide}, wide * profile.local


def pairs(profile: Profile, w: Matrix) -> tuple[str, dict[str, int], int]:
    """The same of a packed x."""
    _, spec, rows = lanes(profile, w)
    return "matvec.pairs", spec, rows


def across(profile: Profile, w: Matrix) -> tuple[str, dict[str, int], int]:
    """The same: as many lanes a row as the row has chunks to share, a power of two up to the subgroup."""
    chunks = w.k // min(32, max(8, BY_NAME[w.type].block_elements))
    most = min(profile.subgroup, int(profile.choice("matvec.lanes", str(profile.subgroup))))
    count = min(most, 1 << (chunks.bit_length() - 1))
    return "matvec.rows", {"LANES": count}, profile.local // count


def reference(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The same in float64: x [k], dequantised weights [n, k] -> [n]."""
    return weights.astype(np.float64) @ x.astype(np.float64)

"""RMSNorm (Zhang & Sennrich, arXiv 1910.07467): y = x / sqrt(mean(x^2) + eps) * weight, row by row."""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes, expect_multiple
from .profile import Profile
from .quantize_rows import expect_packed, layout, row_groups
from .weights import expect_aligned


def rms_norm(
    profile: Profile,
    x: Buffer,
    weight: Buffer,
    y: Buffer,
    step: Buffer,
    *,
    rows: int,
    n: int,
    eps: float,
    last: bool = False,
    packed: Buffer | None = None,
    keep: bool = True,
) -> Dispatch:
    """x [rows, n] float32, weight [n] float32 -> y [rows, n] float32; the first step.tokens rows.

    With `last` only row step.tokens - 1 is done, and y is [n]: what the output head needs of a prompt.
    `packed` gets the rows rounded, where the device class has a layout for that (quantize_rows.layout); y is
    then only written with `keep`. Raises ValueError when a buffer is too small for its shape, or unaligned.
    """
    out_rows = 1 if last else rows
    expect_bytes("rms_norm", x=(x, 4 * rows * n), weight=(weight, 4 * n), y=(y, 4 * out_rows * n))
    if n % 2 == 0:  # two values a load
        expect_multiple(
            "rms_norm", x_offset=(x.offset, 8), weight_offset=(weight.offset, 8), y_offset=(y.offset, 8)
        )
    args = dict(x=x, weight=weight, y=y, step_params=step, n=n, last=int(last), eps=eps)
    spec, flops = {"LOCAL": profile.local}, 4 * out_rows * n
    if packed and (kind := layout(profile, out_rows)):
        expect_packed("rms_norm", profile, packed, out_rows, n)
        expect_aligned("rms_norm", x=x, weight=weight)
        return Dispatch(
            f"rms_norm.{kind}",
            (row_groups(profile, out_rows), 1, 1),
            args | {"packed": packed},
            spec | {"KEEP": int(keep)},
            flops=flops,
            rounds=y,
        )
    return Dispatch("rms_norm", (out_rows, 1, 1), args, spec, flops=flops)


def reference(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """The same in float64."""
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight

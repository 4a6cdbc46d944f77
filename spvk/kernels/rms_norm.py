"""RMSNorm (Zhang & Sennrich, arXiv 1910.07467): y = x / sqrt(mean(x^2) + eps) * weight, row by row."""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes
from .profile import Profile


def rms_norm(profile: Profile, x: Buffer, weight: Buffer, y: Buffer, step: Buffer, *, rows: int, n: int,
             eps: float) -> Dispatch:
    """x [rows, n] float32, weight [n] float32 -> y [rows, n] float32; the first step.tokens rows.

    Raises ValueError when a buffer is too small for its shape.
    """
    expect_bytes("rms_norm", x=(x, 4 * rows * n), weight=(weight, 4 * n), y=(y, 4 * rows * n))
    return Dispatch("rms_norm", (rows, 1, 1), dict(x=x, weight=weight, y=y, step_params=step, n=n, eps=eps),
                    {"LOCAL": profile.local}, flops=4 * rows * n)


def reference(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """The same in float64."""
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight

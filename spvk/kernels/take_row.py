"""The last valid row of a batch, copied out: what the output head and the caller need of it."""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes
from .profile import Profile


def take_row(profile: Profile, x: Buffer, y: Buffer, step: Buffer, *, rows: int, n: int) -> Dispatch:
    """y [n] = x[step.tokens - 1], x [rows, n] float32; y may be a range of a larger buffer.

    Raises ValueError for a short buffer.
    """
    expect_bytes("take_row", x=(x, 4 * rows * n), y=(y, 4 * n))
    groups = min(64, -(-n // profile.local))
    args = dict(x=x, y=y, step_params=step, n=n)
    return Dispatch("take_row", (groups, 1, 1), args, {"LOCAL": profile.local}, flops=n)


def reference(x: np.ndarray, tokens: int) -> np.ndarray:
    """The row itself, bit for bit."""
    return x[tokens - 1]

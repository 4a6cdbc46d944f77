"""Some rows of a batch, copied side by side: the kept tokens, for the layers that read no others."""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes, expect_multiple
from .profile import Profile


def gather_rows(
    profile: Profile, x: Buffer, index: Buffer, y: Buffer, step: Buffer, *, rows: int, n: int
) -> Dispatch:
    """y[step.past + i] = x[index[i]] for the first step.tokens entries of index [rows], uint32.

    x, y [rows, n] float32. The caller checks that indices and step.past + step.tokens stay below `rows`.
    Raises ValueError for an odd n, for a short or unaligned buffer.
    """
    expect_multiple("gather_rows", n=(n, 2), x_offset=(x.offset, 8), y_offset=(y.offset, 8))
    expect_bytes("gather_rows", x=(x, 4 * rows * n), index=(index, 4 * rows), y=(y, 4 * rows * n))
    args = dict(x=x, index=index, y=y, step_params=step, pairs=n // 2)
    return Dispatch("gather_rows", (min(rows, 1024), 1, 1), args, {"LOCAL": profile.local}, flops=rows * n)


def reference(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The rows themselves, bit for bit."""
    return x[index]

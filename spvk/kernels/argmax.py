"""The index of the largest value: greedy sampling on the device. It is the first round of top_k."""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes
from .profile import Profile
from .top_k import CHUNKS, NO_ID, scratch_bytes, top_k


def argmax(profile: Profile, x: Buffer, out: Buffer, scratch: Buffer, *, n: int) -> list[Dispatch]:
    """out [1] uint32: the index of the largest of x [n] float32, the first one on ties.

    0xFFFFFFFF if any is NaN. `scratch` has top_k.scratch_bytes(). Raises ValueError for a short buffer.
    """
    expect_bytes("argmax", x=(x, 4 * n), out=(out, 4), scratch=(scratch, scratch_bytes()))
    return top_k(profile, x, out, scratch.range(8 * CHUNKS, 4, "value"), scratch, n=n, k=1)


def reference(x: np.ndarray) -> int:
    """The same with NumPy."""
    return NO_ID if np.isnan(x).any() else int(np.argmax(x))

"""SwiGLU (Shazeer, arXiv 2002.05202): y = silu(gate) * up."""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes, expect_multiple
from .profile import Profile


def swiglu(profile: Profile, gate: Buffer, up: Buffer, y: Buffer, step: Buffer, *, rows: int,
           n: int) -> Dispatch:
    """gate, up [rows, n] -> y [rows, n], float32; the first step.tokens rows.

    Raises ValueError for a short or unaligned buffer.
    """
    expect_multiple("swiglu", gate_offset=(gate.offset, 16), up_offset=(up.offset, 16),
                    y_offset=(y.offset, 16))
    need = 4 * rows * n
    expect_bytes("swiglu", gate=(gate, need), up=(up, need), y=(y, need))
    quads = 32 if profile.name == "cpu" else 4  # enough work for a workgroup to be worth its start
    groups = -(-rows * n // (4 * quads * profile.local))
    return Dispatch("swiglu", (groups, 1, 1), dict(gate=gate, up=up, y=y, step_params=step, n=n),
                    {"LOCAL": profile.local, "QUADS": quads}, flops=40 * rows * n)


def reference(gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    """The same in float64."""
    gate = gate.astype(np.float64)
    return gate * np.exp(-np.logaddexp(0.0, -gate)) * up

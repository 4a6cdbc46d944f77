"""How far a gated delta rule's state decays over dropped tokens, as far as those that were read can tell."""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes
from .profile import Profile

ESTIMATES = ("typical", "mean")


def gap_decay(
    profile: Profile,
    alpha: Buffer,
    dt_bias: Buffer,
    a: Buffer,
    gaps: Buffer,
    total: Buffer,
    y: Buffer,
    step: Buffer,
    *,
    rows: int,
    value_heads: int,
    estimate: str,
    gate_stride: int | None = None,
) -> Dispatch:
    """The first step.tokens rows of y [rows, Hv]: log decays over gaps [rows], uint32 tokens dropped before each.

    alpha, dt_bias, a, `gate_stride` as for gated_delta, all float32. A dropped token's log decay is, by
    `estimate`: `typical`, a * softplus(dt_bias), that of alpha 0; `mean`, that of the tokens read before, of
    which there are step.past before this batch and total [Hv] carries the sum, zeros at the start.
    Raises ValueError for another estimate or a short buffer.
    """
    if estimate not in ESTIMATES:
        raise ValueError(f"gap_decay: estimate is {estimate!r}, expected one of {ESTIMATES}")
    gate_stride = value_heads if gate_stride is None else gate_stride
    heads = 4 * value_heads
    expect_bytes(
        "gap_decay",
        alpha=(alpha, 4 * (rows - 1) * gate_stride + heads),
        dt_bias=(dt_bias, heads),
        a=(a, heads),
        gaps=(gaps, 4 * rows),
        total=(total, heads),
        y=(y, rows * heads),
    )
    args = dict(alpha=alpha, dt_bias=dt_bias, a=a, gaps=gaps, total=total, y=y, step_params=step,
                value_heads=value_heads, gate_stride=gate_stride)  # fmt: skip
    spec = {"LOCAL": profile.local, "MEAN": int(estimate == "mean")}
    groups = -(-value_heads // profile.local)
    return Dispatch("gap_decay", (groups, 1, 1), args, spec, flops=30 * rows * value_heads)


def reference(
    alpha: np.ndarray,
    dt_bias: np.ndarray,
    a: np.ndarray,
    gaps: np.ndarray,
    total: np.ndarray,
    past: int,
    estimate: str,
) -> tuple[np.ndarray, np.ndarray]:
    """The same in float64: (y [rows, Hv], the new total [Hv])."""
    alpha, dt_bias, a, total = (x.astype(np.float64) for x in (alpha, dt_bias, a, total))
    y = np.empty_like(alpha)
    for t in range(len(alpha)):
        each = a * np.logaddexp(0.0, dt_bias) if estimate == "typical" else total / max(past + t, 1)
        y[t] = float(gaps[t]) * each
        if estimate == "mean":
            total = total + a * np.logaddexp(0.0, alpha[t] + dt_bias)
    return y, total

"""SwiGLU (Shazeer, arXiv 2002.05202): y = silu(gate) * up."""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes, expect_multiple
from .profile import Profile
from .quantize_rows import expect_packed, layout, share_groups


def swiglu(
    profile: Profile,
    gate: Buffer,
    up: Buffer,
    y: Buffer,
    step: Buffer,
    *,
    rows: int,
    n: int,
    stride: int | None = None,
    packed: Buffer | None = None,
) -> Dispatch:
    """gate, up [rows, n], rows `stride` floats apart (default n) -> y [rows, n]; float32, step.tokens rows.

    With `packed`, where the device class has a layout for that (quantize_rows.layout), y is left alone and its
    rows go there, rounded.
    Raises ValueError for n or a stride that is no multiple of 4, or a short or unaligned buffer.
    """
    stride = n if stride is None else stride
    expect_multiple(
        "swiglu",
        n=(n, 4),
        stride=(stride, 4),
        gate_offset=(gate.offset, 16),
        up_offset=(up.offset, 16),
        y_offset=(y.offset, 16),
    )
    need = 4 * ((rows - 1) * stride + n)
    expect_bytes("swiglu", gate=(gate, need), up=(up, need), y=(y, 4 * rows * n))
    args, flops = dict(gate=gate, up=up, step_params=step, n=n // 4, stride=stride // 4), 40 * rows * n
    if packed and (kind := layout(profile, rows)):
        expect_packed("swiglu", profile, packed, rows, n)
        groups, spec = share_groups(profile, rows, n)
        return Dispatch(f"swiglu.{kind}", groups, args | {"packed": packed}, spec, flops=flops, rounds=y)
    quads = 32 if profile.name == "cpu" else 1  # enough work for a workgroup to be worth its start
    return Dispatch(
        "swiglu",
        (-(-n // (4 * quads * profile.local)), rows, 1),
        args | {"y": y},
        {"LOCAL": profile.local, "QUADS": quads},
        flops=flops,
    )


def reference(gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    """The same in float64."""
    gate = gate.astype(np.float64)
    return gate * np.exp(-np.logaddexp(0.0, -gate)) * up

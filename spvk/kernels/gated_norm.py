"""Gated RMSNorm of every head, rms(x) * weight * silu(z): the last step of the gated delta rule."""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes, expect_multiple
from .profile import Profile
from .quantize_rows import expect_packed, layout, row_groups

MAX_HEADS = 1024  # of a row that is rounded: their scales lie in shared memory


def gated_norm(
    profile: Profile,
    x: Buffer,
    weight: Buffer,
    z: Buffer,
    y: Buffer,
    step: Buffer,
    *,
    rows: int,
    heads: int,
    size: int,
    eps: float,
    stride: int | None = None,
    packed: Buffer | None = None,
) -> Dispatch:
    """x, z [rows, heads * size], weight [size] -> y [rows, heads * size], float32; step.tokens rows.

    Rows of z lie `stride` floats apart (default: as those of x). With `packed`, where the device class has a
    layout for that (quantize_rows.layout), y is left alone and its rows go there, rounded.
    Raises ValueError for a size that is no multiple of 32 or above 256, a stride that is none of 4, or a short or
    unaligned buffer.
    """
    stride = heads * size if stride is None else stride
    expect_multiple(
        "gated_norm",
        size=(size, 32),
        stride=(stride, 4),
        x_offset=(x.offset, 16),
        weight_offset=(weight.offset, 16),
        z_offset=(z.offset, 16),
        y_offset=(y.offset, 16),
    )
    if size > 256:
        raise ValueError(f"gated_norm: size is {size}, expected at most 256")
    need, z_need = 4 * rows * heads * size, 4 * ((rows - 1) * stride + heads * size)
    expect_bytes("gated_norm", x=(x, need), weight=(weight, 4 * size), z=(z, z_need), y=(y, need))
    args = dict(x=x, weight=weight, z=z, step_params=step, heads=heads, stride=stride // 4, eps=eps)
    spec, flops = {"LOCAL": profile.local, "SIZE": size}, 40 * rows * heads * size
    if packed and (kind := layout(profile, rows)):
        if heads > MAX_HEADS:
            raise ValueError(f"gated_norm: {heads} heads, expected at most {MAX_HEADS}")
        expect_packed("gated_norm", profile, packed, rows, heads * size)
        return Dispatch(
            f"gated_norm.{kind}",
            (row_groups(profile, rows), 1, 1),
            args | {"packed": packed},
            spec | {"HEADS": heads},
            flops=flops,
            rounds=y,
        )
    return Dispatch("gated_norm", (rows, 1, 1), args | {"y": y}, spec, flops=flops)


def reference(x: np.ndarray, weight: np.ndarray, z: np.ndarray, eps: float) -> np.ndarray:
    """The same in float64; x, z [rows, heads, size]."""
    x, z = x.astype(np.float64), z.astype(np.float64)
    normed = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight
    return normed * z * np.exp(-np.logaddexp(0.0, -z))

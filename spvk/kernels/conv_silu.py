"""Causal depthwise convolution over the last four tokens, then silu: Gated DeltaNet's short convolution."""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes, expect_multiple
from .profile import Profile

TAPS = 4


def conv_silu(profile: Profile, x: Buffer, weight: Buffer, state: Buffer, y: Buffer, step: Buffer, *,
              rows: int, channels: int, stride: int | None = None) -> Dispatch:
    """The first step.tokens rows of y [rows, channels]; reads and updates the state. All float32.

    x [rows, channels], rows `stride` floats apart (default: channels); weight [channels, 4], oldest token
    first (GGUF's ssm_conv1d as it lies in the file); state [3, channels]: the three inputs before this batch, oldest first, zeros at the start.
    Raises ValueError for an odd number of channels, an odd stride, or a short or unaligned buffer.
    """
    stride = channels if stride is None else stride
    expect_multiple("conv_silu", channels=(channels, 2), stride=(stride, 2), x_offset=(x.offset, 8),
                    state_offset=(state.offset, 8), y_offset=(y.offset, 8))
    expect_bytes("conv_silu", x=(x, 4 * ((rows - 1) * stride + channels)), weight=(weight, 4 * TAPS * channels),
                 state=(state, state_bytes(channels)), y=(y, 4 * rows * channels))
    # The walk over the tokens is serial: small workgroups spread the channels over more of a GPU. On a
    # software driver 16 pairs of channels a lane gained 15 to 20 %, fewer pairs or more tokens nothing.
    local = profile.local if profile.name == "cpu" else max(64, profile.subgroup)
    args = dict(x=x, weight=weight, state=state, y=y, step_params=step, pairs=channels // 2,
                stride=stride // 2)
    return Dispatch("conv_silu", (-(-channels // (2 * local)), 1, 1), args, {"LOCAL": local},
                    flops=40 * rows * channels)


def state_bytes(channels: int) -> int:
    """Bytes of the convolution state of one layer."""
    return 4 * (TAPS - 1) * channels


def reference(x: np.ndarray, weight: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same in float64: (y [rows, channels], the new state [3, channels])."""
    seen = np.concatenate([state, x]).astype(np.float64)
    total = sum(seen[j:j + len(x)] * weight[:, j].astype(np.float64) for j in range(TAPS))
    return total * np.exp(-np.logaddexp(0.0, -total)), seen[len(x):]

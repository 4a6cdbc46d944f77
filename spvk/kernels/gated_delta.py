"""Gated delta rule (Yang et al., arXiv 2412.06464), as Qwen3.5 uses it, as a scan over the tokens."""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes, expect_multiple
from .profile import Profile

SIZES = (32, 64, 128)


def gated_delta(profile: Profile, conv: Buffer, alpha: Buffer, beta: Buffer, dt_bias: Buffer, a: Buffer,
                state: Buffer, y: Buffer, step: Buffer, *, rows: int, key_heads: int, value_heads: int,
                size: int, eps: float, gate_stride: int | None = None,
                gaps: Buffer | None = None) -> Dispatch:
    """The first step.tokens rows of y [rows, Hv * s]; reads and updates the state. All float32.

    conv [rows, 2 * Hk * s + Hv * s]: q, k, v of every token, q and k not yet normalised; alpha, beta
    [rows, Hv], rows `gate_stride` floats apart (default: Hv): raw projections; dt_bias, a [Hv] with
    a = -exp(A_log); state [Hv, s of v, s of k] (see
    `state_to_numpy`). `size` is s. Value head j uses key head j % Hk. With `gaps` [rows, Hv], the log decay
    over the tokens that were dropped before each (gap_decay.py), the state first decays by that.
    Raises ValueError for a size that is not 32, 64 or 128, for heads that do not divide, for a short or
    unaligned buffer.
    """
    if size not in SIZES:
        raise ValueError(f"gated_delta: size is {size}, expected one of {SIZES}")
    expect_multiple("gated_delta", value_heads=(value_heads, key_heads), conv_offset=(conv.offset, 16),
                    state_offset=(state.offset, 16), y_offset=(y.offset, 16))
    gate_stride = value_heads if gate_stride is None else gate_stride
    inner, gates = value_heads * size, 4 * ((rows - 1) * gate_stride + value_heads)
    expect_bytes("gated_delta", conv=(conv, 4 * rows * (2 * key_heads * size + inner)), alpha=(alpha, gates),
                 beta=(beta, gates), dt_bias=(dt_bias, 4 * value_heads), a=(a, 4 * value_heads),
                 state=(state, state_bytes(value_heads, size)), y=(y, 4 * rows * inner))
    columns = columns_per_cluster(profile, size)
    local = min(profile.local, size // columns * 8)
    args = dict(conv=conv, alpha=alpha, beta=beta, dt_bias=dt_bias, a=a, state=state, y=y, step_params=step,
                key_heads=key_heads, value_heads=value_heads, gate_stride=gate_stride, eps=eps)
    stem = "gated_delta.texels" if profile.name == "cpu" else "gated_delta"
    if gaps is not None:
        expect_bytes("gated_delta", gaps=(gaps, 4 * rows * value_heads))
        stem, args["gaps"] = stem + ".gaps", gaps
    return Dispatch(stem, (-(-size * 8 // (columns * local)), value_heads, 1), args,
                    {"LOCAL": local, "SIZE": size, "COLUMNS": columns}, 7 * size * inner * rows, split=1)


def columns_per_cluster(profile: Profile, size: int) -> int:
    """Columns of the state that eight lanes share; each has columns * size / 8 registers of it.

    On software drivers the loads of k and q cost as much as the arithmetic on 16 columns, so many columns
    pay (512 tokens, 16 heads of 128, two cores: 8 columns 94 ms, 16 59 ms, 32 46 ms), until compiling the
    unrolled loop takes too long (16: 1.2 s, 32: 3.3 s).
    """
    if profile.name == "cpu":
        return min(size, int(profile.choice("gated_delta.columns", "16")) * 128 // size)
    return int(profile.choice("gated_delta.columns", "2"))


def state_bytes(value_heads: int, size: int) -> int:
    """Bytes of the recurrent state of one layer; zeros are its start."""
    return 4 * value_heads * size * size


def state_to_numpy(data: np.ndarray, value_heads: int, size: int) -> np.ndarray:
    """The device's state (flat float32) as S [Hv, s of k, s of v]: there a column of S is contiguous."""
    return data.reshape(value_heads, size, size).transpose(0, 2, 1)


def reference(conv: np.ndarray, alpha: np.ndarray, beta: np.ndarray, dt_bias: np.ndarray, a: np.ndarray,
              state: np.ndarray, *, key_heads: int, size: int, eps: float,
              gaps: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The same in float64, token by token: (y [rows, Hv * s], the new state). state is S [Hv, s_k, s_v]."""
    conv, alpha, beta, dt_bias, a = (x.astype(np.float64) for x in (conv, alpha, beta, dt_bias, a))
    s = state.astype(np.float64)
    rows, heads = alpha.shape
    q, k, v = np.split(conv, [key_heads * size, 2 * key_heads * size], axis=1)
    q, k = (np.tile(x.reshape(rows, key_heads, size), (1, heads // key_heads, 1)) for x in (q, k))
    q = l2_normed(q, eps) / np.sqrt(size)
    k, v = l2_normed(k, eps), v.reshape(rows, heads, size)
    decay = np.exp(a * np.logaddexp(0.0, alpha + dt_bias))
    if gaps is not None:
        decay *= np.exp(gaps.astype(np.float64))
    strength = np.exp(-np.logaddexp(0.0, -beta))
    y = np.empty((rows, heads, size))
    for t in range(rows):
        s = s * decay[t][:, None, None]
        delta = strength[t][:, None] * (v[t] - np.einsum("hkv,hk->hv", s, k[t]))
        s = s + k[t][:, :, None] * delta[:, None, :]
        y[t] = np.einsum("hkv,hk->hv", s, q[t])
    return y.reshape(rows, -1), s


def l2_normed(x: np.ndarray, eps: float) -> np.ndarray:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), eps)

"""Per-head RMSNorm and RoPE (Su et al., arXiv 2104.09864) of queries and keys, and the KV cache's stores.

Angles are kept as 64-bit fractions of a turn: the frequency is exact to 2^-65 turns, so the phase at position
2^18 is exact to 2^-47 turns, and no driver's sin or cos is used.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Literal, Sequence

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes, expect_multiple
from .heads import cache_item, cache_spec, expect_heads
from .profile import Profile

_DIGITS = 60


def _pi(digits: int) -> Decimal:
    """Pi by Machin's formula in integers."""
    one = 10 ** (digits + 10)

    def arctan_inverse(n: int) -> int:
        total, term, k = 0, one // n, 0
        while term:
            total += term // (2 * k + 1) * (-1) ** k
            term, k = term // (n * n), k + 1
        return total
    return Decimal(4 * (4 * arctan_inverse(5) - arctan_inverse(239))) / one


def rope_phases(rotary: int, base: float, factors: Sequence[float] | None = None) -> np.ndarray:
    """Turns a position of each rotary pair, base^(-2i/rotary) / factors[i] / 2pi, as uint32 [rotary/2, 2].

    Each is a 64-bit fixed-point fraction of a turn, low word first, correctly rounded. Raises ValueError for
    an odd `rotary`, a base or factor that is not a positive number, or factors of another length.
    """
    pairs = rotary // 2
    values = [1.0] * pairs if factors is None else [float(f) for f in factors]
    if rotary < 2 or rotary % 2:
        raise ValueError(f"rope: rotary is {rotary}, expected an even number of components")
    if len(values) != pairs:
        raise ValueError(f"rope: {len(values)} frequency factors, expected {pairs}")
    if not all(0 < x < float("inf") for x in (float(base), *values)):
        raise ValueError(f"rope: base {base} or a frequency factor is not a positive number")
    with localcontext() as c:
        c.prec = _DIGITS
        turn, log_base = 2 * _pi(_DIGITS), Decimal(float(base)).ln()
        turns = [(-log_base * 2 * i / rotary).exp() / Decimal(f) / turn for i, f in enumerate(values)]
        fixed = [int((t * 2**64).to_integral_value()) % 2**64 for t in turns]
    return np.array(fixed, np.uint64).view(np.uint32).reshape(pairs, 2)


def norm_rope_store(profile: Profile, q_in: Buffer, k_in: Buffer, v_in: Buffer, q_out: Buffer,
                    k_cache: Buffer, v_cache: Buffer, positions: Buffer, phases: Buffer, step: Buffer, *,
                    rows: int, heads: int, kv_heads: int, dim: int, rotary: int, context: int, eps: float,
                    q_weight: Buffer | None = None, k_weight: Buffer | None = None, gated: bool = False,
                    pairing: Literal["half", "adjacent"] = "half",
                    stride: int | None = None) -> Dispatch:
    """q_in [rows, heads, dim] -> q_out, k_in [rows, kv_heads, dim] -> k_cache, v_in likewise -> v_cache.

    All float32, but the caches as profile.cache; rows of q_in, k_in and v_in lie `stride` floats apart (default: dense). With `gated` q_in is [rows, heads, 2 * dim], each head's query before its gate. Queries and
    keys are RMS-normed per head where a weight [dim] is given, and their first `rotary` components turned by
    positions [rows] (uint32) times `phases` (see rope_phases): pairs (i, i + rotary/2), or (2i, 2i+1) when
    `adjacent`. Row i goes to slot past + i of the caches [kv_heads, context, dim]; values are unchanged.
    Rows from step.tokens on, and slots from `context` on, are untouched. Raises ValueError on bad sizes.
    """
    expect_heads("norm_rope_store", heads, kv_heads, dim, context, rows)
    if pairing not in ("half", "adjacent") or rotary % 2 or not 0 <= rotary <= dim:
        raise ValueError(f"norm_rope_store: rotary {rotary} of {dim}, pairing {pairing!r}: expected an even "
                         "number of components, half or adjacent")
    if profile.cache == "f16" and pairing == "half" and rotary % 4:
        raise ValueError(f"norm_rope_store: rotary {rotary}, expected a multiple of 4 for a float16 cache")
    q_width, kv_width = heads * dim * (2 if gated else 1), kv_heads * dim
    q_stride, kv_stride = (q_width, kv_width) if stride is None else (stride, stride)
    expect_multiple("norm_rope_store", q_stride=(q_stride, 2), kv_stride=(kv_stride, 2))
    kv, cache = 4 * ((rows - 1) * kv_stride + kv_width), cache_item(profile) * kv_heads * context * dim
    expect_bytes("norm_rope_store", q_in=(q_in, 4 * ((rows - 1) * q_stride + q_width)),
                 k_in=(k_in, kv), v_in=(v_in, kv), q_out=(q_out, 4 * rows * heads * dim),
                 k_cache=(k_cache, cache), v_cache=(v_cache, cache),
                 positions=(positions, 4 * rows), phases=(phases, 4 * rotary),
                 **{n: (w, 4 * dim) for n, w in (("q_weight", q_weight), ("k_weight", k_weight))
                    if w is not None})
    args = dict(q_in=q_in, k_in=k_in, v_in=v_in, q_weight=q_weight or q_in, k_weight=k_weight or k_in,
                q_out=q_out, k_cache=k_cache, v_cache=v_cache, positions=positions, phases=phases,
                step_params=step, heads=heads, kv_heads=kv_heads, dim=dim, rotary=rotary, context=context,
                q_stride=q_stride, kv_stride=kv_stride, eps=eps)
    spec = {"LOCAL": min(profile.local, 64), "GATED": int(gated), "ADJACENT": int(pairing == "adjacent"),
            "Q_NORM": int(q_weight is not None), "K_NORM": int(k_weight is not None), **cache_spec(profile)}
    return Dispatch("norm_rope_store", (rows, heads + kv_heads, 1), args, spec,
                    flops=8 * rows * (heads + kv_heads) * dim)


def turns(phases: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Angles [len(positions), rotary/2] in turns, float64, reduced exactly to [-1/2, 1/2)."""
    step = phases.reshape(-1, 2).copy().view(np.uint64)[:, 0]
    return (positions.astype(np.uint64)[:, None] * step[None]).view(np.int64).astype(np.float64) / 2.0**64


def reference(x: np.ndarray, positions: np.ndarray, phases: np.ndarray, eps: float,
              weight: np.ndarray | None = None, pairing: str = "half") -> np.ndarray:
    """Queries or keys [rows, heads, dim] after norm and RoPE, in float64."""
    x = x.astype(np.float64)
    if weight is not None:
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight.astype(np.float64)
    angle, half = 2 * np.pi * turns(phases, positions)[:, None], len(phases)
    first = np.arange(half) * (2 if pairing == "adjacent" else 1)
    second = first + (1 if pairing == "adjacent" else half)
    a, b, out = x[..., first], x[..., second], x.copy()
    out[..., first] = a * np.cos(angle) - b * np.sin(angle)
    out[..., second] = b * np.cos(angle) + a * np.sin(angle)
    return out

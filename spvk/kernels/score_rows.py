"""Second pass of a score row: the softmax row of every head (for inspection; score_max is the fused form)."""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes
from .heads import tile_spec
from .profile import Profile
from .score_stats import expect_scores, score_span, score_splits, scores


def score_rows(profile: Profile, q: Buffer, k_cache: Buffer, stats: Buffer, out: Buffer, step: Buffer, *,
               rows: int, heads: int, kv_heads: int, dim: int, context: int) -> Dispatch:
    """q [rows, heads, dim], k_cache [kv_heads, context, dim], stats of score_stats -> out [heads, context].

    All float32, but the cache as profile.cache. Row h is head h's softmax over the first step.past + step.tokens slots, of the query in row
    step.tokens - 1; slots behind are untouched. Raises ValueError when a size does not fit.
    """
    expect_scores("score_rows", profile, q, k_cache, stats, rows, heads, kv_heads, dim, context)
    expect_bytes("score_rows", out=(out, 4 * heads * context))
    args = dict(q=q, k=k_cache, stats=stats, y=out, step_params=step, heads=heads, context=context,
                span=score_span(context), splits=score_splits(context), scale=dim**-0.5)
    return Dispatch("score_rows", (score_splits(context), kv_heads, 1), args,
                    tile_spec(profile, heads // kv_heads, dim), flops=2 * dim * heads * context)


def reference(q: np.ndarray, k_cache: np.ndarray, keys: int) -> np.ndarray:
    """Softmax rows [heads, keys] of one query q [heads, dim], in float64."""
    s = scores(q, k_cache, keys)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)

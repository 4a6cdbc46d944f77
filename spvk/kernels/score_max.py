"""Second pass of a score row, fused: the largest probability that any head of any layer gives each key.

SpecPrefill (arXiv 2502.02789) takes the maximum over layers and heads; only that row is ever stored.
"""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes
from .heads import tile_spec
from .profile import Profile
from .score_rows import reference as softmax_rows
from .score_stats import expect_scores, score_span, score_splits


def score_max(profile: Profile, q: Buffer, k_cache: Buffer, stats: Buffer, weights: Buffer, row: Buffer,
              step: Buffer, *, rows: int, heads: int, kv_heads: int, dim: int, context: int, first: bool) -> Dispatch:
    """q [rows, heads, dim], k_cache [kv_heads, context, dim], stats of score_stats, weights [heads]
    -> row [context].

    All float32, but the cache as profile.cache. row[key] becomes the maximum over heads of weight times softmax, of the query in row
    step.tokens - 1 over the first step.past + step.tokens slots, and of row[key] itself unless `first`. Keys from
    step.prompt on are untouched; prompt keys that are not in the cache yet count as 0. NaN wins over any
    number. Raises ValueError when a size does not fit.
    """
    expect_scores("score_max", profile, q, k_cache, stats, rows, heads, kv_heads, dim, context)
    expect_bytes("score_max", row=(row, 4 * context), weights=(weights, 4 * heads))
    args = dict(q=q, k=k_cache, stats=stats, weights=weights, row=row, step_params=step, heads=heads, kv_heads=kv_heads,
                context=context, span=score_span(context), splits=score_splits(context), scale=dim**-0.5)
    spec = tile_spec(profile, heads // kv_heads, dim) | {"FIRST": int(first)}
    return Dispatch("score_max", (score_splits(context), 1, 1), args, spec, flops=2 * dim * heads * context)


def reference(q: np.ndarray, k_cache: np.ndarray, keys: int, prompt: int,
              row: np.ndarray | None = None, weights: np.ndarray | None = None) -> np.ndarray:
    """The row's first `prompt` keys, in float64; `row` is what it held, `weights` [heads] are 1 unless given."""
    p = softmax_rows(q, k_cache, keys)
    p = (p if weights is None else p * weights[:, None]).max(0)[:prompt]
    return p if row is None else np.maximum(p, row[:prompt])

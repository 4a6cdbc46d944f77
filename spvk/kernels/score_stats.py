"""First pass of a score row: maximum and sum of exp of the last valid query's scores, by head and key range.

The softmax is computed in two streaming passes, q . k twice, so no score is kept between them (the split
form of the online softmax, Milakov & Gimelshein, arXiv 1805.02867).
"""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes
from .heads import cache_item, expect_heads, tile_spec
from .profile import Profile

MAX_GROUP = 16    # query heads a KV head
SPAN = 256        # keys of a range, while there are fewer than MAX_SPLITS of them
MAX_SPLITS = 256


def score_span(context: int) -> int:
    """Keys of one range: a multiple of SPAN."""
    return SPAN * -(-context // (SPAN * MAX_SPLITS))


def score_splits(context: int) -> int:
    """Ranges that `context` keys are cut into, at most MAX_SPLITS."""
    return -(-context // score_span(context))


def stats_bytes(heads: int, context: int) -> int:
    """Bytes of the stats buffer: float32 [heads, splits, 2]."""
    return 8 * heads * score_splits(context)


def expect_scores(kernel: str, profile: Profile, q: Buffer, k_cache: Buffer, stats: Buffer, rows: int, heads: int,
                  kv_heads: int, dim: int, context: int) -> None:
    """The checks that the score kernels share. Raises ValueError."""
    expect_heads(kernel, heads, kv_heads, dim, context, rows)
    if heads // kv_heads > MAX_GROUP:
        raise ValueError(f"{kernel}: {heads // kv_heads} query heads a KV head, expected at most {MAX_GROUP}")
    expect_bytes(kernel, q=(q, 4 * rows * heads * dim), k_cache=(k_cache, cache_item(profile) * kv_heads * context * dim),
                 stats=(stats, stats_bytes(heads, context)))


def score_stats(profile: Profile, q: Buffer, k_cache: Buffer, stats: Buffer, step: Buffer, *, rows: int,
                heads: int, kv_heads: int, dim: int, context: int) -> Dispatch:
    """q [rows, heads, dim], k_cache [kv_heads, context, dim] -> stats [heads, splits, 2]; float32, the cache as
    profile.cache.

    The query is row step.tokens - 1, its keys the first step.past + step.tokens slots; stats are (maximum,
    sum of exp(score - maximum)) over each range of score_span(context) keys, for ranges that hold any.
    Scores are scaled by 1 / sqrt(dim). Raises ValueError when a size does not fit.
    """
    expect_scores("score_stats", profile, q, k_cache, stats, rows, heads, kv_heads, dim, context)
    splits = score_splits(context)
    args = dict(q=q, k=k_cache, stats=stats, step_params=step, heads=heads, context=context,
                span=score_span(context), splits=splits, scale=dim**-0.5)
    return Dispatch("score_stats", (splits, kv_heads, 1), args, tile_spec(profile, heads // kv_heads, dim),
                    flops=2 * dim * heads * context)


def scores(q: np.ndarray, k_cache: np.ndarray, keys: int) -> np.ndarray:
    """Scaled scores [heads, keys] of one query q [heads, dim], in float64."""
    q, k = q.astype(np.float64), k_cache[:, :keys].astype(np.float64)
    group = len(q) // len(k)
    return np.stack([k[h // group] @ q[h] for h in range(len(q))]) / np.sqrt(q.shape[-1])


def reference(q: np.ndarray, k_cache: np.ndarray, keys: int) -> np.ndarray:
    """stats [heads, used splits, 2] of one query q [heads, dim], in float64."""
    span, s = score_span(k_cache.shape[1]), scores(q, k_cache, keys)
    parts = [s[:, i:i + span] for i in range(0, keys, span)]
    tops = [p.max(-1) for p in parts]
    return np.stack([np.stack([m, np.exp(p - m[:, None]).sum(-1)], -1) for p, m in zip(parts, tops)], 1)

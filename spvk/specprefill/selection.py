"""Which prompt tokens the target prefills: chunks ranked by mean score, guards, and a cap."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spvk.errors import SpvkError
from spvk.specprefill.importance import as_scores, boost, normalise
from spvk.specprefill.settings import Settings

# A share that is met exactly on paper (0.55 of 100 chunks) must not cost a chunk more through rounding.
ROUNDING = 1e-12


def spans_of(positions: ArrayLike) -> list[tuple[int, int]]:
    """Sorted unique positions [k] as the fewest half-open spans `(start, end)`."""
    p = np.asarray(positions, dtype=np.int64)
    if p.size == 0:
        return []
    breaks = np.flatnonzero(np.diff(p) != 1) + 1
    starts, ends = p[np.r_[0, breaks]], p[np.r_[breaks - 1, p.size - 1]] + 1
    return list(zip(starts.tolist(), ends.tolist()))


def positions_of(spans: Iterable[tuple[int, int]]) -> NDArray[np.int32]:
    """The positions int32 [k] in `spans`, in their order: the inverse of `spans_of`."""
    parts = [np.arange(start, end, dtype=np.int32) for start, end in spans]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Selection:
    """The kept tokens of a prompt and the chunk scores behind them. The arrays are read-only.

    Two selections are the same when their `sha256` and `prompt_tokens` are.
    """

    prompt_tokens: int
    positions: NDArray[np.int32]
    """int32 [kept]: sorted, unique positions in the prompt."""
    chunk_scores: NDArray[np.float64]
    """float64 [chunks]: mean score of each chunk; NaN where nothing was scored (mode off)."""
    chunk_kept: NDArray[np.bool_]
    """bool [chunks]: chunks kept for their score. Guard tokens are kept in the other chunks as well."""

    def __post_init__(self) -> None:
        for name, dtype in (("positions", np.int32), ("chunk_scores", np.float64), ("chunk_kept", np.bool_)):
            array = np.array(getattr(self, name), dtype=dtype)
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def kept_tokens(self) -> int:
        return int(self.positions.size)

    @property
    def kept_fraction(self) -> float:
        return self.kept_tokens / self.prompt_tokens

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The kept positions as half-open spans `(start, end)`, sorted, never touching."""
        return spans_of(self.positions)

    @property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of the kept positions as little-endian int32 bytes."""
        return hashlib.sha256(self.positions.astype("<i4").tobytes()).hexdigest()


def keep_all(n: int, settings: Settings) -> Selection:
    """Every one of `n` tokens, unscored: dense prefill. Raises SpvkError for `n` < 1."""
    if n < 1:
        raise SpvkError(f"prompt: found {n} tokens, expected at least 1")
    chunks = -(-n // settings.chunk)
    return Selection(n, np.arange(n), np.full(chunks, np.nan), np.ones(chunks, dtype=bool))


def choose(importance: ArrayLike, settings: Settings) -> Selection:
    """The whole policy: joined importance [n] to the kept tokens, by way of `normalise` and `boost`.

    Raises SpvkError for an empty prompt and for NaN or inf. Mode off keeps all and reads no score.
    """
    if settings.mode == "off":
        return keep_all(np.size(importance), settings)
    return select(boost(normalise(importance), settings), settings)


def select(scores: ArrayLike, settings: Settings) -> Selection:
    """The kept tokens for normalised, boosted `scores` (float [n], none negative).

    Chunks of `settings.chunk` tokens (the last may be shorter) are ranked by mean score, the earlier first
    among equals. Mass mode keeps the fewest from the top whose tokens hold `mass` of the summed score; chunk
    mode keeps ceil(keep * chunks). The guards at both ends are kept besides. `max_keep` then drops
    the lowest-ranked chunks, whole, until guards and chunks fit; a cap below a chunk may leave guards alone.
    Mode off keeps all. Raises SpvkError for an empty prompt and for NaN, inf or negative scores.
    """
    if settings.mode == "off":
        return keep_all(np.size(scores), settings)
    values = as_scores(scores, "importance")
    if values.min() < 0:
        token = int(values.argmin())
        raise SpvkError(f"importance: found {values[token]} at token {token}, expected no negative score")
    n, starts = values.size, np.arange(0, values.size, settings.chunk)
    lengths = np.diff(np.r_[starts, n])
    sums, means = _chunk_sums_and_means(values, starts, lengths)
    order = np.argsort(-means, kind="stable")
    guards = _guards(n, settings)
    count = _wanted(sums, lengths, order, settings)
    if settings.max_keep is not None:
        count = min(count, _fitting(guards, starts, order, settings.max_keep))
    chunk_kept = np.zeros(starts.size, dtype=bool)
    chunk_kept[order[:count]] = True
    kept = guards | np.repeat(chunk_kept, lengths)
    return Selection(n, np.flatnonzero(kept), means, chunk_kept)


def _chunk_sums_and_means(values: NDArray, starts: NDArray, lengths: NDArray) -> tuple[NDArray, NDArray]:
    """Sum and mean of each chunk, float64 [chunks]; correctly rounded sums are the same on every machine."""
    listed = values.tolist()
    sums = np.array([math.fsum(listed[at : at + size]) for at, size in zip(starts, lengths)])
    # A flat chunk's mean is its value: rounding must not break a tie with a chunk of another length.
    lows, highs = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    return sums, np.clip(sums / lengths, lows, highs)


def _guards(n: int, settings: Settings) -> NDArray[np.bool_]:
    guards = np.zeros(n, dtype=bool)
    guards[: settings.guard_first] = True
    guards[max(0, n - settings.guard_last) :] = True
    return guards


def _wanted(sums: NDArray, lengths: NDArray, order: NDArray, settings: Settings) -> int:
    """How many chunks from the top the mode asks for: at least 1, as neither share can be 0."""
    if settings.select == "chunk":
        return math.ceil(settings.keep * order.size * (1 - ROUNDING))
    # Scores that are all zero are equal scores: each token weighs the same.
    weights = sums if sums.any() else lengths.astype(np.float64)
    covered = np.cumsum(weights[order])
    return int(np.searchsorted(covered, settings.mass * covered[-1] * (1 - ROUNDING))) + 1


def _fitting(guards: NDArray, starts: NDArray, order: NDArray, max_keep: int) -> int:
    """How many chunks from the top fit under the cap; a chunk costs the tokens that are no guards."""
    cost = np.add.reduceat(~guards, starts, dtype=np.int64)[order]
    return int(np.searchsorted(np.cumsum(cost), max_keep - int(guards.sum()), side="right"))

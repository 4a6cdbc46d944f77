"""Which prompt tokens the target prefills: chunks or spans ranked by score, guards, and a cap."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spvk.errors import SpvkError
from spvk.specprefill.adaptive import Evidence, keep_fraction, read_evidence
from spvk.specprefill.edges import Layout, cut
from spvk.specprefill.importance import as_scores, boost, normalise, pool
from spvk.specprefill.settings import Settings
from spvk.specprefill.spread import is_wanted, spread

if TYPE_CHECKING:
    from spvk.specprefill.protect import Structure

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
    """bool [chunks]: chunks kept for their score. Guard tokens are kept in the other chunks as well.

    Where spans do not follow the chunks (edges other than `fixed`, or a chat's structure): chunks kept whole.
    """
    keep: float | None = None
    """The fraction that `adaptive` chose; None for the other modes."""
    evidence: Evidence | None = None
    """What the scores say about themselves; only in mode auto and for `adaptive`."""

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


def choose(
    importance: ArrayLike, settings: Settings, structure: Structure | None = None, *, pooled: bool = False
) -> Selection:
    """The whole policy: joined importance [n] to the kept tokens, by way of `normalise` and `boost`.

    Where `settings` spread the budget (see spread.py), as many tokens are kept as without.
    `structure` is what `protect.read_structure` found: its protected tokens are kept as the guards are,
    besides what the scores buy, and no span crosses its boundaries. `pooled` says that the rows were pooled
    before their maximum was taken (as in the paper); else `settings.pool` is applied to the importance.
    Raises SpvkError for an empty prompt, for NaN or inf, and for a cap below the protected tokens.
    Mode off keeps all and reads no score.
    """
    if settings.mode == "off":
        return keep_all(np.size(importance), settings)
    raw = as_scores(importance, "importance")
    raw = raw if pooled else pool(raw, settings.pool)
    guards, evidence, keep = _guards(raw.size, settings), None, None
    if structure is not None:
        guards |= structure.protected
    if settings.mode == "auto" or settings.select == "adaptive":
        evidence = read_evidence(raw, settings, guards)
    if settings.select == "adaptive":
        keep = keep_fraction(evidence, settings, structure.kind.name if structure is not None else "prose")
        settings = replace(settings, select="chunk", keep=keep)
    scores = boost(normalise(raw, settings.normalise), settings)
    structured = structure is not None and bool(structure.protected.any() or structure.messages.size)
    if settings.edges == "fixed" and not structured:
        chosen = select(scores, settings)
    else:
        chosen = _select_spans(scores, settings, guards, structure)
    if is_wanted(settings):
        budget = chosen.kept_tokens - int(guards.sum())
        kept = spread(scores, budget, _layout(guards, settings, structure), settings)
        chosen = _of_tokens(kept, chosen.chunk_scores, settings)
    return replace(chosen, keep=keep, evidence=evidence)


def _select_spans(
    scores: NDArray, settings: Settings, guards: NDArray, structure: Structure | None
) -> Selection:
    """Selection by edges.py: guards, and a budget of tokens besides, which `max_keep` limits."""
    n, starts = scores.size, np.arange(0, scores.size, settings.chunk)
    lengths = np.diff(np.r_[starts, n])
    sums, means = _chunk_sums_and_means(scores, starts, lengths)
    budget = math.ceil(settings.keep * n * (1 - ROUNDING))
    if settings.select == "mass":  # as many tokens as the chunks that hold the mass would cost
        order = np.argsort(-means, kind="stable")
        picked = np.isin(np.arange(starts.size), order[: _wanted(sums, lengths, order, settings)])
        budget = int((np.repeat(picked, lengths) & ~guards).sum())
    if settings.max_keep is not None:
        budget = min(budget, _under_cap(settings.max_keep, int(guards.sum())))
    kept = cut(scores, budget, _layout(guards, settings, structure), settings.edges)
    return _of_tokens(kept, means, settings)


def _layout(guards: NDArray, settings: Settings, structure: Structure | None) -> Layout:
    found = () if structure is None else (structure.messages, structure.sentences, structure.indented)
    return Layout(guards, settings.chunk, *found)


def _of_tokens(kept: NDArray, means: NDArray, settings: Settings) -> Selection:
    """The selection of the tokens kept bool [n], whatever their chunks; `means` are the chunks' scores."""
    whole = np.logical_and.reduceat(kept, np.arange(0, kept.size, settings.chunk))
    return Selection(kept.size, np.flatnonzero(kept), means, whole)


def _under_cap(max_keep: int, guards: int) -> int:
    if max_keep < guards:
        why = f"as {guards} tokens are guarded or protected"
        raise SpvkError(f"max_keep: found {max_keep}, expected at least {guards}, {why}")
    return max_keep - guards


def select(scores: ArrayLike, settings: Settings) -> Selection:
    """The kept tokens for normalised, boosted `scores` (float [n], none negative).

    Chunks of `settings.chunk` tokens (the last may be shorter) are ranked by mean score, the earlier first
    among equals. Mass mode keeps the fewest from the top whose tokens hold `mass` of the summed score; chunk
    mode keeps ceil(keep * chunks). The guards at both ends are kept besides. `max_keep` then drops
    the lowest-ranked chunks, whole, until guards and chunks fit; a cap below a chunk may leave guards alone.
    Mode off keeps all. Raises SpvkError for an empty prompt and for NaN, inf or negative scores.
    `adaptive` has no fraction of its own: `choose` finds it in the importance.
    """
    if settings.mode == "off":
        return keep_all(np.size(scores), settings)
    if settings.select == "adaptive":
        raise ValueError("select needs a mode that is resolved, mass or chunk")
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

"""Where kept pieces begin and end: ways to spend one budget of tokens on spans of the prompt.

Chunks cut at fixed places drop the half of a fact that lies beyond the cut: its words score low, only its
answer scores high. Each finder here ranks spans of the prompt by the scores; `cut` then takes them from the
top until the budget is spent, the last one cut to its best run. So every finder keeps the same number of
tokens: the guards and min(budget, all others). No span crosses a message boundary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spvk.specprefill.importance import pool

Span = tuple[int, int]  # half-open
# Found on questions about plain text (docs/QUALITY.md): 0.6 and 0.8 do nearly as well, 2 chunks less, 6 no better.
SHARE, REACH = 0.7, 4


def no_indices() -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Layout:
    """What the finders know of a prompt besides its scores."""

    guards: NDArray[np.bool_]
    """bool [n]: tokens that are kept in any case; they cost nothing and their scores do not count."""
    chunk: int = 32
    """Tokens in a span, about."""
    messages: NDArray[np.int64] = field(default_factory=no_indices)
    """Token indices where a message begins: no span crosses them."""
    sentences: NDArray[np.int64] = field(default_factory=no_indices)
    """Token indices where a sentence or a line begins: `snapped` prefers to cut there."""
    indented: NDArray[np.int64] = field(default_factory=no_indices)
    """Those of `sentences` whose line is indented: the second best places to cut."""

    @property
    def segments(self) -> list[Span]:
        """The prompt between message boundaries."""
        n = self.guards.size
        inner = np.unique(self.messages)
        edges = [0, *inner[(inner > 0) & (inner < n)].tolist(), n]
        return list(zip(edges[:-1], edges[1:]))


def fixed(scores: NDArray, layout: Layout) -> list[Span]:
    """Chunks side by side from the start of each message, by mean score: version 3.1 by the token."""
    return ranked(scores, layout, _grid(layout, layout.chunk, layout.chunk))


def pooled(scores: NDArray, layout: Layout) -> list[Span]:
    """`fixed` on scores averaged over a chunk's width in each message: a peak at a cut counts twice."""
    free, width = (~layout.guards).astype(np.float64), layout.chunk | 1
    parts = []
    for start, end in layout.segments:
        weight = pool(free[start:end], width)
        total = pool(scores[start:end] * free[start:end], width)
        parts.append(np.divide(total, weight, out=np.zeros_like(total), where=weight > 0))
    return fixed(np.concatenate(parts), layout)


def peaks(scores: NDArray, layout: Layout) -> list[Span]:
    """A chunk's width around the highest token, then around the highest outside it, and so on."""
    seen, spans = layout.guards.copy(), []
    starts = np.array([start for start, _ in layout.segments])
    ends = [end for _, end in layout.segments]
    for peak in np.argsort(-scores, kind="stable").tolist():
        if not seen[peak]:
            i = int(np.searchsorted(starts, peak, side="right")) - 1
            low, high = int(starts[i]), ends[i]
            start = max(low, min(peak - layout.chunk // 2, high - layout.chunk))
            spans.append((start, min(high, start + layout.chunk)))
            seen[slice(*spans[-1])] = True
    return spans


def snapped(scores: NDArray, layout: Layout) -> list[Span]:
    """Chunks that end where a sentence does, 0.5 to 2 times as long as asked, by mean score.

    An indented line goes with the one before it where both fit: a definition is found by its name and used for
    its body. Chunks of one sentence count for no less than SHARE of the best among those near: what is asked for
    and what is said of it may stand far apart in it.
    """
    spans = [s for segment in layout.segments for s in _sentences(segment, layout)]
    return _from_the_top(spans, _shared(_means(scores, layout, spans), spans, layout))


def overlap(scores: NDArray, layout: Layout) -> list[Span]:
    """Chunks at half their width apart, by mean score: whatever is cut by one lies whole in another."""
    return ranked(scores, layout, _grid(layout, layout.chunk, max(1, layout.chunk // 2)))


def dilated(scores: NDArray, layout: Layout) -> list[Span]:
    """Chunks of a quarter of the width by mean score, each widened to the whole width on both sides."""
    small = max(1, layout.chunk // 4)
    more = (layout.chunk - small) // 2
    low = {start: segment for segment in layout.segments for start in range(*segment, small)}
    best = ranked(scores, layout, _grid(layout, small, small))
    return [(max(low[start][0], start - more), min(low[start][1], end + more)) for start, end in best]


FINDERS: dict[str, Callable[[NDArray, Layout], list[Span]]] = {
    f.__name__: f for f in (fixed, pooled, peaks, snapped, overlap, dilated)
}


def cut(scores: ArrayLike, budget: int, layout: Layout, edges: str) -> NDArray[np.bool_]:
    """The kept tokens, bool [n], for normalised `scores` float [n]: guards, and `budget` tokens besides.

    `edges` names a finder. Exactly min(budget, tokens that are no guards) are kept besides the guards.
    """
    values, kept = np.asarray(scores, dtype=np.float64), layout.guards.copy()
    fill(kept, FINDERS[edges](values, layout), budget, values)
    return kept


def fill(kept: NDArray[np.bool_], spans: Iterable[Span], budget: int, scores: NDArray) -> int:
    """Keep span after span while `budget` lasts, the last one cut to its best run. Returns what is left."""
    for start, end in spans:
        if budget <= 0:
            break
        new = start + np.flatnonzero(~kept[start:end])
        new = new if new.size <= budget else _best_run(scores, new, budget)
        kept[new] = True
        budget -= new.size
    return budget


def ranked(scores: NDArray, layout: Layout, spans: Iterable[Span]) -> list[Span]:
    """`spans` by the mean score of their tokens that are no guards, the earlier first among equals."""
    spans = list(spans)
    return _from_the_top(spans, _means(scores, layout, spans))


def _from_the_top(spans: list[Span], means: list[float | None]) -> list[Span]:
    """Spans by their means; those that have none are left out."""
    order = sorted((-mean, *span) for mean, span in zip(means, spans) if mean is not None)
    return [(start, end) for _, start, end in order]


def _means(scores: NDArray, layout: Layout, spans: list[Span]) -> list[float | None]:
    """Each span's mean score over its tokens that are no guards; None where all are."""
    listed, free = scores.tolist(), ~layout.guards
    values = ([listed[i] for i in range(start, end) if free[i]] for start, end in spans)
    return [_mean(v) if v else None for v in values]


def _shared(means: list[float | None], spans: list[Span], layout: Layout) -> list[float | None]:
    """`means` of spans in order, raised to SHARE of the best that a span of the same sentence or line within
    REACH chunks has. A span belongs to the sentence of its last token; where no sentence is known none is shared."""
    if not layout.sentences.size:
        return means
    bounds = np.union1d(layout.sentences, layout.messages)
    sentence = np.searchsorted(bounds, [end - 1 for _, end in spans], side="right").tolist()
    out = list(means)
    for i, (start, _) in enumerate(spans):
        j = i + 1
        while j < len(spans) and sentence[j] == sentence[i] and spans[j][0] - start <= REACH * layout.chunk:
            for a, b in ((i, j), (j, i)):
                if means[a] is not None and out[b] is not None:
                    out[b] = max(out[b], SHARE * means[a])
            j += 1
    return out


def _mean(values: list[float]) -> float:
    # Correctly rounded, and a flat span's mean is its value: rounding must not break a tie.
    return min(max(math.fsum(values) / len(values), min(values)), max(values))


def _grid(layout: Layout, size: int, stride: int) -> list[Span]:
    """Spans of `size` at `stride` in each message; the last may be shorter, none lies inside another."""
    spans = []
    for low, high in layout.segments:
        for start in range(low, high, stride):
            spans.append((start, min(high, start + size)))
            if start + size >= high:
                break
    return spans


def _sentences(segment: Span, layout: Layout) -> Iterable[Span]:
    """One message as spans that end at the sentence boundary nearest to a chunk's end."""
    (start, high), chunk = segment, layout.chunk
    lines = np.append(layout.sentences[(layout.sentences > start) & (layout.sentences < high)], high)
    choices = (np.setdiff1d(lines, layout.indented), lines)
    while high - start > chunk:
        ends = (_nearest(bounds, start, chunk) for bounds in choices)
        end = next((end for end in ends if end is not None), start + chunk)
        yield start, end
        start = end
    if start < high:
        yield start, high


def _nearest(bounds: NDArray, start: int, chunk: int) -> int | None:
    """The one of `bounds` nearest to `chunk` tokens from `start`, of those 0.5 to 2 times as far; None: none is."""
    far = bounds - start
    near = bounds[(far > 0) & (2 * far >= chunk) & (far <= 2 * chunk)]
    return int(near[np.abs(near - start - chunk).argmin()]) if near.size else None


def _best_run(scores: NDArray, tokens: NDArray, size: int) -> NDArray:
    """The `size` tokens in a row (of `tokens`, sorted) with the highest sum, the earliest among equals."""
    values = scores[tokens].tolist()
    sums = [math.fsum(values[i : i + size]) for i in range(tokens.size - size + 1)]
    at = sums.index(max(sums))
    return tokens[at : at + size]

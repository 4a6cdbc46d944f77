"""What the scores of a prompt say about themselves: how much to keep, and how far to trust them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spvk.specprefill.importance import as_scores
from spvk.specprefill.settings import Settings


@dataclass(frozen=True)
class Evidence:
    """Numbers of one prompt's chunk scores; guards and protected tokens take no part."""

    chunks: int
    """Chunks with at least one token that could be dropped."""
    spread: float
    """Share of the chunks, in (0, 1], among which what stands out is spread; small: a few chunks hold it."""
    confidence: float
    """1 - median / maximum of the chunks' peaks, 0 to 1; 0.2: the best peak is 1.25 times a usual one."""

    def as_dict(self) -> dict[str, float]:
        return {"chunks": self.chunks, "spread": self.spread, "confidence": self.confidence}


def read_evidence(importance: ArrayLike, settings: Settings, guards: NDArray[np.bool_]) -> Evidence:
    """Evidence of raw importance [n] (none negative), in chunks of `settings.chunk`; `guards` is bool [n].

    `spread` comes from the chunks' means: let e = max(0, mean - median of the means) and p = e / sum(e); then
    it is exp(entropy of p) / chunks, the effective number of chunks that stand out, as a share. Where
    none stands out, or one chunk is all there is, it is 1. Confidence is 1 for a single chunk: there is
    nothing to compare. Raises SpvkError for NaN and inf.
    """
    values = as_scores(importance, "importance").tolist()
    spans = [range(at, min(at + settings.chunk, len(values))) for at in range(0, len(values), settings.chunk)]
    chunks = [[values[i] for i in span if not guards[i]] for span in spans]
    chunks = [chunk for chunk in chunks if chunk]
    if len(chunks) < 2:
        return Evidence(len(chunks), 1.0, 1.0)
    peaks = [max(chunk) for chunk in chunks]
    top = max(peaks)
    confidence = 1.0 - _median(peaks) / top if top > 0 else 0.0
    return Evidence(len(chunks), _spread([math.fsum(c) / len(c) for c in chunks]), confidence)


def keep_fraction(evidence: Evidence, settings: Settings, kind: str) -> float:
    """Fraction to keep: 2 x spread, within floor and ceiling.

    Twice, since as much again is kept of what lies around. The floor is `keep_floor`, for `kind` "code" the
    larger of it and `code_floor`: code falls apart first when tokens go. `keep_ceiling` beats the floors.
    """
    floor = max(settings.keep_floor, settings.code_floor) if kind == "code" else settings.keep_floor
    return min(settings.keep_ceiling, max(floor, 2.0 * evidence.spread))


def _spread(means: Sequence[float]) -> float:
    usual = _median(means)
    excess = [max(0.0, mean - usual) for mean in means]
    total = math.fsum(excess)
    if total <= 0.0:
        return 1.0
    entropy = -math.fsum(e / total * math.log(e / total) for e in excess if e / total > 0.0)
    return min(1.0, math.exp(entropy) / len(means))


def _median(values: Sequence[float]) -> float:
    return float(np.median(np.array(values)))

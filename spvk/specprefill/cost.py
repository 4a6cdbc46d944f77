"""Time to first token, dense and sparse, predicted from earlier runs of this device with these files.

A model's time for some work is `step_ms` x passes + `token_ms` x tokens + `square_ms` x tokens squared, each
at least 0: products with weights grow with the tokens, attention with their square, and what a pass costs
whatever its length (a decoded token, a launch) with the passes. The three are fitted to records of earlier
runs. Nothing is assumed where nothing was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from spvk.specprefill.settings import Settings
from spvk.specprefill.windows import windows


class Work(NamedTuple):
    """What one phase of a run has to do."""

    steps: float
    tokens: float
    squares: float
    """Tokens squared, summed over the windows."""


class Record(NamedTuple):
    """Work, and the milliseconds that it took."""

    work: Work
    ms: float


def prefill_work(kept: int) -> Work:
    """The target's: one pass over the `kept` tokens, which attend to one another."""
    return Work(1.0, float(kept), float(kept) ** 2)


def score_work(n: int, settings: Settings) -> Work:
    """The draft's: for each window one pass over its tokens and `lookahead` steps."""
    sizes = [w.end - w.start for w in windows(n, settings.window)]
    return Work(len(sizes) * (1.0 + settings.lookahead), float(sum(sizes)), float(sum(s * s for s in sizes)))


@dataclass(frozen=True)
class Rate:
    """Milliseconds a pass, a token, and a token squared."""

    step_ms: float
    token_ms: float
    square_ms: float

    def ms(self, work: Work) -> float:
        return self.step_ms * work.steps + self.token_ms * work.tokens + self.square_ms * work.squares


FAR = 4  # times the longest prompt measured: no longer one is declined for what is predicted of it

_TERMS = ((1,), (1, 2), (0, 1), (0, 1, 2))  # columns of Work that take part, simplest first
_EXACT = 1e-4  # of the times: no clock is better, and smaller errors are all the same


def fit(records: Iterable[Record]) -> Rate | None:
    """The rate that meets the records best, by the mean of |predicted / measured - 1|; None without records.

    The absolute relative error, rather than its square: a run that shared the machine should not bend the
    curve, and short prompts count as much as long ones. Not more terms than lengths were measured, and a further
    one only where it says more than noise would (the Bayesian information criterion for Laplace's errors): what
    the noise of short runs adds to the square is large at a long prompt.
    """
    rows = [r for r in records if r.ms > 0 and r.work.tokens > 0]
    if not rows:
        return None
    scaled = np.array([np.array(r.work) / r.ms for r in rows])
    lengths = len({r.work.tokens for r in rows})
    best, least = None, math.inf
    for terms in _TERMS:
        if len(terms) <= lengths:
            found = _least_absolute(scaled[:, terms])
            error = max(float(np.abs(scaled[:, terms] @ found - 1.0).mean()), _EXACT)
            criterion = 2 * len(rows) * math.log(error) + len(terms) * math.log(len(rows))
            if found.min() >= 0.0 and criterion < least:
                best, least = dict(zip(terms, found.tolist())), criterion
    return Rate(*(best.get(i, 0.0) for i in range(3)))


def _least_absolute(rows: np.ndarray) -> np.ndarray:
    """x of least mean |rows @ x - 1|, by least squares with weights 1 / |error|, sixteen times over."""
    scale = rows.max(axis=0)
    weights = np.ones(len(rows))
    for _ in range(16):
        x = np.linalg.lstsq(rows / scale * weights[:, None], weights, rcond=None)[0]
        weights = 1.0 / np.sqrt(np.maximum(np.abs(rows / scale @ x - 1.0), 1e-3))
    return x / scale


@dataclass(frozen=True)
class Prediction:
    """Times to first token in milliseconds; scoring is part of the sparse one, loading of neither."""

    dense_ms: float
    sparse_ms: float
    score_ms: float
    """The draft's share of `sparse_ms`."""
    kept_tokens: int
    """The kept tokens that were assumed."""

    def as_dict(self) -> dict[str, Any]:
        return {"predicted_" + name: round(value, 3) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Rates:
    """What is known of a device and a pair."""

    target: Rate | None = None
    draft: Rate | None = None
    kept: tuple[float, ...] = ()
    """Kept fractions of earlier sparse runs."""
    layers: int | None = None
    """The target's layers; None: unknown, and nothing is predicted of runs with dense layers."""
    longest: float | None = None
    """Tokens of the longest prompt behind the rates; None: they are not from records."""

    def covers(self, n: int) -> bool:
        """Whether a prompt of `n` tokens may be declined by these rates: short ones do not show what attention costs."""
        return self.longest is None or n <= FAR * self.longest

    def predict(
        self, n: int, settings: Settings, kept: int | None = None, protected: int = 0
    ) -> Prediction | None:
        """Times for a prompt of `n` tokens; None where a rate, or what would be kept, is unknown.

        `kept` are the kept tokens once they are known; before that they are `expected_kept`.
        `spec_throughput`, where it is set, stands for the draft's rate.
        """
        draft = self.draft
        if settings.spec_throughput is not None:
            draft = Rate(0.0, 1e3 / settings.spec_throughput, 0.0)
        kept = expected_kept(n, settings, protected, self.kept) if kept is None else kept
        if self.target is None or draft is None or kept is None:
            return None
        if settings.dense_layers and self.layers is None:
            return None
        score = draft.ms(score_work(n, settings))
        sparse = score + self.target.ms(prefill_work(kept))
        if settings.dense_layers:  # they read the dropped tokens besides, and do not attend
            sparse += settings.dense_layers / self.layers * self.target.token_ms * (n - kept)
        return Prediction(self.target.ms(prefill_work(n)), sparse, score, kept)


def expected_kept(n: int, settings: Settings, protected: int, earlier: Sequence[float]) -> int | None:
    """Tokens that a prompt of `n` would keep, before it is scored; None where only the scores can tell.

    Chunk mode says so itself, and protected tokens come besides; the other modes keep what the median
    of the `earlier` fractions says.
    """
    share = settings.keep if settings.select == "chunk" else float(np.median(earlier)) if earlier else None
    if share is None:
        return None
    kept = min(n, math.ceil(share * n) + (protected if settings.select == "chunk" else 0))
    return kept if settings.max_keep is None else min(kept, settings.max_keep)

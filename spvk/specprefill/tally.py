"""Which head gave each token its score: for the page that explains a selection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spvk.specprefill.windows import Window


@dataclass(frozen=True)
class _Row:
    """One score row of a window, for the tokens from `start` on that are taken from it."""

    start: int
    winner: NDArray[np.int32]
    """The strongest head of each token [taken], as layer * heads + head."""
    value: NDArray[np.float64]
    """Its score [taken]."""


@dataclass
class Tally:
    """Collects the rows that scoring sees; of each, only the strongest head of every token is kept."""

    shape: tuple[int, int] = (0, 0)
    rows: list[_Row] = field(default_factory=list)

    def of(self, window: Window) -> Callable[[ArrayLike], None]:
        """What to call with each of a window's rows, float [attention layers, heads, window's tokens]."""

        def add(rows: ArrayLike) -> None:
            rows = np.asarray(rows)
            self.shape = rows.shape[:2]
            taken = rows[:, :, window.take_start - window.start : window.take_end - window.start]
            flat = taken.reshape(-1, taken.shape[-1])
            self.rows.append(_Row(window.take_start, flat.argmax(0).astype(np.int32), flat.max(0)))

        return add

    def shares(self, positions: ArrayLike) -> NDArray[np.float64] | None:
        """Each head's part of the summed importance of the tokens at `positions`, [attention layers, heads].

        The importance of a token is, over the rows, the mean of its strongest head's score: all of it is that
        head's. The parts add up to 1; None where there is no score to divide.
        """
        wanted = np.asarray(positions)
        total = np.zeros(self.shape[0] * self.shape[1])
        for row in self.rows:
            here = wanted[(wanted >= row.start) & (wanted < row.start + row.winner.size)] - row.start
            total += np.bincount(row.winner[here], row.value[here], minlength=total.size)
        return (total / total.sum()).reshape(self.shape) if total.sum() > 0 else None

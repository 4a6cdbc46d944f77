"""A prompt's scores as shades, and as lines of characters along it; pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVELS = 10
BLOCKS = "▁▂▃▄▅▆▇█"
WHOLE, PART, NONE = "━", "╍", "·"  # of a cell's tokens are read


def ranks(importance: ArrayLike) -> NDArray[np.float64]:
    """Share of the tokens that score lower, float64 [n] in [0, 1): robust against attention's long tail."""
    values = np.asarray(importance, dtype=np.float64)
    return np.searchsorted(np.sort(values), values, side="left") / values.size


def levels(importance: ArrayLike) -> NDArray[np.int64]:
    """Shades 0 to 9, int64 [n]: LEVELS times the square of the rank; the deepest is the top twentieth."""
    return np.floor(LEVELS * ranks(importance) ** 2).astype(np.int64)


def heat_strip(importance: ArrayLike, kept: ArrayLike, width: int = 64) -> tuple[str, str]:
    """Two lines of min(width, n) characters: how high the tokens score, and `read_strip`.

    A block's height is the mean rank of its tokens between the lowest and the highest block's.
    """
    rank = ranks(importance)
    starts, sizes = cells(rank.size, width)
    means = np.add.reduceat(rank, starts) / sizes
    low, span = means.min(), np.ptp(means)
    heights = np.rint((means - low) / span * (len(BLOCKS) - 1)) if span else np.zeros(len(starts))
    return "".join(BLOCKS[int(h)] for h in heights), read_strip(kept, width)


def read_strip(kept: ArrayLike, width: int = 64) -> str:
    """min(width, n) marks along the prompt: whether all (WHOLE), some (PART) or none of the tokens are read."""
    kept = np.asarray(kept, dtype=bool)
    starts, sizes = cells(kept.size, width)
    counts = np.add.reduceat(kept, starts, dtype=np.int64)
    return "".join(WHOLE if c == s else PART if c else NONE for c, s in zip(counts, sizes))


def cells(n: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """(starts, sizes) of min(width, n) parts of n tokens that differ in size by one at most."""
    count = max(1, min(width, n))
    starts = np.arange(count) * n // count
    return starts, np.diff(np.r_[starts, n])

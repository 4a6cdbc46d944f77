"""The kept budget spent otherwise, for what recurrent layers lose with dropped tokens: ends, backbone, halo.

None of these asks for the scores, so each takes room from the lowest-ranked chunks: as many tokens are kept
as without. The ends are paid first, then the backbone, the halos of the guards, and the best chunks.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from spvk.specprefill.edges import FINDERS, Layout, Span, fill
from spvk.specprefill.settings import Settings

HYBRID_HALO = 8  # tokens, where a target has recurrent layers: docs/GDN.md
ROUNDING = 1e-9  # tokens: 0.29 of 100 is 29, whatever their product


def is_wanted(settings: Settings) -> bool:
    """Whether any of it is set."""
    return bool(settings.dense_ends or settings.backbone or settings.halo)


def spread(scores: NDArray, budget: int, layout: Layout, settings: Settings) -> NDArray[np.bool_]:
    """The kept tokens, bool [n], for scores float64 [n]: the guards, and min(`budget`, all others) besides.

    `settings.dense_ends` and `backbone` are fractions of the budget; the `halo` tokens before each run of
    guards, chunk of the backbone and ranked chunk are kept with it, as far as the budget goes.
    """
    kept, halo = layout.guards.copy(), settings.halo or 0
    left = min(budget, int((~kept).sum()))
    at_ends, spaced = (int(f * left + ROUNDING) for f in (settings.dense_ends, settings.backbone))
    left -= keep_ends(kept, at_ends)
    chunks = evenly_spaced(kept.size, spaced, layout.chunk, halo)
    left -= spaced - fill(kept, chunks, spaced, scores)
    guarded = np.flatnonzero(layout.guards & ~np.r_[False, layout.guards[:-1]])
    left = fill(kept, widened(((at, at) for at in guarded.tolist()), halo), left, scores)
    fill(kept, widened(FINDERS[settings.edges](scores, layout), halo), left, scores)
    return kept


def widened(spans: Iterable[Span], halo: int) -> list[Span]:
    """Each span with the `halo` tokens before it."""
    return [(max(0, start - halo), end) for start, end in spans]


def keep_ends(kept: NDArray[np.bool_], count: int) -> int:
    """Keep `count` more tokens, half of them the first and half the last that were not. Returns `count`."""
    free = np.flatnonzero(~kept)
    kept[free[: count - count // 2]] = True
    kept[free[free.size - count // 2 :]] = True
    return count


def evenly_spaced(n: int, count: int, chunk: int, halo: int) -> list[Span]:
    """As many whole chunks with their halos as `count` tokens pay, each in the middle of its share of `n`.

    Where they do not pay for one there is one, for the caller to cut.
    """
    total = -(-n // chunk)
    wanted = min(total, max(1, count // (chunk + halo))) if count else 0
    middles = [(2 * i + 1) * total // (2 * wanted) for i in range(wanted)]
    return widened(((i * chunk, min(n, (i + 1) * chunk)) for i in middles), halo)

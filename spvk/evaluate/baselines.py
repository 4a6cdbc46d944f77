"""What needs no draft: random chunks, the most recent, evenly spaced ones, first and last, at one budget.

And the oracle, which knows what the answer needs: what a perfect draft would give.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

ORACLE = "oracle"
BASELINES = ("random", "recent", "even", "ends", ORACLE)


def baseline(
    name: str,
    n: int,
    budget: int,
    *,
    chunk: int,
    guard_first: int,
    guard_last: int,
    seed: str = "",
    needed: ArrayLike = (),
) -> NDArray[np.int32]:
    """Positions int32 [min(budget, n)], sorted: the guards, then what `name` ranks first, the last chunk cut.

    `budget` counts the guards and is no less than they are; `random` depends on `seed` alone (a text, so
    that each prompt can have its own), the others on nothing. The positions `needed` [k] are kept as guards
    are; where they do not fit the budget there is more.
    """
    guards = np.zeros(n, dtype=bool)
    guards[:guard_first] = True
    guards[max(0, n - guard_last) :] = True
    if guards.sum() > budget:
        raise ValueError(f"a budget of {budget} tokens for {guards.sum()} guards")
    guards[np.asarray(needed, dtype=np.int64)] = True
    room = max(0, budget - int(guards.sum()))
    order = ORDERS[name](n, room, chunk, seed)
    kept = guards.copy()
    kept[order[~guards[order]][:room]] = True
    return np.flatnonzero(kept).astype(np.int32)


def in_chunks(chunks: NDArray, n: int, chunk: int) -> NDArray:
    """Token positions [n], chunk by chunk in the order given."""
    tokens = (np.asarray(chunks)[:, None] * chunk + np.arange(chunk)).ravel()
    return tokens[tokens < n]


def random_chunks(n: int, room: int, chunk: int, seed: str) -> NDArray:
    number = int.from_bytes(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()[:8], "little")
    return in_chunks(np.random.default_rng(number).permutation(-(-n // chunk)), n, chunk)


def most_recent(n: int, room: int, chunk: int, seed: str) -> NDArray:
    return np.arange(n)[::-1]


def evenly_spaced(n: int, room: int, chunk: int, seed: str) -> NDArray:
    """As many chunks as the budget asks for, each in the middle of its share; then the others in turn."""
    total = -(-n // chunk)
    wanted = min(total, max(1, -(-room // chunk)))
    first = (2 * np.arange(wanted) + 1) * total // (2 * wanted)
    return in_chunks(np.r_[first, np.setdiff1d(np.arange(total), first)], n, chunk)


def both_ends(n: int, room: int, chunk: int, seed: str) -> NDArray:
    """First token, last token, second, last but one, and so on: half of the budget from each end."""
    order = np.empty(n, dtype=np.int64)
    order[0::2] = np.arange(-(-n // 2))
    order[1::2] = n - 1 - np.arange(n // 2)
    return order


ORDERS = {
    "random": random_chunks,
    "recent": most_recent,
    "even": evenly_spaced,
    "ends": both_ends,
    ORACLE: evenly_spaced,
}

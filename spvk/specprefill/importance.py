"""From the draft's attention rows to one score a prompt token: reduction, windows, normalisation, boosts.

Everything is float64, so that scores do not depend on how the device batched its work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spvk.errors import SpvkError
from spvk.specprefill.settings import Settings
from spvk.specprefill.windows import Window


def as_scores(scores: ArrayLike, where: str) -> NDArray[np.float64]:
    """`scores` as float64 [n], n >= 1 and all finite; raises SpvkError that names `where`."""
    array = np.asarray(scores, dtype=np.float64)
    if array.ndim != 1:
        raise SpvkError(f"{where}: found an array of shape {list(array.shape)}, expected one score each")
    if array.size == 0:
        raise SpvkError("prompt: found 0 tokens, expected at least 1")
    require_finite(array, where)
    return array


def require_finite(scores: ArrayLike, where: str) -> None:
    """Raise SpvkError that names `where` (say, `draft layer 3`) and the first NaN or inf score.

    `scores` is float [..., n]; the last axis is the token.
    """
    array = np.asarray(scores)
    bad = ~np.isfinite(array)
    if bad.any():
        index = np.unravel_index(int(bad.argmax()), bad.shape)
        token = f" at token {int(index[-1])}" if index else ""
        found = f"found {float(array[index])}{token} ({int(bad.sum())} of {bad.size} scores)"
        raise SpvkError(f"{where}: {found}, expected finite attention scores")


def require_finite_layers(bad: Sequence[bool] | NDArray, layers: Sequence[str]) -> None:
    """Raise SpvkError that names every layer whose device flag in `bad` says it produced NaN or inf.

    `bad` is bool [layers], `layers` the names in the same order.
    """
    flags = np.asarray(bad, dtype=bool)
    if flags.shape != (len(layers),):
        raise ValueError(f"{flags.shape} flags for {len(layers)} layers")
    if flags.any():
        names = ", ".join(name for name, flag in zip(layers, flags) if flag)
        raise SpvkError(f"{names}: found NaN or inf, expected finite attention scores")


def reduce_rows(
    steps: Sequence[ArrayLike], n: int, layers: Sequence[str] | None = None, *,
    softmax: str = "all", width: int = 1, heads: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Importance [n]: maximum over heads, then over attention layers, then mean over the rows.

    `steps` holds one softmax row a step, float [layers, heads, keys] with keys >= `n`; the keys beyond the
    prompt (the generated tokens) take part in the softmax but get no score. `layers` names the layers in the
    error (SpvkError) that NaN or inf raise. The NumPy twin of the device's fused score row.
    `softmax` "prompt" takes the softmax over the prompt's keys alone, `width` is that of `pool`, over each
    head's row before the maximum: with both, this is Speculative Prefill (arXiv 2502.02789) as published.
    `heads`, bool [layers, heads], says whose rows count (None: all).
    """
    if not steps:
        raise ValueError("no attention rows")
    total = np.zeros(n, dtype=np.float64)
    for rows in steps:
        rows = rows_of_heads(rows, n, layers, softmax=softmax, width=width, heads=heads)
        total += rows.max(axis=1).max(axis=0)
    return total / len(steps)


def rows_of_heads(
    rows: ArrayLike, n: int, layers: Sequence[str] | None = None, *,
    softmax: str = "all", width: int = 1, heads: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """One step's rows, float [layers, heads, keys], as `reduce_rows` takes their maximum: [layers, heads, n]."""
    rows = np.asarray(rows, dtype=np.float64)[:, :, :n]
    for i, layer in enumerate(rows):
        require_finite(layer, layers[i] if layers else f"attention layer {i}")
    rows = pool(over_prompt(rows) if softmax == "prompt" else rows, width)
    return rows if heads is None else rows * np.asarray(heads)[:, :, None]


def join(windows: Sequence[Window], scores: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """Scores [n] of the prompt from the scores of its windows: each gives its `[take_start, take_end)`.

    `scores[i]` is float [windows[i].end - windows[i].start]. NaN and inf are an error that names the window;
    a wrong shape, or takes that do not tile the prompt, are a ValueError.
    """
    if len(windows) != len(scores):
        raise ValueError(f"{len(scores)} score arrays for {len(windows)} windows")
    parts, at = [], 0
    for w, values in zip(windows, scores):
        part = as_scores(values, f"importance of tokens {w.start} to {w.end - 1}")
        if part.size != w.end - w.start or w.take_start != at:
            raise ValueError(f"{part.size} scores taken from {at} do not fit {w}")
        parts.append(part[w.take_start - w.start : w.take_end - w.start])
        at = w.take_end
    return np.concatenate(parts)


def over_prompt(rows: ArrayLike) -> NDArray[np.float64]:
    """Softmax rows [..., keys], cut to the prompt's keys, as if the softmax had been over these alone.

    A row with nothing left on the prompt stays zero.
    """
    values = np.asarray(rows, dtype=np.float64)
    total = values.sum(axis=-1, keepdims=True)
    return np.divide(values, total, out=np.zeros_like(values), where=total > 0)


def pool(scores: ArrayLike, width: int) -> NDArray[np.float64]:
    """Average over `width` (odd) neighbouring positions of [..., n]; 1 changes nothing.

    Beyond both ends lie zeros that count, as in the paper: the first and last `width // 2` scores are lower.
    """
    values = np.asarray(scores, dtype=np.float64)
    n, total = values.shape[-1], np.zeros_like(values)
    reach = min(width // 2, n - 1)
    # Whole shifted rows in one order: the sums are the same on every machine.
    for shift in range(-reach, reach + 1):
        to, source = slice(max(0, -shift), n - max(0, shift)), slice(max(0, shift), n - max(0, -shift))
        total[..., to] += values[..., source]
    return total / width


def normalise(scores: ArrayLike, how: str = "minmax") -> NDArray[np.float64]:
    """Scores [n] on a scale of their own, none negative. Equal scores all become 1: none is worth less.

    `minmax`: onto [0, 1]. `percentile`: the same between the 1st and the 99th percentile, so that a lone
    attention sink does not flatten all the rest; what lies outside becomes 0 or 1. `zscore`: standard
    deviations above the mean; what lies below it becomes 0 and takes no part in the mass.
    """
    values = as_scores(scores, "importance")
    if values.min() == values.max():
        return np.ones_like(values)
    if how == "zscore":
        return _above_mean(values)
    low, high = values.min(), values.max()
    if how == "percentile":
        p1, p99 = np.percentile(values, (1, 99))
        if p1 < p99:  # else all but a hundredth of the scores are equal
            return np.clip((values - p1) / (p99 - p1), 0.0, 1.0)
    return (values - low) / (high - low)


def _above_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    mean = math.fsum(values.tolist()) / values.size  # correctly rounded: the same on every machine
    away = values - mean
    away /= np.abs(away).max()  # squares of tiny scores would vanish
    deviation = math.sqrt(math.fsum((away * away).tolist()) / values.size)
    return np.maximum(0.0, away / deviation)


def boost(scores: ArrayLike, settings: Settings) -> NDArray[np.float64]:
    """`scores` [n] with the first and last tokens raised; where they overlap both factors apply."""
    values = as_scores(scores, "importance").copy()
    values[: settings.boost_first_n] *= settings.boost_first
    values[max(0, values.size - settings.boost_last_n) :] *= settings.boost_last
    return values

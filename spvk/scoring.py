"""Scoring: the draft reads the prompt and decodes a little; its attention says which tokens matter."""

from __future__ import annotations

from typing import Callable, Sequence

import numpy as np

from .errors import SpvkError
from .model import Model
from .models.builder import Capture
from .session import Session, check_tokens
from .specprefill import Settings, Tally, join, reduce_rows, require_finite, rows_of_heads
from .specprefill.windows import windows

Progress = Callable[[str, int, int], None]  # phase ("score", "prefill", "decode"), done, total
BATCH = 512


def quiet(phase: str, done: int, total: int) -> None:
    """The progress callback that does nothing."""


def score(
    draft: Model,
    tokens: Sequence[int],
    settings: Settings,
    *,
    batch: int = BATCH,
    progress: Progress = quiet,
    heads: np.ndarray | None = None,
    tally: Tally | None = None,
) -> np.ndarray:
    """Importance of every prompt token, float64 [n]: SpecPrefill (arXiv 2502.02789), description 3.1.

    The draft reads the prompt, window by window, then decodes `settings.lookahead` tokens greedily; each of
    these steps, and the prompt's last token before them, gives a row of attention over the prompt. Rows
    are reduced (maximum over heads and layers, mean over steps) on the device, or on the host where each
    head's row is pooled or its softmax taken over the prompt alone. `heads`, bool [attention layers, heads],
    says whose rows count (None: all); a `tally` is told every row. Raises SpvkError when the scores are not
    finite, naming the layer.
    """
    tokens, _ = check_tokens(tokens, None, draft.vocabulary)
    parts = windows(len(tokens), settings.window)
    longest = max(w.end - w.start for w in parts)
    total, scores, done = sum(w.end - w.start for w in parts), [], 0
    capture = capture_for(settings, tally)
    batch = without_rests([w.end - w.start for w in parts], batch)
    with Session(draft, longest + settings.lookahead, batch, capture, heads) as session:
        for w in parts:
            session.reset()
            scores.append(
                score_window(
                    session,
                    tokens[w.start : w.end],
                    settings,
                    lambda n, base=done: progress("score", base + n, total),
                    tally and tally.of(w),
                )
            )
            done += w.end - w.start
    return join(parts, scores)


def without_rests(sizes: Sequence[int], batch: int) -> int:
    """`batch`, or a little more where it would leave a window's last token alone.

    The products of one row round nothing and add up in another order: scores would depend on the batch.
    """
    batch = max(batch, 2)
    while any(size > 1 and size % batch == 1 for size in sizes):
        batch += 1
    return batch


def by_head(settings: Settings) -> bool:
    """Whether rows come to the host head by head: the device's sum cannot be pooled or renormalised."""
    return settings.softmax == "prompt" or settings.pool > 1


def capture_for(settings: Settings, tally: Tally | None = None) -> Capture:
    """What a scoring session leaves behind."""
    rows = by_head(settings)
    return Capture(importance=not rows, rows=rows or tally is not None)


def score_window(
    session: Session,
    tokens: np.ndarray,
    settings: Settings,
    progress: Callable[[int], None],
    tell: Callable[[np.ndarray], None] | None = None,
) -> np.ndarray:
    """Importance of one window's tokens, float32 [n] (float64 by head); `tell` gets each step's rows."""
    total, steps, n = 0.0, settings.lookahead + 1, len(tokens)
    how = {"softmax": settings.softmax, "width": settings.pool, "heads": session.heads}
    try:
        token = session.prefill(tokens, progress=progress)
        for i in range(steps):
            if i:
                token = session.decode(token, n + i - 1)
            rows = session.attention_rows() if session.capture.rows else None
            if by_head(settings):
                total += reduce_rows([rows], n, **how)
            if tell is not None:
                tell(rows_of_heads(rows, n, **how))
        importance = total / steps if by_head(settings) else session.importance()
        require_finite(importance, "importance")
    except SpvkError as error:
        raise SpvkError(f"{error}; first in {locate_nan(session.model, tokens)}") from None
    return importance


def locate_nan(model: Model, tokens: np.ndarray) -> str:
    """The first layer whose output for some prefix's last token is not finite, in words."""
    with Session(model, len(tokens), BATCH, Capture(hidden=True)) as session:
        try:
            session.prefill(tokens)
        except SpvkError:
            pass
        bad = np.flatnonzero(~np.isfinite(session.hidden()).all(1))
    return f"layer {bad[0]} (blk.{bad[0]})" if bad.size else "the output head"

"""The engine: scoring with the draft, dense and sparse prefill with the target, decode, and the dump."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Callable, Sequence

import numpy as np

from .errors import SpvkError
from .model import Model
from .models.builder import Capture
from .session import Session, check_tokens, prepare
from .specprefill import Selection, Settings, Timings, choose, join, keep_all, require_finite
from .specprefill.windows import windows

Progress = Callable[[str, int, int], None]  # phase ("score", "prefill", "decode"), done, total
BATCH = 512


def quiet(phase: str, done: int, total: int) -> None:
    """The progress callback that does nothing."""


@dataclass(frozen=True)
class Result:
    """What a prefill gave: the selection, the decoded token ids, the times."""

    selection: Selection
    tokens: list[int]
    timings: Timings
    settings: Settings


def score(
    draft: Model, tokens: Sequence[int], settings: Settings, *, batch: int = BATCH, progress: Progress = quiet
) -> np.ndarray:
    """Importance of every prompt token, float64 [n]: SpecPrefill (arXiv 2502.02789), description 3.1.

    The draft reads the prompt, window by window, then decodes `settings.lookahead` tokens greedily; each of
    these steps, and the prompt's last token before them, gives a row of attention over the prompt. Rows
    are reduced on the device (maximum over heads and layers, mean over steps). Raises SpvkError when the
    scores are not finite, naming the layer.
    """
    tokens, _ = check_tokens(tokens, None, draft.vocabulary)
    parts = windows(len(tokens), settings.window)
    longest = max(w.end - w.start for w in parts)
    scores, done = [], 0
    with Session(draft, longest + settings.lookahead, batch, Capture(importance=True)) as session:
        for w in parts:
            session.reset()
            scores.append(
                score_window(
                    session,
                    tokens[w.start : w.end],
                    settings.lookahead,
                    lambda n, base=done: progress("score", base + n, sum(w.end - w.start for w in parts)),
                )
            )
            done += w.end - w.start
    return join(parts, scores)


def score_window(
    session: Session, tokens: np.ndarray, lookahead: int, progress: Callable[[int], None]
) -> np.ndarray:
    """Importance of one window's tokens, float32 [n]."""
    try:
        token = session.prefill(tokens, progress=progress)
        for i in range(lookahead):
            token = session.decode(token, len(tokens) + i)
        importance = session.importance()
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


def prefill(
    target: Model,
    draft: Model | None,
    tokens: Sequence[int],
    settings: Settings,
    *,
    predict: int = 32,
    batch: int = BATCH,
    context: int | None = None,
    load_ms: float = 0.0,
    stop: Sequence[int] = (),
    on_token: Callable[[int], None] = lambda token: None,
    progress: Progress = quiet,
) -> Result:
    """The main job: score with the draft, select, prefill the target with what matters, decode greedily.

    tokens: integers [n]. At most `predict` tokens are decoded, fewer when one of `stop` comes; `on_token`
    gets each as it is known. `load_ms` is what opening the models took; compiling their pipelines is added
    to it. `context` limits prompt and answer together (default: the target's own).
    Raises SpvkError for bad tokens, a prompt beyond the context, vocabularies that differ.
    """
    tokens, positions = check_tokens(tokens, None, target.vocabulary)
    scorer = None if settings.mode == "off" else draft
    check_context(target, len(tokens), predict, context)
    clock = Clock()
    if scorer:
        longest = min(len(tokens), settings.window or len(tokens))
        check_context(scorer, longest, settings.lookahead, None)
        prepare(scorer, longest + settings.lookahead, batch, Capture(importance=True))
    prepare(target, len(tokens) + max(1, predict), batch)
    clock.lap("load_ms")
    importance = score(scorer, tokens, settings, batch=batch, progress=progress) if scorer else None
    clock.lap("score_ms")
    selection = choose(importance, settings) if scorer else keep_all(len(tokens), settings)
    clock.lap("select_ms")
    kept = selection.positions
    with Session(target, len(kept) + max(1, predict), batch) as session:
        first = session.prefill(
            tokens[kept], positions[kept], lambda done: progress("prefill", done, len(kept))
        )
        clock.lap("prefill_ms")
        answer = decode(session, first, len(tokens), predict, stop, on_token, progress)
    clock.lap("decode_ms")
    laps = clock.laps | {"load_ms": load_ms + clock.laps["load_ms"]}
    return Result(selection, answer, Timings(**laps), settings)


def decode(
    session: Session,
    token: int,
    position: int,
    predict: int,
    stop: Sequence[int],
    on_token: Callable[[int], None],
    progress: Progress,
) -> list[int]:
    """Greedy tokens from `token` on, the first of which goes to `position`; a stop token ends them, included."""
    answer: list[int] = []
    while len(answer) < predict:
        answer.append(token)
        on_token(token)
        progress("decode", len(answer), predict)
        if token in stop or len(answer) == predict:
            break
        token = session.decode(token, position + len(answer) - 1)
    return answer


def dump(
    model: Model,
    tokens: Sequence[int],
    positions: Sequence[int] | None = None,
    *,
    lookahead: int = 0,
    batch: int = BATCH,
) -> dict[str, np.ndarray]:
    """Everything needed to compare with another engine, after the prefill and each of `lookahead` greedy tokens.

    `logits` float32 [1+N, vocabulary], `greedy` int32 [1+N], `hidden` float32 [layers, D] (last prompt token),
    `attn_rows_step0` … `attn_rows_stepN` float32 [attention layers, heads, keys], `importance` float32 [n].
    """
    tokens, positions = check_tokens(tokens, positions, model.vocabulary)
    if int(positions[-1]) + 1 + lookahead > model.config.context_length:
        raise SpvkError(
            f"positions: the last is {positions[-1]} with {lookahead} tokens to follow, expected less than "
            f"{model.config.context_length}, the context of {model.path}"
        )
    everything = Capture(importance=True, rows=True, hidden=True)
    out: dict[str, np.ndarray] = {}
    with Session(model, len(tokens) + lookahead, batch, everything) as session:
        token = session.prefill(tokens, positions)
        out["hidden"] = session.hidden()
        logits, greedy = [session.logits()], [token]
        out["attn_rows_step0"] = session.attention_rows()
        for i in range(lookahead):
            token = session.decode(token, int(positions[-1]) + 1 + i)
            logits.append(session.logits())
            greedy.append(token)
            out[f"attn_rows_step{i + 1}"] = session.attention_rows()
        out["importance"] = session.importance()
    return {"logits": np.stack(logits), "greedy": np.array(greedy, np.int32), **out}


def check_context(model: Model, prompt: int, more: int, limit: int | None) -> None:
    """Raise SpvkError when a prompt and what follows it do not fit the model's context (or `-c`)."""
    context = min(model.config.context_length if limit is None else limit, model.config.context_length)
    if prompt + more > context:
        raise SpvkError(
            f"prompt: {prompt} tokens and {more} to follow, expected at most {context}, "
            + (
                "the limit given with -c"
                if limit is not None and limit == context
                else f"the context of {model.path}"
            )
        )


class Clock:
    """Milliseconds between laps."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, name: str) -> None:
        now = perf_counter()
        self.laps[name] = 1e3 * (now - self._last)
        self._last = now

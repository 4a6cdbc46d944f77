"""The engine: scoring with the draft, dense and sparse prefill with the target, decode, and the dump."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Callable, Iterator, Sequence

import numpy as np

from .dense_layers import prefill_kept, require_gaps
from .errors import SpvkError
from .model import Model
from .models.builder import Capture, Gaps
from .prepare import prepare
from .scoring import BATCH, Progress, by_head, capture_for, quiet, score
from .session import Session, check_tokens
from .specprefill import (
    Decision,
    Rates,
    Selection,
    Settings,
    Structure,
    Tally,
    Timings,
    choose,
    decide,
    keep_all,
)
from .specprefill.spread import HYBRID_HALO


@dataclass(frozen=True)
class Result:
    """What a prefill gave: the selection, the decoded token ids, the times, and what was decided why."""

    selection: Selection
    """What the target read: everything, unless `decision.is_sparse`."""
    tokens: list[int]
    timings: Timings
    settings: Settings
    decision: Decision
    importance: np.ndarray | None
    """float64 [n] where the draft scored to the end, whatever was decided then; else None."""


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
    structure: Structure | None = None,
    rates: Rates = Rates(),
    heads: np.ndarray | None = None,
    tally: Tally | None = None,
) -> Result:
    """The main job: score with the draft, select, prefill the target with what matters, decode greedily.

    tokens: integers [n]. At most `predict` tokens are decoded, fewer when one of `stop` comes; `on_token`
    gets each as it is known. `load_ms` is what opening the models took; compiling their pipelines is added
    to it. `context` limits prompt and answer together (default: the target's own). `structure` says which
    tokens are protected and where sentences begin (None: none and nowhere, whatever the settings), `rates` what earlier runs measured (see specprefill); `heads` and `tally`
    are as for `score`.
    Raises SpvkError for bad tokens, a prompt beyond the context, vocabularies that differ; what is wrong
    with scoring makes mode auto read everything instead, and is raised in mode always.
    """
    tokens, _ = check_tokens(tokens, None, target.vocabulary)
    n = len(tokens)
    check_context(target, n, predict, context)
    settings = settle(settings, target)
    require_gaps(target, gaps := gaps_of(settings))
    clock = Clock(load_ms=load_ms)
    decision = before(draft, n, settings, structure, rates)
    with clock.phase("load_ms"):
        if decision is None:
            prepare(
                draft, min(n, settings.window or n) + settings.lookahead, batch, capture_for(settings, tally)
            )
        prepare(target, n + max(1, predict), batch, gaps=gaps)
    selection, importance = keep_all(n, settings), None
    if decision is None:
        selection, decision, importance = sift(
            draft,
            tokens,
            settings,
            structure,
            rates,
            clock,
            batch=batch,
            progress=progress,
            heads=heads,
            tally=tally,
        )
    answer = read(
        target,
        tokens,
        selection,
        settings,
        clock,
        predict=predict,
        batch=batch,
        stop=stop,
        on_token=on_token,
        progress=progress,
    )
    return Result(selection, answer, Timings(**clock.ms), settings, decision, importance)


def before(
    draft: Model | None, n: int, settings: Settings, structure: Structure | None, rates: Rates
) -> Decision | None:
    """What can be decided for `n` tokens without a score; None: score them."""
    decision = foregone(n, settings, structure, rates)
    if decision is None and draft is None:
        return Decision("disabled", "no draft was given", {"prompt_tokens": n})
    if decision is None:
        try:
            check_context(draft, min(n, settings.window or n), settings.lookahead, None)
        except SpvkError as error:
            if settings.mode != "auto":
                raise
            return decide.failed(error, n)
    return decision


def foregone(n: int, settings: Settings, structure: Structure | None, rates: Rates) -> Decision | None:
    """What can be decided without the draft even; None: load it."""
    protected = 0 if structure is None else int(structure.protected.sum())
    prediction = rates.predict(n, settings, protected=protected) if rates.covers(n) else None
    return decide.before(n, settings, structure, prediction)


def sift(
    draft: Model,
    tokens: np.ndarray,
    settings: Settings,
    structure: Structure | None,
    rates: Rates,
    clock: Clock,
    *,
    batch: int = BATCH,
    progress: Progress = quiet,
    heads: np.ndarray | None = None,
    tally: Tally | None = None,
) -> tuple[Selection, Decision, np.ndarray | None]:
    """The tokens that the target shall read, why, and their importance float64 [n] (None: scoring failed)."""
    n = len(tokens)
    try:
        with clock.phase("score_ms"):
            importance = score(
                draft, tokens, settings, batch=batch, progress=progress, heads=heads, tally=tally
            )
        with clock.phase("select_ms"):
            chosen = choose(importance, settings, structure, pooled=by_head(settings))
            prediction = rates.predict(n, settings, chosen.kept_tokens)
            decision = decide.after(chosen, settings, structure, prediction)
    except SpvkError as error:
        if settings.mode != "auto":
            raise
        return keep_all(n, settings), decide.failed(error, n), None
    dense = decision.status == "fell_back_dense"
    return keep_all(n, settings) if dense else chosen, decision, importance


def read(
    target: Model,
    tokens: np.ndarray,
    selection: Selection,
    settings: Settings,
    clock: Clock,
    *,
    predict: int,
    batch: int,
    stop: Sequence[int],
    on_token: Callable[[int], None],
    progress: Progress,
) -> list[int]:
    """Prefill the target with the selected tokens in a session of its own, and decode its answer."""
    kept = selection.kept_tokens
    with clock.phase("prefill_ms"):
        session = Session(target, kept + max(1, predict), batch, gaps=gaps_of(settings))
    with session:
        with clock.phase("prefill_ms"):
            first, end = read_selected(
                session, tokens, selection, settings, lambda i: progress("prefill", i, kept)
            )
        with clock.phase("decode_ms"):
            return decode(session, first, end, predict, stop, on_token, progress)


def settle(settings: Settings, target: Model) -> Settings:
    """The settings with what they leave to the target."""
    if settings.halo is not None:
        return settings
    hybrid = len(target.config.attention_layers) < target.config.layers
    return replace(settings, halo=HYBRID_HALO if hybrid else 0)


def gaps_of(settings: Settings) -> Gaps:
    """What the settings do about dropped tokens in the target's recurrent layers."""
    return Gaps(settings.dense_layers, settings.gap_decay)


def read_selected(
    session: Session,
    tokens: np.ndarray,
    selection: Selection,
    settings: Settings,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[int, int]:
    """Prefill a session of these settings with what was selected: the greedy next token and its position."""
    kept, end = selection.positions, len(tokens)
    positions = kept
    if settings.positions == "renumber":
        positions, end = np.arange(len(kept)), len(kept)
    if session.gaps.dense_layers and len(kept) < len(tokens):
        return prefill_kept(session, tokens, kept, positions, progress), end
    return session.prefill(tokens[kept], positions, progress), end


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
    """Milliseconds by phase; a phase may come in parts."""

    def __init__(self, **ms: float) -> None:
        self.ms = ms

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self.ms[name] = self.ms.get(name, 0.0) + 1e3 * (perf_counter() - start)

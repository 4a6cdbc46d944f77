"""One prompt on its way through the plan: scored, read, judged."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .. import engine, job
from ..errors import SpvkError
from ..model import Model
from ..prepare import prepare
from ..session import Session, check_tokens
from ..specprefill import (
    Selection,
    Settings,
    Structure,
    Timings,
    choose,
    keep_all,
    positions_of,
    read_structure,
)
from . import metrics
from .gold import Span, is_cut, question_of, sentence_around, spans_of_texts
from .policies import DENSE, Keep, Plan, Policy, baseline_selection
from .prompts import Question

Record = dict[str, Any]


def encode(q: Question, target: Model, draft: Model, plan: Plan) -> np.ndarray:
    """A question's tokens, checked against both models; SpvkError naming its line."""
    try:
        tokens = job.Prompt(q.text, q.tokens, raw=plan.raw).encode(target)
        tokens, _ = check_tokens(tokens, None, target.vocabulary)
        if q.answer_ids is not None:
            require_answer(q.answer_ids, target.vocabulary)
        engine.check_context(target, len(tokens), decoded(q, plan), None)
        if any(p.is_oracle for p in plan.policies) and q.gold is None and not q.needed:
            raise SpvkError("--policy oracle: found no word of where the answer stands, expected value_pos")
        sparse = [p.settings(0.5) for p in plan.policies if p.name != DENSE]
        for s in sparse:
            engine.check_context(draft, min(len(tokens), s.window or len(tokens)), s.lookahead, None)
    except SpvkError as error:
        raise SpvkError(f"{q.where}: {error}") from None
    return tokens


def require_answer(ids: list[int], vocabulary: int) -> None:
    """Raise SpvkError for an answer's token that the model cannot give."""
    for i, token in enumerate(ids):
        if token >= vocabulary:
            raise SpvkError(f"answer: token {i} is {token}, expected 0 to {vocabulary - 1}")


def decoded(q: Question, plan: Plan) -> int:
    """How many tokens answer a question."""
    return plan.predict if q.answer_ids is None else len(q.answer_ids)


def gold_of(q: Question, tokens: np.ndarray, target: Model) -> tuple[list[Span], bool | None]:
    """The token spans that a right answer needs, and whether an edge of fixed chunks cuts one of their sentences.

    None of both where the question does not say.
    """
    if q.gold is None and not q.needed:
        return [], None
    pieces = [target.tokenizer.token_bytes(t) for t in tokens.tolist()]
    if q.needed:
        spans = spans_of_texts(pieces, q.needed)
        return spans, is_cut(spans)
    spans = [(q.gold.start, q.gold.stop), *((at, at + 1) for at in q.needed_pos)]
    return spans, is_cut(sentence_around(pieces, span) for span in spans)


def needed_of(q: Question, gold: list[Span], tokens: np.ndarray, target: Model) -> np.ndarray:
    """The positions that an answer needs, int32 [k]: the gold spans' whole sentences, and the question."""
    pieces = [target.tokenizer.token_bytes(t) for t in tokens.tolist()]
    spans = gold if q.needed else [sentence_around(pieces, span) for span in gold]
    return positions_of([*spans, question_of(pieces, q.asked)])


def rows_key(settings: Settings) -> tuple:
    """Settings of one key have the same scores, before anything is normalised."""
    pool = settings.pool if engine.by_head(settings) else 1
    return settings.window, settings.lookahead, settings.heads, settings.softmax, pool


class Trial:
    """One prompt on its way through the plan; what the draft scored is kept for every policy."""

    def __init__(self, q: Question, tokens: np.ndarray, target: Model, draft: Model, plan: Plan) -> None:
        self.q, self.tokens, self.target, self.draft, self.plan = q, tokens, target, draft, plan
        self.gold, self.cut = gold_of(q, tokens, target)
        self.scored: dict[tuple, tuple[np.ndarray, float]] = {}
        self.dense: np.ndarray | None = None

    def run(self, step: Callable[[], None]) -> list[Record]:
        """A record for every policy and keep fraction; the scores are forgotten then."""
        records = []
        for policy, keep in self.plan.runs:
            try:
                records.append(self.record(policy, keep))
            except SpvkError as error:
                raise SpvkError(f"{self.q.where}: {policy.label}: {error}") from None
            step()
        self.scored, self.dense = {}, None
        return records

    def record(self, policy: Policy, keep: Keep) -> Record:
        settings, clock = engine.settle(policy.settings(keep), self.target), engine.Clock()
        selection = self.select(policy, settings, clock)
        answer, logits = self.read(selection, settings, clock)
        if policy.name == DENSE:
            self.dense = logits
        return {
            "id": self.q.id,
            "cell": dict(self.q.cell),
            "policy": policy.label,
            "keep": keep,
            "prompt_tokens": selection.prompt_tokens,
            "kept_tokens": selection.kept_tokens,
            "selection_sha256": selection.sha256,
            **self.judge(answer),
            "gold": self.gold,
            "cut": self.cut,
            "survived": self.survived(selection),
            **self.against_dense(logits),
            "tokens": answer,
            "timings": Timings(**clock.ms).as_dict(),
        }

    def select(self, policy: Policy, settings: Settings, clock: engine.Clock) -> Selection:
        """The tokens that the target shall read; a baseline is charged no scoring."""
        n = len(self.tokens)
        if policy.name == DENSE:
            return keep_all(n, settings)
        importance, score_ms = self.score(settings)
        with clock.phase("select_ms"):
            structure = self.structure(settings)
        if policy.is_baseline:
            budget = choose(importance, settings, structure, pooled=engine.by_head(settings))
            with clock.phase("select_ms"):
                seed = f"{self.plan.seed}/{self.q.id}/{settings.keep}"
                return baseline_selection(policy, settings, budget, seed, self.known(policy, structure))
        clock.ms["score_ms"] = score_ms
        with clock.phase("select_ms"):
            return choose(importance, settings, structure, pooled=engine.by_head(settings))

    def known(self, policy: Policy, structure: Structure | None) -> np.ndarray:
        """The positions int32 [k] that a baseline keeps in any case: what is protected, and what an oracle knows."""
        protected = np.zeros(0) if structure is None else np.flatnonzero(structure.protected)
        needed = needed_of(self.q, self.gold, self.tokens, self.target) if policy.is_oracle else ()
        return np.r_[protected, needed].astype(np.int32)

    def structure(self, settings: Settings) -> Structure | None:
        """What a policy protects; version 3.1 and the paper protect nothing."""
        if settings.protect == "off":
            return None
        return read_structure(self.tokens, self.target.tokenizer, settings)

    def score(self, settings: Settings) -> tuple[np.ndarray, float]:
        """Importance float64 [n] and the milliseconds it took, once for all that read the same rows."""
        key = rows_key(settings)
        if key not in self.scored:
            n, batch, clock = len(self.tokens), self.plan.batch, engine.Clock()
            length = min(n, settings.window or n) + settings.lookahead
            prepare(self.draft, length, batch, engine.capture_for(settings))
            with clock.phase("score_ms"):
                heads = job.heads_of(settings, self.draft.path, self.draft.config)
                importance = engine.score(self.draft, self.tokens, settings, batch=batch, heads=heads)
            self.scored[key] = importance, clock.ms["score_ms"]
        return self.scored[key]

    def read(
        self, selection: Selection, settings: Settings, clock: engine.Clock
    ) -> tuple[list[int], np.ndarray]:
        """The greedy answer and the first token's logits float32 [vocabulary]."""
        kept, predict, batch = selection.kept_tokens, decoded(self.q, self.plan), self.plan.batch
        gaps = engine.gaps_of(settings)
        stop = () if self.q.answer_ids is not None else sorted(self.target.tokenizer.eog_ids)
        prepare(self.target, kept + predict, batch, gaps=gaps)
        with clock.phase("prefill_ms"):
            session = Session(self.target, kept + predict, batch, gaps=gaps)
        with session:
            with clock.phase("prefill_ms"):
                first, end = engine.read_selected(session, self.tokens, selection, settings)
            logits = session.logits()
            with clock.phase("decode_ms"):
                answer = engine.decode(session, first, end, predict, stop, lambda t: None, engine.quiet)
        return answer, logits

    def judge(self, answer: list[int]) -> Record:
        """Right or wrong, and how nearly: F1 and containment are for text."""
        q = self.q
        if q.answer_ids is not None:
            right = answer == q.answer_ids
            return {"exact": right, "f1": None, "contained": None, "stated": None, "text": None}
        text = self.target.tokenizer.decode(answer, skip_special=True)
        return {
            "exact": metrics.exact_match(text, q.answers),
            "f1": metrics.f1(text, q.answers),
            "contained": metrics.contained(text, q.answers, q.all_needed),
            "stated": metrics.stated(text, q.answers, q.all_needed),
            "text": text,
        }

    def survived(self, selection: Selection) -> bool | None:
        """Whether every token that the answer needs was kept; None where the question does not say which."""
        if not self.gold:
            return None
        return bool(np.isin(positions_of(self.gold), selection.positions).all())

    def against_dense(self, logits: np.ndarray) -> Record:
        """The first token's distribution beside that of dense, where dense takes part."""
        if self.dense is None:
            return {"kl": None, "top1": None}
        return {
            "kl": metrics.divergence(self.dense, logits),
            "top1": bool(logits.argmax() == self.dense.argmax()),
        }

"""The evaluation: every prompt with every policy at every keep fraction, one record each."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import numpy as np

from .. import __version__, engine, job
from ..errors import SpvkError
from ..gguf.mismatch import plain
from ..model import Model
from ..session import Session, check_tokens, prepare
from ..specprefill import (
    Selection,
    Settings,
    Structure,
    Timings,
    choose,
    fingerprint,
    keep_all,
    read_structure,
)
from ..vulkan import Device
from . import metrics
from .policies import DENSE, Policy, baseline_selection
from .prompts import Question, first_of_each_cell, read_prompts
from .table import aggregate

Record = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is run: it decides the numbers, but for the times."""

    policies: list[Policy]
    keeps: list[float]
    predict: int = 32
    """Tokens decoded where the answer is text; an answer of token ids has its own length."""
    raw: bool = False
    seed: int = 0
    batch: int = engine.BATCH

    def as_dict(self) -> dict[str, Any]:
        names = ("predict", "raw", "seed", "batch")
        plain_values = {name: getattr(self, name) for name in names}
        return {"policies": [p.label for p in self.policies], "keep": self.keeps, **plain_values}

    @property
    def runs(self) -> list[tuple[Policy, float | None]]:
        """What each prompt goes through, dense first."""
        return [(p, keep) for p in self.policies for keep in p.keeps(self.keeps)]


def run_eval(
    target: str,
    draft: str,
    prompts: str,
    plan: Plan,
    *,
    limit: int | None,
    device: str | None,
    json_file: str | None,
    resume: bool,
    screen,
) -> dict[str, Any]:
    """The evaluation from files to report; `screen` is a show.Screen. The JSON is written after each prompt.

    Raises SpvkError before anything is run where a prompt cannot be used or an earlier report, to be
    resumed, is of something else.
    """
    questions, digest = read_prompts(prompts)
    questions = first_of_each_cell(questions, limit)
    with ExitStack() as stack:
        dev = stack.enter_context(Device(device))
        screen.device(dev.info, dev.reason)
        identity = {
            "spvk": __version__,
            "device": dev.info.name,
            "target": target,
            "target_sha256": fingerprint(target),
            "draft": draft,
            "draft_sha256": fingerprint(draft),
            "prompts": prompts,
            "prompts_sha256": digest,
            **plan.as_dict(),
        }
        records = earlier_records(json_file, identity, plan) if resume else []
        pair = job.open_pair(stack, dev, target, draft)
        for m in dict.fromkeys(pair):
            screen.notices(m)
        trials = [Trial(q, encode(q, *pair, plan), *pair, plan) for q in questions]
        return carry_out(trials, records, identity, json_file, Steps(screen, len(trials) * len(plan.runs)))


class Steps:
    """The progress bar of an evaluation: runs done, of all."""

    def __init__(self, screen, total: int) -> None:
        self.screen, self.done, self.total = screen, 0, total
        screen.tasks["eval"] = screen.bars.add_task("evaluation", total=total)

    def __call__(self, runs: int = 1) -> None:
        self.done += runs
        self.screen.progress("eval", self.done, self.total)


def carry_out(
    trials: list[Trial], records: list[Record], identity: dict[str, Any], json_file: str | None, step: Steps
) -> dict[str, Any]:
    """Run the trials that `records` lack, and write the report after each; returns the last one."""
    done = {r["id"] for r in records}
    step(len(trials[0].plan.runs) * sum(t.q.id in done for t in trials))
    for trial in (waiting := [t for t in trials if t.q.id not in done]):
        records += trial.run(step)
        if trial is not waiting[-1]:
            job.write_json(json_file, report_of(identity, records, complete=False))
    report = report_of(identity, records, complete=True)
    job.write_json(json_file, report)
    return report


def report_of(identity: dict[str, Any], records: list[Record], *, complete: bool) -> dict[str, Any]:
    return {**identity, "complete": complete, "table": aggregate(records), "records": records}


def earlier_records(path: str, identity: dict[str, Any], plan: Plan) -> list[Record]:
    """The records of a report to continue; none where there is no file yet. SpvkError where it is another's.

    A prompt whose records are not all there is run again.
    """
    if not Path(path).exists():
        return []
    try:
        report = json.loads(Path(path).read_bytes())
        records = report["records"]
        aggregate(records)  # whatever the table needs is there
        runs = Counter(r["id"] for r in records)
        records = [r for r in records if runs[r["id"]] == len(plan.runs)]
    except OSError as error:
        raise SpvkError(f"{plain(path)}: {error.strerror}, expected a report to resume") from None
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise SpvkError(
            f"{plain(path)}: found something else, expected a report of spvk eval to resume"
        ) from None
    # Another path to the same file is no difference.
    for name in identity.keys() - {"target", "draft", "prompts"}:
        if report.get(name) != identity[name]:
            found, expected = plain(report.get(name)), plain(identity[name])
            raise SpvkError(
                f"{plain(path)}: {name}: found {found}, expected {expected} as in this run, to resume"
            )
    return records


def encode(q: Question, target: Model, draft: Model, plan: Plan) -> np.ndarray:
    """A question's tokens, checked against both models; SpvkError naming its line."""
    try:
        tokens = job.Prompt(q.text, q.tokens, raw=plan.raw).encode(target)
        tokens, _ = check_tokens(tokens, None, target.vocabulary)
        if q.answer_ids is not None:
            require_answer(q.answer_ids, target.vocabulary)
        engine.check_context(target, len(tokens), decoded(q, plan), None)
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


class Trial:
    """One prompt on its way through the plan; what the draft scored is kept for every policy."""

    def __init__(self, q: Question, tokens: np.ndarray, target: Model, draft: Model, plan: Plan) -> None:
        self.q, self.tokens, self.target, self.draft, self.plan = q, tokens, target, draft, plan
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

    def record(self, policy: Policy, keep: float | None) -> Record:
        settings, clock = policy.settings(keep), engine.Clock()
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
        if policy.is_baseline:
            budget = choose(importance, settings, pooled=engine.by_head(settings))
            with clock.phase("select_ms"):
                return baseline_selection(
                    policy, settings, budget, f"{self.plan.seed}/{self.q.id}/{settings.keep}"
                )
        clock.ms["score_ms"] = score_ms
        with clock.phase("select_ms"):
            return choose(importance, settings, self.structure(settings), pooled=engine.by_head(settings))

    def structure(self, settings: Settings) -> Structure | None:
        """What a policy protects; version 3.1 and the paper protect nothing."""
        if settings.protect == "off":
            return None
        return read_structure(self.tokens, self.target.tokenizer, settings)

    def score(self, settings: Settings) -> tuple[np.ndarray, float]:
        """Importance float64 [n] and the milliseconds it took, once for all that read the same rows."""
        key = self.rows_key(settings)
        if key not in self.scored:
            n, batch, clock = len(self.tokens), self.plan.batch, engine.Clock()
            length = min(n, settings.window or n) + settings.lookahead
            prepare(self.draft, length, batch, engine.capture_for(settings))
            with clock.phase("score_ms"):
                importance = engine.score(self.draft, self.tokens, settings, batch=batch)
            self.scored[key] = importance, clock.ms["score_ms"]
        return self.scored[key]

    def rows_key(self, settings: Settings) -> tuple:
        """Settings of one key have the same scores, before anything is normalised."""
        pool = settings.pool if engine.by_head(settings) else 1
        return settings.window, settings.lookahead, settings.softmax, pool

    def read(
        self, selection: Selection, settings: Settings, clock: engine.Clock
    ) -> tuple[list[int], np.ndarray]:
        """The greedy answer and the first token's logits float32 [vocabulary]."""
        kept, end, predict = selection.positions, len(self.tokens), decoded(self.q, self.plan)
        positions = kept
        if settings.positions == "renumber":
            positions, end = np.arange(len(kept)), len(kept)
        stop = () if self.q.answer_ids is not None else sorted(self.target.tokenizer.eog_ids)
        prepare(self.target, len(kept) + predict, self.plan.batch)
        with clock.phase("prefill_ms"):
            session = Session(self.target, len(kept) + predict, self.plan.batch)
        with session:
            with clock.phase("prefill_ms"):
                first = session.prefill(self.tokens[kept], positions)
            logits = session.logits()
            with clock.phase("decode_ms"):
                answer = engine.decode(session, first, end, predict, stop, lambda t: None, engine.quiet)
        return answer, logits

    def judge(self, answer: list[int]) -> Record:
        """Right or wrong, and how nearly: F1 and containment are for text."""
        q = self.q
        if q.answer_ids is not None:
            return {"exact": answer == q.answer_ids, "f1": None, "contained": None, "text": None}
        text = self.target.tokenizer.decode(answer, skip_special=True)
        return {
            "exact": metrics.exact_match(text, q.answers),
            "f1": metrics.f1(text, q.answers),
            "contained": metrics.contained(text, q.answers, q.all_needed),
            "text": text,
        }

    def survived(self, selection: Selection) -> bool | None:
        """Whether the tokens that hold the answer were kept; None where the file does not say which."""
        gold = self.q.gold
        return None if gold is None else bool(np.isin(np.array(gold), selection.positions).all())

    def against_dense(self, logits: np.ndarray) -> Record:
        """The first token's distribution beside that of dense, where dense takes part."""
        if self.dense is None:
            return {"kl": None, "top1": None}
        return {
            "kl": metrics.divergence(self.dense, logits),
            "top1": bool(logits.argmax() == self.dense.argmax()),
        }

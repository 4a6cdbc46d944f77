"""The evaluation: every prompt with every policy at every keep fraction, one record each."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__, engine, job, outputs
from ..dense_layers import require_gaps
from ..errors import SpvkError
from ..gguf.mismatch import plain
from ..kernels.profile import profile_for
from ..model import Model
from ..specprefill import fingerprint
from ..vulkan import Device
from .generate import Recipe
from .policies import Plan
from .prompts import Question, first_of_each_cell, read_prompts
from .table import aggregate
from .trial import Record, Trial, encode


def run_eval(
    target: str,
    draft: str,
    prompts: str | Recipe,
    plan: Plan,
    *,
    limit: int | None,
    device: str | None,
    json_file: str | None,
    resume: bool,
    screen,
) -> dict[str, Any]:
    """The evaluation from files, or a recipe, to report; `screen` is a show.Screen. The JSON is written after each prompt.

    Raises SpvkError before anything is run where a prompt cannot be used or an earlier report, to be
    resumed, is of something else.
    """
    generated = isinstance(prompts, Recipe)
    questions, digest = ([], prompts.sha256) if generated else read_prompts(prompts)
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
            "prompts": asdict(prompts) if generated else prompts,
            "prompts_sha256": digest,
            **plan.as_dict(),
            "precision": profile_for(dev.info, plan.precision).precision,
            "heads": chosen_heads(plan, draft),
        }
        records = earlier_records(json_file, identity, plan) if resume else []
        pair = job.open_pair(stack, dev, target, draft, plan.precision, plan.cache_type)
        for m in dict.fromkeys(pair):
            screen.notices(m)
        require_policies(plan, pair[0])
        if generated:
            questions = generate(prompts, pair[0], plan)
        questions = first_of_each_cell(questions, limit)
        trials = [Trial(q, encode(q, *pair, plan), *pair, plan) for q in questions]
        return carry_out(trials, records, identity, json_file, Steps(screen, len(trials) * len(plan.runs)))


def chosen_heads(plan: Plan, draft: str) -> dict[str, list[list[int]] | None]:
    """The heads [attention layer, head] that policies with `heads` score with now (None: all), by policy."""
    _, config = job.read_config(draft)
    found = {}
    for p in plan.policies:
        if "heads" in p.options:
            try:
                mask = job.heads_of(p.settings(0.5), draft, config)
            except SpvkError as error:
                raise SpvkError(f"--policy {plain(p.label)}: {error}") from None
            found[p.label] = None if mask is None else np.argwhere(mask).tolist()
    return found


def require_policies(plan: Plan, target: Model) -> None:
    """Raise SpvkError naming the first policy that this target cannot follow."""
    for p in plan.policies:
        try:
            require_gaps(target, engine.gaps_of(p.settings(0.5)))
        except SpvkError as error:
            raise SpvkError(f"--policy {plain(p.label)}: {error}") from None


def generate(recipe: Recipe, target: Model, plan: Plan) -> list[Question]:
    """The prompts of a recipe, at their lengths for this model."""
    longest = target.config.context_length - plan.predict
    if (length := max(recipe.lengths)) > longest:
        raise SpvkError(f"--length: found {length}, expected at most {longest} for {plain(target.path)}")
    return recipe.questions(lambda text: len(job.Prompt(text, raw=plan.raw).encode(target)))


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
            outputs.write_json(json_file, report_of(identity, records, complete=False))
    report = report_of(identity, records, complete=True)
    outputs.write_json(json_file, report)
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
    for name, wanted in identity.items():
        if name not in ("target", "draft", "prompts") and report.get(name) != wanted:
            found, expected = plain(report.get(name)), plain(wanted)
            raise SpvkError(
                f"{plain(path)}: {name}: found {found}, expected {expected} as in this run, to resume"
            )
    return records

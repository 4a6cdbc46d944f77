"""`spvk demo`: the embedded pair answers a question about the embedded document, sparse and dense."""

from __future__ import annotations

import shutil

import numpy as np

from . import embedded, job
from .heat import read_strip
from .show import Screen, columns
from .specprefill import Settings, positions_of

PHASES = ("load", "score", "select", "prefill", "decode", "ttft")


def run_demo(*, device: str | None = None, precision: str = "auto", screen: Screen) -> dict:
    """Reports of both runs (see specprefill/report.py) by name, `sparse` and `dense`, with `question` and `truth`."""
    example = embedded.example()
    kinds = {"sparse": Settings(mode="always"), "dense": Settings(mode="off")}

    def run(settings: Settings) -> dict:
        return job.run_prefill(
            embedded.TARGET,
            embedded.DRAFT,
            job.Prompt(example.prompt),
            settings,
            predict=16,
            context=None,
            batch=512,
            device=device,
            precision=precision,
            screen=screen,
        )

    reports = {kind: run(settings) for kind, settings in kinds.items()}
    return reports | {"question": example.question, "truth": example.truth}


def lines(result: dict) -> list[str]:
    """Both runs side by side."""
    sparse, dense = result["sparse"], result["dense"]
    rows = [("", "sparse", "dense")]
    rows.append(("tokens read", *(f"{r['kept_tokens']:,}" for r in (sparse, dense))))
    for name in PHASES:
        ms = [r["timings"][f"{name}_ms"] for r in (sparse, dense)]
        rows.append((name if name != "ttft" else "time to first token", *(f"{x:,.0f} ms" for x in ms)))
    rows.append(("answer", sparse["text"].strip(), dense["text"].strip()))
    rows.append(("truth", result["truth"], result["truth"]))
    return [
        f"question: {result['question']}",
        f"prompt:   {sparse['prompt_tokens']:,} tokens; what the sparse run reads of it, from first to last:",
        strip(sparse),
        *columns(rows),
    ]


def strip(report: dict) -> str:
    """The prompt as one line as wide as the terminal, at most 100: what was read of it."""
    kept = np.zeros(report["prompt_tokens"], bool)
    kept[positions_of(report["kept_spans"])] = True
    return read_strip(kept, min(100, shutil.get_terminal_size().columns))

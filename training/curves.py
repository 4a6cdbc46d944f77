"""A training's curves as a picture: `python -m training.curves build/training/target.csv curves.png`.

Exact match by task, and the answers' loss, against the steps; grey where attention was supervised, a line where the
curriculum went on to longer documents. Needs matplotlib (the extra `spvk[eval]`).
"""

from __future__ import annotations

import argparse
import csv
import math
from pathlib import Path

from spvk.errors import SpvkError
from spvk.evaluate.plots import png
from spvk.outputs import require_writable, write_file

COLUMNS = ("step", "length", "look_weight", "answer_loss")
TASKS = ("fact", "update", "chain", "list", "function", "count", "not stated")
WINDOW = 5  # lines of the file that a point is the mean of: 100 steps


def read(path: Path) -> dict[str, list[float]]:
    """Columns of the CSV file, NaN where a line has none. ValueError where it is none of a training."""
    try:
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path}: {getattr(error, 'strerror', 'not text')}, expected a training's CSV file"
        ) from None
    if not rows or not {*COLUMNS, *TASKS} <= rows[0].keys():
        raise ValueError(f"{path}: found no training's columns, expected those that training.train writes")
    return {name: [float(row[name] or "nan") for row in rows] for name in rows[0]}


def smoothed(values: list[float], window: int = WINDOW) -> list[float]:
    """The mean of each value and those before it, `window` in all, without NaN; NaN where all are."""
    found = [
        [v for v in values[max(0, i + 1 - window) : i + 1] if not math.isnan(v)] for i in range(len(values))
    ]
    return [sum(v) / len(v) if v else math.nan for v in found]


def longer(columns: dict[str, list[float]]) -> list[tuple[float, int]]:
    """(step, tokens) of the first line at each further length."""
    steps, lengths = columns["step"], columns["length"]
    return [(steps[i], int(lengths[i])) for i in range(1, len(steps)) if lengths[i] != lengths[i - 1]]


def figure(columns: dict[str, list[float]]):
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(8, 5), layout="constrained")
    shares, loss = drawn.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    steps = columns["step"]
    supervised = max((s for s, weight in zip(steps, columns["look_weight"]) if weight > 0), default=0)
    for axes in (shares, loss):
        axes.axvspan(0, supervised, color="0.93", lw=0)
        for step, _ in longer(columns):
            axes.axvline(step, color="0.8", lw=0.8)
    for task in TASKS:
        shares.plot(steps, [100 * v for v in smoothed(columns[task])], label=task)
    for step, tokens in longer(columns):
        shares.annotate(f"{tokens:,}", (step, 101), fontsize=7, rotation=90, annotation_clip=False)
    shares.set(ylim=(0, 100), ylabel="exact match, %")
    drawn.legend(loc="outside right upper")
    loss.plot(steps, smoothed(columns["answer_loss"]), color="black")
    loss.set(yscale="log", ylabel="answers' loss", xlabel="step")
    return drawn


def main(arguments: list[str] | None = None) -> None:
    p = argparse.ArgumentParser(prog="training.curves", description="Draw a training's curves.")
    p.add_argument("csv", type=Path)
    p.add_argument("out", type=Path)
    a = p.parse_args(arguments)
    try:
        require_writable(str(a.out), [str(a.csv)])
        write_file(str(a.out), png(figure(read(a.csv))))
    except (ImportError, ValueError, SpvkError) as error:
        p.exit(2, f"{p.prog}: {error}\n")


if __name__ == "__main__":
    main()

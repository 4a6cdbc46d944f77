"""How well the cost model predicts the time to first token, and whether mode auto declines where it should.

    python bench/cost_model.py [-m TARGET -md DRAFT] [-p 512,1024,2048] [-k 0.2,0.5,0.9] [-r 3]
                               [--device NAME|INDEX] [--json FILE]

`spvk tune` measures the pair, in a cache folder of its own. Then each cell, a random prompt of a length at a
keep fraction (chunk mode), is prefilled by `spvk prefill` in a process of its own, dense and sparse; all of it
-r times in turns, so that whatever else the machine does meets tune and the cells alike. The runs' own records
are taken back: mode auto, asked last, predicts from what tune remembered. Measured is the median of `ttft_ms`.
Without models a synthetic pair is written (tiny-target and tiny-draft, random weights, 512 tokens known).
Prints a Markdown table, the worst error and where mode auto was wrong. Exit status 2: a model or an option cannot
be used.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from tables import markdown

from spvk.bench import read_counts
from spvk.errors import SpvkError
from spvk.synth import write_model

# With these mode auto looks at the cost alone.
SURE = ("--min-tokens", "0", "--min-confidence", "0", "--tool-guard", "off")


@dataclass(frozen=True)
class Cell:
    """One length and keep fraction; times in milliseconds, measured ones as medians."""

    tokens: int
    keep: float
    dense_predicted: float
    dense_measured: float
    sparse_predicted: float
    sparse_measured: float
    status: str
    """What mode auto decided."""

    @property
    def errors(self) -> tuple[float, float]:
        """Predicted over measured, less 1: dense and sparse."""
        return (
            self.dense_predicted / self.dense_measured - 1,
            self.sparse_predicted / self.sparse_measured - 1,
        )

    @property
    def is_right(self) -> bool:
        """Whether mode auto took the way that was measured faster."""
        return (self.status == "skipped_break_even") == (self.sparse_measured >= self.dense_measured)


class Pair:
    """Runs of `spvk` on two models, with a cache folder that remembers what tune measured alone."""

    def __init__(self, target: str, draft: str, folder: Path, device: str | None) -> None:
        self.folder, self.rates, self.tuned = folder, folder / "cache" / "rates.json", b""
        self.models = ["-m", target, "-md", draft, *(["--device", device] if device else [])]
        self.environment = {**os.environ, "SPVK_CACHE_DIR": str(folder / "cache")}

    def run(self, *args: str) -> str:
        """Standard output of a command. Raises SpvkError with its last line where it fails."""
        command = [sys.executable, "-m", "spvk", *args]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise SpvkError((done.stderr.splitlines() or ["spvk: no message"])[-1].removeprefix("spvk: "))
        return done.stdout

    def tune(self) -> None:
        """Once more; earlier times stay."""
        if self.tuned:
            self.rates.write_bytes(self.tuned)
        self.run("tune", *self.models)
        self.tuned = self.rates.read_bytes()

    def prefill(self, tokens: int, *options: str) -> dict:
        """The report of a run on a random prompt."""
        path = self.folder / f"{tokens}.npy"
        if not path.exists():
            np.save(path, np.random.default_rng(tokens).integers(0, 500, tokens))
        self.rates.write_bytes(self.tuned)
        source = ["--tokens", str(path), "-n", "1", "--json", "-"]
        return json.loads(self.run("prefill", *self.models, *source, *options))


def measure(pair: Pair, lengths: list[int], keeps: list[float], rounds: int) -> list[Cell]:
    """Every cell, after `rounds` rounds."""
    dense: dict[int, list[float]] = {n: [] for n in lengths}
    sparse: dict[tuple[int, float], list[float]] = {(n, keep): [] for n in lengths for keep in keeps}
    for i in range(rounds):
        pair.tune()
        for n in lengths:
            dense[n].append(pair.prefill(n, "--mode", "off")["timings"]["ttft_ms"])
            for keep in keeps:
                report = pair.prefill(n, "--mode", "always", "--keep", str(keep))
                sparse[n, keep].append(report["timings"]["ttft_ms"])
        print(f"round {i + 1} of {rounds}", file=sys.stderr)
    return [cell(pair, n, keep, median(dense[n]), median(ms)) for (n, keep), ms in sparse.items()]


def cell(pair: Pair, n: int, keep: float, dense: float, sparse: float) -> Cell:
    """What mode auto predicts for a cell, and does, beside what was measured (ms)."""
    auto = pair.prefill(n, "--mode", "auto", *SURE, "--keep", str(keep))
    numbers = auto["numbers"]
    predicted = numbers["predicted_dense_ms"], numbers["predicted_sparse_ms"]
    return Cell(n, keep, predicted[0], dense, predicted[1], sparse, auto["status"])


def table(cells: list[Cell]) -> list[str]:
    """The Markdown table, and what it comes to in two lines."""
    head = ["tokens, keep", "dense predicted", "measured", "error", "sparse predicted", "measured", "error"]
    rows = [[*head, "sparse / dense", "mode auto"]]
    for c in cells:
        ms = (c.dense_predicted, c.dense_measured, c.sparse_predicted, c.sparse_measured)
        times = [f"{value:,.0f} ms" for value in ms]
        off = [f"{100 * error:+.0f} %" for error in c.errors]
        ratio = f"{c.sparse_measured / c.dense_measured:.2f}"
        way = "dense" if c.status == "skipped_break_even" else "sparse"
        rows.append([f"{c.tokens:,}, {c.keep:g}", *times[:2], off[0], *times[2:], off[1], ratio, way])
    worst = max(abs(error) for c in cells for error in c.errors)
    wrong = [f"{c.tokens:,}, {c.keep:g}" for c in cells if not c.is_right]
    said = f"not in {'; '.join(wrong)}" if wrong else "in every cell"
    return [*markdown(rows), "", f"Worst error {100 * worst:.0f} %. Mode auto took the faster way {said}."]


def read_keeps(text: str) -> list[float]:
    try:
        keeps = [float(part) for part in text.split(",")]
    except ValueError:
        keeps = []
    if not keeps or not all(0 < keep <= 1 for keep in keeps):
        raise SpvkError(f"-k: found {text[:60]!r}, expected fractions in (0, 1], with commas")
    return keeps


def run(options: argparse.Namespace) -> list[Cell]:
    if (options.model is None) != (options.draft is None):
        raise SpvkError("-m and -md: found one of them, expected both or none")
    lengths, keeps = read_counts("-p", options.lengths), read_keeps(options.keeps)
    if not all(lengths) or options.rounds < 1:
        raise SpvkError("-p and -r: found 0 or less, expected numbers from 1 up")
    with TemporaryDirectory() as name:
        folder = Path(name)
        target, draft = options.model, options.draft
        if target is None:
            target, draft = str(folder / "target.gguf"), str(folder / "draft.gguf")
            write_model("tiny-target", target, vocabulary="toy")
            write_model("tiny-draft", draft, vocabulary="toy", seed=1)
        return measure(Pair(target, draft, folder, options.device), lengths, keeps, options.rounds)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-m", "--model", metavar="GGUF")
    parser.add_argument("-md", "--draft", metavar="GGUF")
    parser.add_argument("-p", "--lengths", default="512,1024,2048", metavar="N,…")
    parser.add_argument("-k", "--keeps", default="0.2,0.5,0.9", metavar="F,…")
    parser.add_argument("-r", "--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--device", metavar="NAME|INDEX")
    parser.add_argument("--json", metavar="FILE", help="also write the cells there")
    options = parser.parse_args(arguments)
    try:
        cells = run(options)
    except SpvkError as error:
        print(f"cost_model: {error}", file=sys.stderr)
        return 2
    print("\n".join(table(cells)))
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(c) for c in cells], indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

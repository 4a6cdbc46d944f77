"""The bench command: prefill and decode timed with llama-bench's columns, names and ways of measuring.

A test is a prompt of `pp` tokens read or `tg` tokens decoded one by one, after `depth` tokens that are not
timed. What is read is random, so nothing that the model says can end a run early.
"""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from itertools import product
from pathlib import Path
from time import perf_counter_ns
from typing import Callable, Iterable, Iterator, Sequence

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from . import __version__
from .errors import SpvkError
from .gguf.mismatch import plain
from .model import Model
from .prepare import prepare
from .session import Session
from .show import Screen
from .vulkan import Device

FORMATS = ("md", "json", "csv", "jsonl")
SEED = 0


@dataclass(frozen=True)
class Test:
    """One row of the table: a prompt or a generation (the other is 0) after `depth` tokens."""

    prompt: int
    gen: int
    depth: int

    @property
    def name(self) -> str:
        label = f"pp{self.prompt}" if self.prompt else f"tg{self.gen}"
        return label + (f" @ d{self.depth}" if self.depth else "")

    @property
    def timed(self) -> int:
        return self.prompt + self.gen


@dataclass(frozen=True)
class Result:
    """One measured test under llama-bench's JSON names, in its order, and `precision`. Times in ns, speeds in tokens/s."""

    build_commit: str
    build_number: int
    cpu_info: str
    gpu_info: str
    backends: str
    model_filename: str
    model_type: str
    model_size: int
    model_n_params: int
    n_batch: int
    n_ubatch: int
    n_threads: int
    type_k: str
    type_v: str
    n_gpu_layers: int
    flash_attn: int
    precision: str
    n_prompt: int
    n_gen: int
    n_depth: int
    test_time: str
    avg_ns: int
    stddev_ns: int
    avg_ts: float
    stddev_ts: float
    samples_ns: list[int]
    samples_ts: list[float]


def read_counts(flag: str, text: str) -> list[int]:
    """The numbers of a comma list such as 128,512; SpvkError naming the flag for anything else."""
    if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", text, re.ASCII):
        found = plain(repr(text), 60)
        raise SpvkError(f"{flag}: found {found}, expected numbers from 0 up, with commas between")
    return [int(part) for part in text.split(",")]


def require_format(name: str) -> None:
    if name not in FORMATS:
        raise SpvkError(f"-o: found {plain(repr(name), 60)}, expected one of {', '.join(FORMATS)}")


def plan(prompts: Sequence[int], gens: Sequence[int], depths: Sequence[int]) -> list[Test]:
    """Tests in llama-bench's order: at each depth prompts, then generations; counts of 0 are left out."""
    pairs = [(p, 0) for p in prompts if p] + [(0, n) for n in gens if n]
    if not pairs:
        raise SpvkError("-p and -n: found 0 alone, expected something to measure")
    return [Test(p, n, d) for d, (p, n) in product(depths, pairs)]


# -- measuring ---------------------------------------------------------------------------------------------


def measure(
    model: Model, test: Test, *, repeat: int, batch: int, progress: Callable[[int], None] = lambda done: None
) -> list[int]:
    """Nanoseconds of `repeat` timed runs, after one run that warms up (one token of a generation does).

    `progress` is called with the number of runs done, the warm-up included. Raises SpvkError where the
    test does not fit the model's context, or the logits are NaN.
    """
    context = test.depth + test.timed
    tokens = np.random.default_rng(SEED).integers(0, model.vocabulary, context)
    prepare(model, context, batch)
    samples = []
    with Session(model, context, batch) as session:
        for i in range(repeat + 1):
            session.reset()
            if i and test.depth:
                session.prefill(tokens[: test.depth])
            start = perf_counter_ns()
            run(session, test, tokens[session.past :][: test.timed if i else test.prompt or 1])
            if i:
                samples.append(perf_counter_ns() - start)
            progress(i + 1)
    return samples


def run(session: Session, test: Test, tokens: np.ndarray) -> None:
    """The timed part: read the tokens at once, or one by one."""
    past = session.past
    if test.prompt:
        session.prefill(tokens, np.arange(past, past + len(tokens)))
        return
    for position, token in enumerate(tokens, past):
        session.decode(int(token), position)


def statistics(timed: int, samples: Sequence[int]) -> dict:
    """Mean and sample deviation (0 for one run) of the times and of the speeds, and both lists."""
    speeds = [1e9 * timed / ns for ns in samples]
    spread = (lambda values: float(np.std(values, ddof=1))) if len(samples) > 1 else lambda values: 0.0
    return {
        "avg_ns": sum(samples) // len(samples),
        "stddev_ns": int(spread(samples)),
        "avg_ts": sum(speeds) / len(speeds),
        "stddev_ts": spread(speeds),
        "samples_ns": list(samples),
        "samples_ts": speeds,
    }


# -- what is measured on what ------------------------------------------------------------------------------


def describe(model: Model, batch: int) -> dict:
    """The fields that all tests share."""
    info, tensors = model.device.info, model.file.tensors.values()
    return {
        "build_commit": f"spvk-{__version__}",
        "build_number": 0,
        "cpu_info": cpu_name(),
        "gpu_info": info.name,
        "backends": "Vulkan",
        "model_filename": model.path,
        "model_type": model_type(model.file),
        "model_size": sum(t.nbytes for t in tensors),
        "model_n_params": parameters(model.file),
        "n_batch": batch,
        "n_ubatch": batch,
        "n_threads": usable_cpus() if info.type == "cpu" else 1,
        "type_k": model.profile.cache,
        "type_v": model.profile.cache,
        "n_gpu_layers": -1,  # all
        "flash_attn": 1,
        "precision": model.profile.precision,
    }


def parameters(file) -> int:
    return sum(t.rows * t.shape[0] for t in file.tensors.values())


def model_type(file) -> str:
    """Architecture, size and quantisation, such as "qwen35 4.21B Q4_K - Medium"."""
    n = parameters(file)
    size = f"{n / 1e9:.2f}B" if n >= 1e9 else f"{n / 1e6:.2f}M"
    size = plain(file.get("general.size_label", str, default=size), 20)
    return f"{file.architecture} {size} {quantisation(file)}"


def quantisation(file) -> str:
    """The file's own word for its mixture of types, else the type that takes the most bytes."""
    from gguf import LlamaFileType

    try:
        name = LlamaFileType(file.fields.get("general.file_type")).name.removeprefix("MOSTLY_")
    except ValueError:
        nbytes = Counter()
        for t in file.tensors.values():
            nbytes[t.type.name] += t.nbytes
        return nbytes.most_common(1)[0][0]
    short = {"S": "Small", "M": "Medium", "L": "Large"}
    base, _, mix = name.rpartition("_")
    return f"{base} - {short[mix]}" if base.endswith("_K") and mix in short else name.replace("ALL_", "all ")


def cpu_name() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def usable_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# -- output ------------------------------------------------------------------------------------------------

# Widths; negative: flush left.
COLUMNS = {"model": -30, "size": 10, "params": 10, "backend": -10, "ngl": 3, "test": 15, "t/s": 20}


def write_rows(results: Iterator[Result], form: str, write: Callable[[str], None]) -> None:
    """Every result as it comes; `json` all at the end, so that there is a whole list or none."""
    if form == "json":
        write(json.dumps([asdict(r) for r in results], indent=2))
        return
    for line in {"md": markdown, "csv": comma_separated, "jsonl": json_lines}[form](results):
        write(line)


def markdown(results: Iterator[Result]) -> Iterator[str]:
    for i, result in enumerate(results):
        if not i:
            yield table_line(COLUMNS)
            yield table_line(["-" * -w if w < 0 else "-" * (w - 1) + ":" for w in COLUMNS.values()])
        yield table_line(cells(result))
    yield f"\nbuild: {result.build_commit} ({result.build_number}), {plain(result.gpu_info)}"


def table_line(values: Iterable[str]) -> str:
    padded = (f"{v:<{-w}}" if w < 0 else f"{v:>{w}}" for v, w in zip(values, COLUMNS.values()))
    return "| " + " | ".join(padded) + " |"


def cells(r: Result) -> tuple[str, ...]:
    mib, n = r.model_size / 2**20, r.model_n_params
    return (
        r.model_type,
        f"{mib:.2f} MiB" if mib < 1024 else f"{mib / 1024:.2f} GiB",
        f"{n / 1e6:.2f} M" if n < 1e9 else f"{n / 1e9:.2f} B",
        r.backends,
        str(r.n_gpu_layers),
        Test(r.n_prompt, r.n_gen, r.n_depth).name,
        f"{r.avg_ts:.2f} ± {r.stddev_ts:.2f}",
    )


def comma_separated(results: Iterator[Result]) -> Iterator[str]:
    names = [f.name for f in fields(Result) if not f.name.startswith("samples")]
    for i, result in enumerate(results):
        if not i:
            yield ",".join(names)
        line = io.StringIO()
        csv.writer(line, quoting=csv.QUOTE_ALL, lineterminator="").writerow(getattr(result, n) for n in names)
        yield line.getvalue()


def json_lines(results: Iterator[Result]) -> Iterator[str]:
    return (json.dumps(asdict(r)) for r in results)


# -- the command -------------------------------------------------------------------------------------------


def run_bench(
    path: str,
    tests: Sequence[Test],
    *,
    repeat: int,
    batch: int,
    device: str | None,
    precision: str,
    cache: str = "f32",
    form: str,
) -> None:
    """Measure and print: the table on standard output, everything else on standard error."""
    with Device(device) as dev, Model(dev, path, precision, cache) as model:
        screen = Screen()
        screen.device(dev.info, dev.reason)
        screen.notices(model)
        require_context(model, tests)
        found = measure_all(model, tests, repeat, batch)
        write_rows(found, form, lambda line: print(line, file=screen.out, flush=True))


def require_context(model: Model, tests: Sequence[Test]) -> None:
    """Raise SpvkError before anything is measured when a test is longer than the model's context."""
    limit = model.config.context_length
    for test in tests:
        if (found := test.depth + test.timed) > limit:
            raise SpvkError(
                f"{test.name}: {found} tokens, expected at most {limit}, the context of {model.path}"
            )


@contextmanager
def bar(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal; drawn between runs alone, lest a thread that draws be measured too."""
    console = Console(stderr=True)
    silent = not console.is_terminal
    columns = TextColumn("{task.description:16}"), BarColumn(), TextColumn("{task.completed}/{task.total}")
    with Progress(*columns, console=console, transient=True, auto_refresh=False, disable=silent) as bars:
        task = bars.add_task(name, total=total)
        yield lambda done: bars.update(task, completed=done, refresh=True)


def measure_all(model: Model, tests: Sequence[Test], repeat: int, batch: int) -> Iterator[Result]:
    shared = describe(model, batch)
    for test in tests:
        now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        with bar(test.name, repeat + 1) as progress:  # gone when the row is printed
            samples = measure(model, test, repeat=repeat, batch=batch, progress=progress)
        counts = {"n_prompt": test.prompt, "n_gen": test.gen, "n_depth": test.depth}
        yield Result(**shared, **counts, test_time=now, **statistics(test.timed, samples))

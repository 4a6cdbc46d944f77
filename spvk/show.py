"""What the terminal shows: progress, the report, devices, a file's contents. Plain lines, for pipes too."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from typing import Iterable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from .explain import Account
from .gguf import open_gguf
from .gguf.mismatch import plain
from .heat import heat_strip
from .models import architecture_of, describe_skipped

PHASES = {"score": "draft scores", "prefill": "target prefills", "decode": "target decodes"}
TIMES = {
    "load": "load_ms",
    "score": "score_ms",
    "select": "select_ms",
    "prefill": "prefill_ms",
    "decode": "decode_ms",
    "time to first token": "ttft_ms",
}
STRIP_INDENT = len("time to first token") + 3  # the column of names, and one to spare


class Screen:
    """Progress (on a terminal), notices and the report on standard error; the answer on standard output.

    With `json_only` the answer goes to standard error too, and standard output is left to the JSON.
    """

    def __init__(self, json_only: bool = False) -> None:
        self.out = sys.stderr if json_only else sys.stdout
        console = Console(stderr=True)
        self.bars = Progress(
            TextColumn("{task.description:16}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.tasks: dict[str, int] = {}
        self.text = ""
        self.said: set[str] = set()

    def __enter__(self) -> Screen:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def say(self, line: str) -> None:
        print(line, file=sys.stderr)

    def device(self, info, reason: str) -> None:
        line = f"device: {info.name} ({reason})"
        if (info.type == "cpu" or reason == "asked for") and line not in self.said:
            self.say(line)
            self.said.add(line)

    def notices(self, model) -> None:
        for line in model.notices if model else ():
            self.say(f"{plain(model.path, 4096)}: {line}")

    def progress(self, phase: str, done: int, total: int) -> None:
        if phase not in self.tasks:
            self.tasks[phase] = self.bars.add_task(PHASES[phase], total=total)
        self.bars.update(self.tasks[phase], completed=done, total=total)

    def answer(self, piece: str) -> None:
        self.text += piece

    def report(self, report: dict, account: Account | None = None) -> None:
        self.bars.stop()
        for line in report_lines(report, strip_rows(account)):
            self.say(line)
        print(self.text.strip("\n"), file=self.out, flush=True)


def columns(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows as lines, each column as wide as its longest cell."""
    rows = list(rows)
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows]


def strip_rows(account: Account | None) -> list[tuple[str, str]]:
    """The prompt from its first token to its last, as wide as the terminal allows; how to score it where nothing did."""
    if account is None:
        return []
    if account.importance is None:
        skipped = account.report["status"].startswith("skipped")
        return [("scores", "none: --mode always scores every prompt")] if skipped else []
    width = max(16, min(100, shutil.get_terminal_size().columns - STRIP_INDENT))
    return list(zip(("scores", "read"), heat_strip(account.importance, account.kept, width)))


def report_lines(report: dict, strip: Iterable[tuple[str, str]] = ()) -> list[str]:
    """The short table: what was kept (and the `strip`'s rows), where it ran, the times."""
    spans = len(report["kept_spans"])
    kept = f"{report['kept_tokens']} tokens, {100 * report['kept_fraction']:.1f} %, in {spans} "
    numbers = report["numbers"]
    rows = [
        ("prompt", f"{report['prompt_tokens']} tokens"),
        ("kept", kept + ("span" if spans == 1 else "spans") + f" ({report['status']})"),
    ]
    if report["status"] != "active":
        rows.append(("decision", report["reason"]))
    rows += strip
    rows.append(("device", report["device"]))
    scored = report["status"] in ("active", "kept_all", "fell_back_dense")
    for name, key in TIMES.items():
        if scored or name not in ("score", "select"):
            ms = report["timings"][key]
            rows.append((name, f"{ms:,.0f} ms{rate_of(name, ms, report)}"))
    if "predicted_sparse_ms" in numbers:
        times = (f"{kind} {numbers[f'predicted_{kind}_ms']:,.0f} ms" for kind in ("sparse", "dense"))
        rows.append(("as predicted", ", ".join(times)))
    return columns(rows)


def rate_of(name: str, ms: float, report: dict) -> str:
    """Tokens a second, or what a time includes, in brackets."""
    if name == "time to first token":
        return "  (score + select + prefill)"
    counts = {
        "score": report["prompt_tokens"],
        "prefill": report["kept_tokens"],
        "decode": len(report["tokens"]) - 1,
    }
    return f"  ({1e3 * counts[name] / ms:,.1f} tokens/s)" if counts.get(name, 0) > 0 and ms > 0 else ""


def print_devices() -> None:
    """Every Vulkan device, and which one would be used and why."""
    from .vulkan import choose, enumerate_devices, make_instance

    devices = enumerate_devices(make_instance())
    for d in devices:
        low, default, high = d.subgroup
        rows = [
            ("type", d.type),
            ("driver", f"{d.driver}, Vulkan {d.api}"),
            ("memory", f"{d.memory / 2**30:.1f} GiB, at most {d.max_allocation / 2**30:.1f} GiB at once"),
            ("subgroups", f"{default}" if low == high else f"{low} to {high}, {default} by default"),
            ("fp16", yes(d.fp16)),
            ("integer dot product", yes(d.integer_dot)),
            ("cooperative matrix", "x".join(map(str, d.matrix)) if d.matrix else "no"),
        ]
        rows += [("cannot be used", f"lacks {', '.join(d.missing)}")] if d.missing else []
        print(f"{d.index}: {d.name}", *(f"   {line}" for line in columns(rows)), sep="\n")
    best, reason = choose(devices)
    print(f"would use {best.index}: {best.name} ({reason})")


def yes(value: bool) -> str:
    return "yes" if value else "no"


def print_model(path: str) -> None:
    """Architecture, sizes, tensor types by count and bytes, and what would be skipped or repacked."""
    file = open_gguf(path)
    architecture = architecture_of(file)
    config = architecture.read_config(file)
    matrices, vectors = architecture.tensor_shapes(config)
    for name, shape in {**matrices, **vectors}.items():
        file.tensor(name, shape)
    skipped = describe_skipped(file, config)
    for line in columns(model_rows(file, config)) + columns(type_rows(file)) + skipped:
        print(line)


def model_rows(file, config) -> list[tuple[str, str]]:
    tensors, a = file.tensors.values(), config.attention
    return [
        ("file", plain(file.path, 4096)),
        ("name", plain(file.get("general.name", str, default="-"))),
        ("architecture", file.architecture),
        ("layers", f"{config.layers}, of which {len(config.attention_layers)} attend"),
        ("width", f"{config.width}, feed-forward {config.feed_forward}"),
        ("heads", f"{a.heads} query, {a.kv_heads} key/value, {a.dim} wide"),
        (
            "vocabulary",
            f"{config.vocabulary}, output head {'tied to the embedding' if config.tied else 'of its own'}",
        ),
        ("context", f"{config.context_length}"),
        ("tensors", f"{len(tensors)}, {sum(t.nbytes for t in tensors) / 1e6:,.1f} MB"),
    ]


def type_rows(file) -> list[tuple[str, str, str, str]]:
    """One row a tensor type, the most frequent first."""
    kinds = {t.type.name: t.type for t in file.tensors.values()}
    rows = []
    for name, count in Counter(t.type.name for t in file.tensors.values()).most_common():
        nbytes = sum(t.nbytes for t in file.tensors.values() if t.type.name == name)
        other = "repacked to F16 at load" if kinds[name].repacked else "cannot be computed with"
        rows.append(
            (f"  {name}", f"{count} tensors", f"{nbytes / 1e6:,.1f} MB", "" if kinds[name].native else other)
        )
    return rows

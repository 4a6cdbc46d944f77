"""What the terminal shows: progress, the report's table, devices, a file's contents."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .gguf import open_gguf
from .models import architecture_of, skipped_tensors

PHASES = {"score": "draft scores", "prefill": "target prefills", "decode": "target decodes"}
TIMES = (
    ("load", "load_ms"),
    ("score", "score_ms"),
    ("select", "select_ms"),
    ("prefill", "prefill_ms"),
    ("decode", "decode_ms"),
    ("time to first token", "ttft_ms"),
)


class Screen:
    """Progress on standard error where it is a terminal; the report on standard output.

    With `quiet_stdout` standard output is left to the JSON, and the report goes to standard error.
    """

    def __init__(self, quiet_stdout: bool = False) -> None:
        self.out = Console(stderr=quiet_stdout, highlight=False, soft_wrap=True)
        self.err = Console(stderr=True, highlight=False, soft_wrap=True)
        self.bars = Progress(
            TextColumn("{task.description:16}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeElapsedColumn(),
            console=self.err,
            transient=True,
            disable=not self.err.is_terminal,
        )
        self.tasks: dict[str, int] = {}
        self.text = ""

    def __enter__(self) -> Screen:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def device(self, info, reason: str) -> None:
        if info.type == "cpu" or reason == "asked for":
            self.err.print(f"device: {info.name} ({reason})", markup=False)

    def notices(self, model) -> None:
        for line in model.notices if model else ():
            self.err.print(f"{model.path}: {line}", markup=False)

    def progress(self, phase: str, done: int, total: int) -> None:
        if phase not in self.tasks:
            self.tasks[phase] = self.bars.add_task(PHASES[phase], total=total)
        self.bars.update(self.tasks[phase], completed=done, total=total)

    def answer(self, piece: str) -> None:
        self.text += piece

    def report(self, report: dict) -> None:
        self.bars.stop()
        self.out.print(report_table(report))
        self.out.print(self.text.strip(), markup=False)


def report_table(report: dict) -> Table:
    """The short table: what was kept, where it ran, the times."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    kept, prompt = report["kept_tokens"], report["prompt_tokens"]
    rows = [
        ("prompt", f"{prompt} tokens"),
        (
            "kept",
            f"{kept} tokens, {100 * report['kept_fraction']:.1f} %, in {len(report['kept_spans'])} spans ({report['status']})",
        ),
        ("device", report["device"]),
    ]
    for name, key in TIMES:
        ms = report["timings"][key]
        rate = rate_of(name, ms, report)
        rows.append((name, f"{ms:,.0f} ms" + (f"  ({rate})" if rate else "")))
    for name, value in rows:
        table.add_row(name, value)
    return table


def rate_of(name: str, ms: float, report: dict) -> str:
    """Tokens a second, or what a time includes."""
    counts = {
        "score": 0 if report["status"] == "disabled" else report["prompt_tokens"],
        "prefill": report["kept_tokens"],
        "decode": len(report["tokens"]) - 1,
    }
    if name == "time to first token":
        return "score + select + prefill"
    return f"{1e3 * counts[name] / ms:,.1f} tokens/s" if counts.get(name, 0) > 0 and ms > 0 else ""


def print_devices() -> None:
    """Every Vulkan device, and which one would be used and why."""
    from .vulkan import choose, enumerate_devices, make_instance

    devices = enumerate_devices(make_instance())
    console = Console(highlight=False, soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in (
        "",
        "device",
        "type",
        "driver",
        "Vulkan",
        "memory",
        "subgroups",
        "fp16",
        "int dot",
        "coop. matrix",
    ):
        table.add_column(column)
    for d in devices:
        low, default, high = d.subgroup
        table.add_row(
            str(d.index),
            d.name,
            d.type,
            d.driver,
            d.api,
            f"{d.memory / 2**30:.1f} GiB",
            str(default) if low == high else f"{low}-{high} ({default})",
            *(yes(x) for x in (d.fp16, d.integer_dot, d.cooperative_matrix)),
        )
    console.print(table)
    for d in devices:
        if d.missing:
            console.print(f"{d.index}: cannot be used, it lacks {', '.join(d.missing)}")
    best, reason = choose(devices)
    console.print(f"would use {best.index}: {best.name} ({reason})", markup=False)


def yes(value: bool) -> str:
    return "yes" if value else "no"


def print_model(path: str) -> None:
    """Architecture, sizes, tensor types by count and bytes, and what would be skipped or repacked."""
    file = open_gguf(path)
    architecture = architecture_of(file)
    config = architecture.read_config(file)
    console = Console(highlight=False, soft_wrap=True)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    tensors = list(file.tensors.values())
    for row in (
        ("file", path),
        ("name", str(file.get("general.name", str, default="-"))),
        ("architecture", file.architecture),
        ("layers", f"{config.layers}, of which {len(config.attention_layers)} attend"),
        ("width", f"{config.width}, feed-forward {config.feed_forward}"),
        (
            "heads",
            f"{config.attention.heads} query, {config.attention.kv_heads} key/value, {config.attention.dim} wide",
        ),
        (
            "vocabulary",
            f"{config.vocabulary}, output head {'tied to the embedding' if config.tied else 'of its own'}",
        ),
        ("context", f"{config.context_length}"),
        ("tensors", f"{len(tensors)}, {sum(t.nbytes for t in tensors) / 1e6:,.1f} MB"),
    ):
        table.add_row(*row)
    console.print(table)
    types = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("type", "tensors", "MB", ""):
        types.add_column(column)
    for name, count in Counter(t.type.name for t in tensors).most_common():
        of_type = [t for t in tensors if t.type.name == name]
        note = (
            ""
            if of_type[0].type.native
            else "repacked to F16 at load"
            if of_type[0].type.repacked
            else "cannot be computed with"
        )
        types.add_row(name, str(count), f"{sum(t.nbytes for t in of_type) / 1e6:,.1f}", note)
    console.print(types)
    matrices, vectors = architecture.tensor_shapes(config)
    for kind, names in skipped_tensors(
        file, {*matrices, *vectors, "rope_freqs.weight"}, config.layers
    ).items():
        console.print(
            f"{len(names)} {kind} tensors would be skipped ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})",
            markup=False,
        )
    for name in {*matrices, *vectors}:
        file.tensor(name, {**matrices, **vectors}[name])

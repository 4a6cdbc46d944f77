"""Records to a table: one row a cell, policy and keep fraction; as plain values and as Markdown."""

from __future__ import annotations

from statistics import fmean, median
from typing import Any, Callable, Iterable

from ..gguf.mismatch import plain
from .metrics import wilson

Row = dict[str, Any]


def aggregate(records: Iterable[Row]) -> list[Row]:
    """One row for each (cell, policy, keep), in order of appearance, cell by cell; then all cells as one."""
    records = list(records)
    cells = list(dict.fromkeys(cell_key(r) for r in records))
    groups: dict[tuple, list[Row]] = {}
    for r in records:
        groups.setdefault((cell_key(r), r["policy"], r["keep"]), []).append(r)
    ways = list(dict.fromkeys((policy, keep) for _, policy, keep in groups))
    rows = [
        summary(groups[(cell, *way)], dict(cell), *way)
        for cell in cells
        for way in ways
        if (cell, *way) in groups
    ]
    if len(cells) > 1:
        rows += [summary([r for c in cells for r in groups.get((c, *way), ())], None, *way) for way in ways]
    return rows


def cell_key(record: Row) -> tuple:
    return tuple(record["cell"].items())


def summary(records: list[Row], cell: dict | None, policy: str, keep: float | None) -> Row:
    """Shares with 95 % Wilson intervals [low, high], means, and the median time to first token.

    `cell` None: all of them. A number is None where no record has it.
    """
    return {
        "cell": cell,
        "policy": policy,
        "keep": keep,
        "prompts": len(records),
        **share(records, "exact"),
        "f1": mean(records, "f1"),
        "contained": mean(records, "contained"),
        **share(records, "survived"),
        **share(records, "top1"),
        "kl": mean(records, "kl"),
        "kept_tokens": mean(records, "kept_tokens"),
        "kept_fraction": sum(r["kept_tokens"] for r in records) / sum(r["prompt_tokens"] for r in records),
        "ttft_ms": median(r["timings"]["ttft_ms"] for r in records),
    }


def share(records: list[Row], name: str) -> Row:
    values = [r[name] for r in records if r[name] is not None]
    if not values:
        return {name: None, f"{name}_95": None}
    return {name: sum(values) / len(values), f"{name}_95": list(wilson(sum(values), len(values)))}


def mean(records: list[Row], name: str) -> float | None:
    values = [r[name] for r in records if r[name] is not None]
    return fmean(values) if values else None


def percent(row: Row, name: str) -> str:
    """`88.0 (70.0–95.8)`."""
    low, high = row[f"{name}_95"]
    return f"{100 * row[name]:.1f} ({100 * low:.1f}–{100 * high:.1f})"


COLUMNS: tuple[tuple[str, str, Callable[[Row], str]], ...] = (
    ("prompts", "prompts", lambda r: str(r["prompts"])),
    ("exact % (95 %)", "exact", lambda r: percent(r, "exact")),
    ("F1 %", "f1", lambda r: f"{100 * r['f1']:.1f}"),
    ("contained %", "contained", lambda r: f"{100 * r['contained']:.1f}"),
    ("gold survived % (95 %)", "survived", lambda r: percent(r, "survived")),
    ("first token as dense % (95 %)", "top1", lambda r: percent(r, "top1")),
    ("KL", "kl", lambda r: f"{r['kl']:.3f}"),
    ("tokens kept", "kept_tokens", lambda r: f"{r['kept_tokens']:.0f} ({100 * r['kept_fraction']:.1f} %)"),
    ("TTFT ms", "ttft_ms", lambda r: f"{r['ttft_ms']:,.0f}"),
)


def markdown(rows: list[Row]) -> str:
    """The table in Markdown; columns that no row has a number for are left out."""
    columns = [(title, name, show) for title, name, show in COLUMNS if any(r[name] is not None for r in rows)]
    cells = list(dict.fromkeys(name for r in rows for name in r["cell"] or ()))
    head = [*cells, "policy", "keep", *(title for title, _, _ in columns)]
    lines = [line(head), line(["---"] * len(head))]
    for r in rows:
        where = (
            ["all"] * len(cells) if r["cell"] is None else [str(r["cell"].get(name, "")) for name in cells]
        )
        keep = "" if r["keep"] is None else f"{r['keep']:g}"
        values = ["" if r[name] is None else show(r) for _, name, show in columns]
        lines.append(line([*where, r["policy"], keep, *values]))
    return "\n".join(lines) + "\n"


def line(values: list[str]) -> str:
    return "| " + " | ".join(plain(v).replace("|", "\\|") for v in values) + " |"

"""Records to a table: one row a cell, policy and keep fraction; as plain values and as Markdown."""

from __future__ import annotations

from statistics import fmean, median
from typing import Any, Callable, Iterable

from ..gguf.mismatch import plain
from .metrics import wilson

Row = dict[str, Any]


def aggregate(records: Iterable[Row]) -> list[Row]:
    """One row for each (cell, policy, keep), in order of appearance, cell by cell; then all cells as one.

    Where chunk edges cut the needed sentences of some prompts, and not of others, a cell's rows are followed
    by rows of these prompts alone, with `fact` "cut".
    """
    records = list(records)
    cells: dict[tuple, list[Row]] = {}
    for r in records:
        cells.setdefault(tuple(r["cell"].items()), []).append(r)
    rows = [row for key, members in cells.items() for row in cell_rows(members, dict(key))]
    return rows + (cell_rows(records, None) if len(cells) > 1 else [])


def cell_rows(records: list[Row], cell: dict | None) -> list[Row]:
    """The rows of one cell (None: of all), then those of its cut facts."""
    rows = way_rows(records, cell, None)
    cut = [r for r in records if r["cut"]]
    return rows + (way_rows(cut, cell, "cut") if 0 < len(cut) < len(records) else [])


def way_rows(records: list[Row], cell: dict | None, fact: str | None) -> list[Row]:
    """One row for each policy and keep fraction."""
    ways: dict[tuple, list[Row]] = {}
    for r in records:
        ways.setdefault((r["policy"], r["keep"]), []).append(r)
    return [summary(members, cell, fact, *way) for way, members in ways.items()]


def summary(
    records: list[Row], cell: dict | None, fact: str | None, policy: str, keep: float | str | None
) -> Row:
    """Shares with 95 % Wilson intervals [low, high], means, and the median time to first token.

    `cell` None: all of them; `fact`: `cut`, or None for every prompt. A number is None where no record has it.
    """
    return {
        "cell": cell,
        "fact": fact,
        "policy": policy,
        "keep": keep,
        "prompts": len(records),
        **share(records, "exact"),
        **share(records, "stated"),
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
    ("stated % (95 %)", "stated", lambda r: percent(r, "stated")),
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
    facts = ["fact"] if any(r["fact"] for r in rows) else []
    head = [*cells, *facts, "policy", "keep", *(title for title, _, _ in columns)]
    lines = [line(head), line(["---"] * len(head))]
    for r in rows:
        where = (
            ["all"] * len(cells) if r["cell"] is None else [str(r["cell"].get(name, "")) for name in cells]
        )
        where += [r["fact"] or ""] if facts else []
        keep = keep_text(r["keep"])
        values = ["" if r[name] is None else show(r) for _, name, show in columns]
        lines.append(line([*where, r["policy"], keep, *values]))
    return "\n".join(lines) + "\n"


def keep_text(keep: float | str | None) -> str:
    return keep if isinstance(keep, str) else "" if keep is None else f"{keep:g}"


def line(values: list[str]) -> str:
    return "| " + " | ".join(plain(v).replace("|", "\\|") for v in values) + " |"

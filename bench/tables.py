"""Markdown tables for the programs beside it."""

from __future__ import annotations

from typing import Sequence


def markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; the first row is its head, the first column flush left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    rule = ["-" * w if not i else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    aligned = (
        (c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths)))
        for row in (rows[0], rule, *rows[1:])
    )
    return ["| " + " | ".join(row) + " |" for row in aligned]

"""What `spvk eval --json` wrote as one table: a row a policy and keep fraction, a column a task.

    python bench/pivot.py FILE.json [FILE.json ...] [--cut]

Exact match in %, over all tasks with its 95 % interval (Wilson); the mean KL divergence (nats) of the first token
from dense; the share of prompts whose needed tokens were all kept; tokens kept; the median time to first token.
Dense prefill has no keep fraction. `--cut`: of the prompts whose needed sentence an edge of fixed chunks cuts.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import mean, median

from tables import markdown

from spvk.evaluate.metrics import wilson
from spvk.evaluate.table import keep_text


def read(paths: list[Path], cut: bool) -> list[dict]:
    """All records of the files, those of cut prompts alone where that is asked."""
    records = [r for path in paths for r in json.loads(path.read_text(encoding="utf-8"))["records"]]
    return [r for r in records if r["cut"]] if cut else records


def cell_of(record: dict) -> str:
    cell = record["cell"]
    several = f" of {cell['facts']}" if cell.get("facts", 1) != 1 else ""
    return f"{cell.get('task', 'all')}{several}"


def share(flags: list[bool]) -> float:
    return 100 * sum(flags) / len(flags)


def is_right(record: dict) -> bool:
    """Whether the answer is stated, where it is text; else exact match."""
    return record["exact"] if record["stated"] is None else record["stated"]


def row(name: tuple, records: list[dict], cells: list[str]) -> list[str]:
    """One policy at one keep fraction."""
    policy, keep = name
    by_cell = [[is_right(r) for r in records if cell_of(r) == cell] for cell in cells]
    right = [is_right(r) for r in records]
    low, high = (100 * x for x in wilson(sum(right), len(right)))
    kl = [r["kl"] for r in records if r["kl"] is not None]  # none where dense was not run
    kept = mean(r["kept_tokens"] / r["prompt_tokens"] for r in records)
    survived = [r["survived"] for r in records if r["survived"] is not None]
    ttft = median(r["timings"]["ttft_ms"] for r in records)
    return [
        f"`{policy}`", keep_text(keep), f"{share(right):.0f} ({low:.0f}–{high:.0f})",
        *(f"{share(flags):.0f}" if flags else "" for flags in by_cell),
        f"{mean(kl):.2f}" if kl else "", f"{share(survived):.0f}" if survived else "", f"{100 * kept:.0f} %", f"{ttft:,.0f} ms",
    ]  # fmt: skip


def table(records: list[dict]) -> list[str]:
    """Markdown, policies and cells in the order in which they came."""
    cells = list(dict.fromkeys(cell_of(r) for r in records))
    groups: dict[tuple, list[dict]] = {}
    for r in records:
        groups.setdefault((r["policy"], r["keep"]), []).append(r)
    head = ["policy", "keep", "all", *cells, "KL", "survived", "kept", "TTFT"]
    return markdown([head, *(row(name, group, cells) for name, group in groups.items())])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--cut", action="store_true")
    options = parser.parse_args(arguments)
    print("\n".join(table(read(options.files, options.cut))))
    return 0


if __name__ == "__main__":
    sys.exit(main())

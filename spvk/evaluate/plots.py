"""The table as pictures: accuracy and time to first token against the kept fraction, a panel for each cell.

matplotlib is an extra (`spvk[eval]`) and is imported when a plot is asked for.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Callable

from .. import outputs
from ..errors import SpvkError
from ..gguf.mismatch import plain

Row = dict[str, Any]
NAMES = ("accuracy", "ttft")
MARKERS = "osD^vP*X"
PANEL = (4.0, 3.2)  # inches
COLUMNS = 3


def require_folder(path: str | None) -> None:
    """Make the folder for the plots before any work. SpvkError where that, or the import, fails."""
    if path is None:
        return
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise SpvkError("--plots: matplotlib is not installed, expected the extra spvk[eval]") from None
    if not path:
        raise SpvkError("--plots: found '', expected a folder to write into")
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SpvkError(f"--plots {plain(path)}: {reason}, expected a folder to write into") from None
    for name in NAMES:
        outputs.require_writable(file_in(path, name))


def file_in(folder: str, name: str) -> str:
    return str(Path(folder) / f"{name}.png")


def write_plots(folder: str, rows: list[Row]) -> list[str]:
    """accuracy.png and ttft.png from the table's rows; returns their paths."""
    paths = [file_in(folder, name) for name in NAMES]
    for path, draw, same_scale in zip(paths, (accuracy_panel, time_panel), (True, False)):
        outputs.write_file(path, png(figure(rows, draw, same_scale)))
    return paths


def panels(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows of each cell by its title; those of cut facts are left to the table."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row["fact"] is None:
            found.setdefault(title_of(row["cell"]), []).append(row)
    return found


def title_of(cell: dict[str, Any] | None) -> str:
    """`passkey, len 1000, depth 0.5`: a text speaks for itself, a number needs its name."""
    if cell is None:
        return "all"
    parts = (v if isinstance(v, str) else f"{name} {v:g}" for name, v in cell.items())
    return plain(", ".join(parts))


def figure(rows: list[Row], draw: Callable[[Any, list[Row], dict[str, int]], None], same_scale: bool):
    """A matplotlib Figure of one panel a cell, with one legend."""
    from matplotlib.figure import Figure

    cells = panels(rows)
    columns = min(COLUMNS, len(cells))
    lines = -(-len(cells) // columns)
    order = {policy: i for i, policy in enumerate(dict.fromkeys(r["policy"] for r in rows))}
    named = 2 * columns  # policies on a line of the legend
    height = lines * PANEL[1] + 0.4 + 0.25 * -(-len(order) // named)
    fig = Figure(figsize=(columns * PANEL[0], height), layout="constrained")
    axes = fig.subplots(lines, columns, squeeze=False, sharey=same_scale)
    for ax, (title, members) in zip(axes.flat, cells.items()):
        ax.set_title(title, fontsize="medium")
        ax.set_xlabel("fraction of the tokens kept")
        ax.grid(alpha=0.3)
        draw(ax, members, order)
    for ax in axes[:, 1:].flat if same_scale else ():
        ax.set_ylabel("")
    for ax in axes.flat[len(cells) :]:
        ax.set_axis_off()
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=min(len(order), named))
    return fig


def accuracy_panel(ax: Any, rows: list[Row], order: dict[str, int]) -> None:
    """Share of right answers with Wilson's 95 % interval: stated where answers are text, else exact."""
    name = "stated" if any(r["stated"] is not None for r in rows) else "exact"
    ax.set_ylabel(f"{name}, % (95 %)")
    ax.set_ylim(-3, 103)
    for policy, members in by_policy(rows).items():
        style = style_of(order[policy])
        values = [100 * r[name] for r in members]
        lows, highs = zip(*([100 * x for x in r[f"{name}_95"]] for r in members))
        if members[0]["keep"] is None:
            ax.axhline(values[0], label=policy, color=style["color"], linestyle="--")
            ax.axhspan(lows[0], highs[0], color=style["color"], alpha=0.12, linewidth=0)
            continue
        # A little to the side, so that intervals do not hide one another.
        shift = 0.002 * (order[policy] - len(order) / 2)
        error = [[v - low for v, low in zip(values, lows)], [high - v for v, high in zip(values, highs)]]
        x = [r["kept_fraction"] + shift for r in members]
        ax.errorbar(x, values, yerr=error, label=policy, capsize=2, elinewidth=0.8, **style)


def time_panel(ax: Any, rows: list[Row], order: dict[str, int]) -> None:
    """Median time to first token."""
    ax.set_ylabel("time to first token, ms")
    for policy, members in by_policy(rows).items():
        style, values = style_of(order[policy]), [r["ttft_ms"] for r in members]
        if members[0]["keep"] is None:
            ax.axhline(values[0], label=policy, color=style["color"], linestyle="--")
        else:
            ax.plot([r["kept_fraction"] for r in members], values, label=policy, **style)
    ax.set_ylim(bottom=0)


def by_policy(rows: list[Row]) -> dict[str, list[Row]]:
    """Each policy's rows, by what they kept."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["policy"], []).append(row)
    return {policy: sorted(members, key=lambda r: r["kept_fraction"]) for policy, members in found.items()}


def style_of(index: int) -> dict[str, Any]:
    return {"color": f"C{index % 10}", "marker": MARKERS[index % len(MARKERS)], "markersize": 4}


def png(fig: Any) -> bytes:
    """The figure's bytes, the same for the same figure."""
    data = io.BytesIO()
    fig.savefig(data, format="png", dpi=120, metadata={"Software": None})
    return data.getvalue()

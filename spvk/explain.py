"""One self-contained HTML page that shows what a prefill read, what it dropped, and why; pure, no device.

Prompts are hostile text: all of it is escaped, characters that reorder or hide others are spelled out, and
the page's own content policy forbids it to load anything or to run any script but the one it came with.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike, NDArray

from .heat import LEVELS, levels, ranks
from .specprefill import Settings, positions_of

PHASES = ("load", "score", "select", "prefill", "decode")
STATUS_NAMES = {True: "kept", False: "dropped"}
# Controls but tab and line feed, what steers the writing direction, separators, what has no width, and tags;
# not the joiners U+200C and U+200D, which writing needs.
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\U000e0000-\U000e007f]"
)


@dataclass(frozen=True, eq=False)
class Account:
    """What the page is made from."""

    report: Mapping[str, Any]
    """The report of `spvk prefill --json`."""
    ids: Sequence[int]
    """The prompt's token ids [n]."""
    pieces: Sequence[bytes]
    """The bytes of each prompt token [n]; a character may be spread over several."""
    importance: ArrayLike | None
    """float64 [n] as the draft scored; None where it did not."""
    chunk_scores: ArrayLike | None = None
    """float64 [chunks] by which chunks were ranked; NaN or None where there was no ranking."""
    head_shares: ArrayLike | None = None
    """float64 [attention layers, heads], summing to 1: each head's part of the score of what was read."""
    blocks: Sequence[int] = ()
    """The attention layers' numbers among all layers of the draft."""

    @property
    def kept(self) -> NDArray[np.bool_]:
        """bool [n]: what the target read."""
        kept = np.zeros(self.report["prompt_tokens"], dtype=bool)
        kept[positions_of(self.report["kept_spans"])] = True
        return kept

    @property
    def reasons(self) -> list[str]:
        """Why each token is protected [n]; `guard` at both ends of a selection, empty for no reason."""
        n, settings = self.report["prompt_tokens"], self.report["settings"]
        reasons = [""] * n
        if self.report["status"] == "active":
            first, last = min(n, settings["guard_first"]), min(n, settings["guard_last"])
            reasons = ["guard"] * first + reasons[first:]
            reasons[n - last :] = ["guard"] * last
        for start, end, reason in self.report.get("protected_spans", ()):
            reasons[start:end] = [reason] * (end - start)
        return reasons


def page(account: Account) -> str:
    """The page as HTML: no file, address or font besides it is needed."""
    folder = files("spvk") / "templates"
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["visible"] = visible
    html, style, script = (
        (folder / f"explain.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    template = environment.from_string(html)
    report = account.report
    return template.render(
        r=report,
        style=Markup(style),
        script=Markup(script),
        style_hash=_digest(style),
        script_hash=_digest(script),
        scored=account.importance is not None,
        prompt=Markup(prompt_html(account)),
        protected=_protected_rows(account),
        chunks=chunk_rows(account),
        chart=Markup(chart(account)) if account.importance is not None else "",
        share=_share_kept(account),
        heads=head_rows(account),
        numbers=[(_words(k), _value(v)) for k, v in report["numbers"].items()],
        times=_times(report),
        settings=_settings(report["settings"]),
        answer=visible(report["text"]),
        levels=range(LEVELS),
    )


def _digest(text: str) -> str:
    """The source that a content policy allows `text` by."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def visible(text: str) -> str:
    """`text` with what is not seen, or changes how its neighbours are seen, spelled: \\x1b, \\u202e."""
    return _UNSEEN.sub(lambda m: m[0].encode("unicode_escape").decode(), text)


def groups(pieces: Sequence[bytes]) -> Iterator[tuple[int, int, str]]:
    """Tokens [start, end) and their text: as few tokens at a time as make whole characters.

    Bytes that are no UTF-8 are spelled \\xff.
    """
    start, held = 0, b""
    for i, piece in enumerate(pieces):
        held += piece
        text, used = codecs.utf_8_decode(held, "backslashreplace", i + 1 == len(pieces))
        if used == len(held):
            yield start, i + 1, visible(text)
            start, held = i + 1, b""


def prompt_html(account: Account) -> str:
    """The prompt: <del> around each dropped run, a label on each protected one, a <span> for each token.

    Runs end where kept turns to dropped, or the reason changes, even inside a character: then its bytes are
    spelled, as the target does not get the character either.
    """
    kept, reasons = account.kept, account.reasons
    order = None if account.importance is None else ranks(account.importance)
    depth = None if order is None else levels(account.importance)
    parts = []
    for (read, reason), run in groupby(range(len(kept)), key=lambda i: (bool(kept[i]), reasons[i])):
        run = list(run)
        inner = "".join(
            _token(account, run[0] + a, run[0] + b, text, STATUS_NAMES[read], order, depth)
            for a, b, text in groups([account.pieces[i] for i in run])
        )
        if not read:
            parts.append(f"<del>{inner}</del>")
        elif reason:
            parts.append(f'<span class="p" id="p{run[0]}"><b>{escape(reason)}</b>{inner}</span>')
        else:
            parts.append(inner)
    return "".join(parts)


def _token(
    account: Account, start: int, end: int, text: str, status: str,
    order: NDArray | None, depth: NDArray | None,
) -> str:
    """One group of tokens; its title is what the pointer and the arrow keys show."""
    some = slice(start, end)
    name = f"token {start}" if end == start + 1 else f"tokens {start} to {end - 1}"
    ids = ", ".join(str(int(i)) for i in account.ids[some])
    title, classes = f"{name}, id {ids}, {status}", []
    if order is not None:
        best = start + int(np.argmax(order[some]))
        top = 100 * (1 - order[best])
        title += f", score {float(np.asarray(account.importance)[best]):.4g}, among the top {top:.3g} %"
        classes.append(f"h{depth[best]}")
    if "\n" in text:
        classes.append("n")
    return f'<span class="{" ".join(classes)}" title="{title}">{escape(text)}</span>'


def chunk_rows(account: Account) -> list[dict[str, Any]]:
    """Each chunk of `settings.chunk` tokens: start, end, score (None: unscored), how many are kept, text."""
    n, size = account.report["prompt_tokens"], account.report["settings"]["chunk"]
    kept, scores = account.kept, _chunk_scores(account)
    rows = []
    for i, start in enumerate(range(0, n, size)):
        end = min(start + size, n)
        text = b"".join(account.pieces[start:end]).decode("utf-8", "replace")
        rows.append({
            "start": start, "end": end, "kept": int(kept[start:end].sum()),
            "score": None if scores is None else float(scores[i]), "text": _excerpt(text),
        })
    return rows


def _chunk_scores(account: Account) -> NDArray | None:
    """The scores that ranked the chunks, else the importance's means, else None."""
    if account.chunk_scores is not None and np.isfinite(account.chunk_scores).all():
        return np.asarray(account.chunk_scores)
    if account.importance is None:
        return None
    values, size = np.asarray(account.importance, np.float64), account.report["settings"]["chunk"]
    return np.array([values[at : at + size].mean() for at in range(0, values.size, size)])


def chart(account: Account) -> str:
    """The chunks' scores along the prompt as SVG bars, with what is read marked below them.

    Heights go by the square root: the prompt's end and its start often score ten times what lies between.
    """
    n, rows = account.report["prompt_tokens"], chunk_rows(account)
    top = max(row["score"] for row in rows) or 1.0
    width, height, left = 960, 150, 52
    middle = height // 2

    def x(token: float) -> float:
        return round(left + (width - left) * token / n, 2)

    out = [f'<text class="axis" x="{left - 6}" y="12" text-anchor="end">{top:.2g}</text>',
           f'<text class="axis" x="{left - 6}" y="{height}" text-anchor="end">0</text>',
           f'<text class="axis" x="{left - 6}" y="{middle + 4}" text-anchor="end">{top / 4:.2g}</text>',
           f'<path class="rule" d="M{left} {height}.5H{width}M{left} {middle}.5H{width}M{left} .5H{width}"/>']
    for row in rows:
        tall = round((max(0.0, row["score"]) / top) ** 0.5 * height, 2)
        kind = {0: "none", row["end"] - row["start"]: "all"}.get(row["kept"], "some")
        gap = min(1.0, 0.2 * (x(row["end"]) - x(row["start"])))
        out.append(
            f'<rect class="{kind}" x="{x(row["start"])}" width="{x(row["end"]) - x(row["start"]) - gap:.2f}" '
            f'y="{height - tall:.2f}" height="{tall}"><title>tokens {row["start"]} to {row["end"] - 1}: '
            f'score {row["score"]:.4g}, {row["kept"]} kept</title></rect>'
        )
    out += [f'<rect class="all" x="{x(a)}" width="{max(1.0, x(b) - x(a)):.2f}" y="{height + 5}" height="7"/>'
            for a, b in account.report["kept_spans"]]
    out += [f'<rect class="kept-always" x="{x(a)}" width="{max(1.5, x(b) - x(a)):.2f}" y="{height + 14}" '
            f'height="4"><title>{escape(why)}</title></rect>' for a, b, why in protected_spans(account)]
    step = _tick(n)
    out += [f'<text class="axis" x="{x(t)}" y="{height + 34}" text-anchor="middle">{t:,}</text>'
            for t in range(0, max(1, n - step // 3), step)]
    return "".join(out)


def _tick(n: int) -> int:
    """A round distance of axis labels: 1, 2 or 5 times a power of ten, at most ten of them."""
    base = 10 ** max(0, len(str(n)) - 2)
    return next(base * k for k in (1, 2, 5, 10, 20) if n <= 10 * base * k)


def head_rows(account: Account) -> list[dict[str, Any]]:
    """Each attention layer's number, share, and heads: their shares in per cent and their shades, 0 to 9.

    Shades go by the square root of the share beside the largest; none where there is no tally.
    """
    if account.head_shares is None:
        return []
    shares = np.asarray(account.head_shares, np.float64)
    shades = np.floor((LEVELS - 1) * np.sqrt(shares / shares.max()) + 0.5).astype(int)
    return [
        {"block": block, "share": float(100 * row.sum()),
         "heads": [{"share": float(100 * x), "shade": int(k)} for x, k in zip(row, depth)]}
        for block, row, depth in zip(account.blocks, shares, shades)
    ]


def protected_spans(account: Account) -> list[tuple[int, int, str]]:
    """Runs [start, end) of protected and guarded tokens with their reason, by position."""
    reasons, spans = account.reasons, []
    for reason, run in groupby(range(len(reasons)), key=reasons.__getitem__):
        run = list(run)
        spans += [(run[0], run[-1] + 1, reason)] if reason else []
    return spans


def _protected_rows(account: Account) -> list[dict[str, Any]]:
    return [
        {"start": a, "end": b, "reason": why,
         "text": _excerpt(b"".join(account.pieces[a:b]).decode("utf-8", "replace"))}
        for a, b, why in protected_spans(account)
    ]


def _excerpt(text: str, most: int = 70) -> str:
    line = " ".join(visible(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _share_kept(account: Account) -> float | None:
    """What the target read of the summed importance, 0 to 1; None without a score."""
    if account.importance is None:
        return None
    values = np.asarray(account.importance, np.float64)
    return float(values[account.kept].sum() / values.sum()) if values.sum() > 0 else None


def _times(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Milliseconds by phase, and each as a share (per cent) of the longest."""
    times = [(name, report["timings"][f"{name}_ms"]) for name in PHASES]
    longest = max(ms for _, ms in times) or 1.0
    return [{"name": name, "ms": ms, "share": round(100 * ms / longest, 2)} for name, ms in times]


def _settings(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every setting, and whether it differs from the default."""
    usual = Settings().as_dict()
    return [{"name": _words(name), "value": _value(v), "changed": v != usual.get(name)}
            for name, v in values.items()]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _value(value: Any) -> str:
    """A setting or a number for a person."""
    if isinstance(value, Mapping):
        return ", ".join(f"{_words(str(k))} {_value(v)}" for k, v in value.items()) or "none"
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1e3 <= abs(value) < 1e15 else f"{value:.5g}"
    return visible(str(value))

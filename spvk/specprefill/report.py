"""What a run says about itself: the JSON of `spvk prefill --json`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from spvk.specprefill.decide import Decision
from spvk.specprefill.protect import Structure
from spvk.specprefill.selection import Selection
from spvk.specprefill.settings import Settings


@dataclass(frozen=True)
class Timings:
    """Wall times of the phases in milliseconds; a phase that did not run is 0."""

    load_ms: float = 0.0
    score_ms: float = 0.0
    select_ms: float = 0.0
    prefill_ms: float = 0.0
    """Up to and including the choice of the first answer token."""
    decode_ms: float = 0.0
    """The answer tokens after the first."""

    @property
    def ttft_ms(self) -> float:
        """Time to first token: score + select + prefill. Scoring is part of it; loading the models is not."""
        return self.score_ms + self.select_ms + self.prefill_ms

    def as_dict(self) -> dict[str, float]:
        """The six times by name, in milliseconds to three decimals."""
        return {name: round(float(ms), 3) for name, ms in (asdict(self) | {"ttft_ms": self.ttft_ms}).items()}


def status_of(selection: Selection, settings: Settings) -> str:
    """`disabled` (mode off), `kept_all` (scored, but every token was kept) or `active`."""
    if settings.mode == "off":
        return "disabled"
    return "kept_all" if selection.kept_tokens == selection.prompt_tokens else "active"


def report_dict(
    selection: Selection,
    settings: Settings,
    timings: Timings,
    *,
    tokens: Iterable[int],
    text: str,
    target: Any,
    draft: Any,
    device: Any,
    precision: str = "exact",
    cache_type: str = "f32",
    decision: Decision | None = None,
    structure: Structure | None = None,
) -> dict[str, Any]:
    """The report as plain JSON values, keys in the order they are documented.

    `tokens` are the answer's token ids and `text` the answer; `target`, `draft` and `device` are what the
    caller knows of them (a name or a mapping of plain values; `draft` None without one) and pass unchanged.
    With a `decision` its status is the report's, and `reason` and `numbers` follow at the end; with a
    `structure` so do its `protected_spans`, [start, end, reason] each.
    """
    report = {
        "status": decision.status if decision is not None else status_of(selection, settings),
        "prompt_tokens": selection.prompt_tokens,
        "kept_tokens": selection.kept_tokens,
        "kept_fraction": selection.kept_fraction,
        "kept_spans": [list(span) for span in selection.spans],
        "selection_sha256": selection.sha256,
        "tokens": [int(token) for token in tokens],
        "text": text,
        "timings": timings.as_dict(),
        "settings": settings.as_dict(),
        "target": target,
        "draft": draft,
        "device": device,
        "precision": precision,
        "cache_type": cache_type,
    }
    if decision is not None:
        report |= {"reason": decision.reason, "numbers": dict(decision.numbers)}
    if structure is not None:
        report["protected_spans"] = [list(span) for span in structure.spans]
    return report

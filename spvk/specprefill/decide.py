"""Whether a prompt is prefilled sparsely, and why: the status of a request with the numbers behind it.

The order of events: `before` scoring (None: go on), scoring (`failed` when it raises), choosing, `after`.
Only mode auto skips or falls back for anything but a lost protected token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spvk.specprefill.cost import Prediction
from spvk.specprefill.protect import Structure, verify
from spvk.specprefill.selection import Selection
from spvk.specprefill.settings import Settings

STATUSES = ("active", "kept_all", "disabled", "skipped_min_tokens", "skipped_tool_guard",
            "skipped_break_even", "fell_back_dense")


@dataclass(frozen=True)
class Decision:
    """What was decided."""

    status: str
    """One of STATUSES; all but `active` mean that the target reads every token."""
    reason: str
    """One line for a person."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Plain values for JSON."""

    @property
    def is_sparse(self) -> bool:
        return self.status == "active"

    def as_dict(self) -> dict[str, Any]:
        return {"status": self.status, "reason": self.reason, "numbers": dict(self.numbers)}


def before(
    n: int, settings: Settings, structure: Structure | None = None, prediction: Prediction | None = None
) -> Decision | None:
    """The decision for a prompt of `n` tokens that no score can change; None: score it.

    `prediction` is None where too little was measured: then nothing is declined for its cost.
    """
    if settings.mode == "off":
        return Decision("disabled", "mode is off", {"prompt_tokens": n})
    if settings.mode != "auto":
        return None
    if n < settings.min_tokens:
        reason = f"{n} tokens, sparse prefill begins at {settings.min_tokens}"
        return Decision("skipped_min_tokens", reason, {"prompt_tokens": n, "min_tokens": settings.min_tokens})
    if settings.tool_guard == "skip" and structure is not None and structure.tools:
        reason = f"{structure.tools}; tool guard is skip"
        return Decision("skipped_tool_guard", reason, {"prompt_tokens": n, "evidence": structure.tools})
    return _break_even(n, settings, prediction)


def _break_even(n: int, settings: Settings, prediction: Prediction | None) -> Decision | None:
    safety = settings.break_even_safety
    numbers: dict[str, Any] = {"prompt_tokens": n, "break_even_safety": safety}
    if settings.break_even is not None:  # the user knows better than any measurement
        least = settings.break_even * safety
        if n >= least:
            return None
        reason = f"{n} tokens, break-even was set to {least:g}"
        return Decision("skipped_break_even", reason, numbers | {"break_even": settings.break_even})
    if prediction is None or prediction.sparse_ms * safety < prediction.dense_ms:
        return None
    factor = f" x {safety:g} for safety" if safety != 1 else ""
    reason = f"sparse would take {prediction.sparse_ms:.0f} ms{factor}, dense {prediction.dense_ms:.0f} ms"
    return Decision("skipped_break_even", reason, numbers | prediction.as_dict())


def failed(error: Exception, n: int) -> Decision:
    """Scoring, or choosing, raised `error` on a prompt of `n` tokens."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return Decision("fell_back_dense", f"scoring failed: {reason}", {"prompt_tokens": n})


def after(
    selection: Selection, settings: Settings, structure: Structure | None = None,
    prediction: Prediction | None = None,
) -> Decision:
    """The decision once the tokens are chosen; `fell_back_dense` means that `selection` must not be used.

    `prediction` is for the kept tokens as they are now known; it goes into the numbers only.
    """
    numbers = _numbers(selection, settings, structure, prediction)
    loss = verify(selection, structure) if structure is not None else None
    if loss is not None:
        return Decision("fell_back_dense", str(loss), numbers | {"lost": loss._asdict()})
    if selection.kept_tokens == selection.prompt_tokens:
        return Decision("kept_all", f"all {selection.prompt_tokens} tokens were kept", numbers)
    evidence = selection.evidence
    least = settings.min_confidence
    if settings.mode == "auto" and evidence is not None and evidence.confidence < least:
        reason = f"flat scores: confidence {evidence.confidence:.3f}, expected at least {least:g}"
        return Decision("fell_back_dense", reason, numbers)
    share = 100 * selection.kept_fraction
    reason = f"kept {selection.kept_tokens} of {selection.prompt_tokens} tokens ({share:.1f} %)"
    return Decision("active", reason, numbers)


def _numbers(
    selection: Selection, settings: Settings, structure: Structure | None, prediction: Prediction | None
) -> dict[str, Any]:
    numbers: dict[str, Any] = {"prompt_tokens": selection.prompt_tokens, "kept_tokens": selection.kept_tokens}
    if selection.keep is not None:
        numbers["keep"] = selection.keep
    if selection.evidence is not None:
        numbers |= selection.evidence.as_dict() | {"min_confidence": settings.min_confidence}
    if structure is not None:
        numbers |= {"protected": structure.counts, "kind": structure.kind.name,
                    "code_share": structure.kind.code_share}
    return numbers | (prediction.as_dict() if prediction is not None else {})

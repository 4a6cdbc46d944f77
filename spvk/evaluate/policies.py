"""What is compared: a preset or a baseline, with options of its own, at each keep fraction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ..engine import BATCH
from ..errors import SpvkError
from ..gguf.mismatch import plain
from ..specprefill import Selection, Settings
from ..specprefill.presets import PRESETS
from .baselines import BASELINES, ORACLE, baseline

DENSE = "dense"
NAMES = (*PRESETS, DENSE, *BASELINES)
OWN = "preset"  # in place of a fraction: as much as the preset keeps by itself
Keep = float | str | None  # a fraction, OWN, or None: dense
FIXED = ("preset", "mode", "select", "keep")  # what the evaluation sets itself
OPTIONS = tuple(f.name for f in fields(Settings) if f.name not in FIXED)


@dataclass(frozen=True)
class Policy:
    """`NAME[:OPTION=VALUE…]`, say `v3:edges=peaks`; options are those of `spvk prefill`."""

    label: str
    name: str
    options: dict[str, str] = field(default_factory=dict)

    @property
    def preset(self) -> str:
        """A baseline's guards and budget are those of version 3.1, or, where it protects, of `auto`."""
        return self.name if self.name in PRESETS else "auto" if self.options.get("protect", "").lower() == "on" else "v3"

    def settings(self, keep: Keep) -> Settings:
        """Always sparse, since mode auto's way out would blur the comparison: the top `keep` of the chunks."""
        if keep is None:
            return Settings(mode="off", positions="original")
        fixed = {"preset": self.preset, "mode": "always"}
        fixed |= {} if keep == OWN else {"select": "chunk", "keep": keep}
        return Settings.resolve({**self.options, **fixed}, {})

    def keeps(self, fractions: list[float | str]) -> list[Keep]:
        return [None] if self.name == DENSE else list(fractions)

    @property
    def is_baseline(self) -> bool:
        return self.name in BASELINES

    @property
    def is_oracle(self) -> bool:
        return self.name == ORACLE


@dataclass(frozen=True)
class Plan:
    """What is run: it decides the numbers, but for the times."""

    policies: list[Policy]
    keeps: list[float | str]
    predict: int = 32
    """Tokens decoded where the answer is text; an answer of token ids has its own length."""
    raw: bool = False
    seed: int = 0
    batch: int = BATCH
    precision: str = "exact"
    cache_type: str = "f32"

    def as_dict(self) -> dict[str, Any]:
        names = ("predict", "raw", "seed", "batch", "precision", "cache_type")
        plain_values = {name: getattr(self, name) for name in names}
        return {"policies": [p.label for p in self.policies], "keep": self.keeps, **plain_values}

    @property
    def runs(self) -> list[tuple[Policy, Keep]]:
        """What each prompt goes through, dense first."""
        return [(p, keep) for p in self.policies for keep in p.keeps(self.keeps)]


def read_policies(text: str) -> list[Policy]:
    """`--policy`, names with commas between; dense comes first, as the others are compared with it."""
    policies = [read_policy(part.strip()) for part in text.split(",")]
    labels = [p.label for p in policies]
    if again := next((label for label in labels if labels.count(label) > 1), None):
        raise SpvkError(f"--policy: found {plain(again)} twice, expected each once")
    return sorted(policies, key=lambda p: p.name != DENSE)


def read_policy(text: str) -> Policy:
    name, *pairs = text.split(":")
    if name not in NAMES:
        raise SpvkError(f"--policy: found {plain(name)!r}, expected one of {', '.join(NAMES)}")
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or key not in OPTIONS or name == DENSE:
            raise SpvkError(
                f"--policy {plain(text)}: found {plain(pair)!r}, "
                f"expected {'no option' if name == DENSE else 'one of ' + ', '.join(OPTIONS) + ' and ='}"
            )
        if key in options:
            raise SpvkError(f"--policy {plain(text)}: found {key} twice, expected it once")
        options[key] = value.strip()
    policy = Policy(text, name, options)
    if name != DENSE:
        try:
            policy.settings(0.5)
        except SpvkError as error:
            raise SpvkError(f"--policy {plain(text)}: {error}") from None
    return policy


def read_keeps(text: str) -> list[float | str]:
    """`--keep`, fractions in (0, 1], or OWN, with commas between, each once."""
    keeps: list[float | str] = []
    for part in text.split(","):
        try:
            keep = OWN if part.strip() == OWN else float(part)
        except ValueError:
            keep = 0.0
        if not (keep == OWN or 0 < keep <= 1) or keep in keeps:
            expected = f"different fractions above 0, at most 1, or {OWN}"
            raise SpvkError(f"--keep: found {plain(part)!r}, expected {expected}")
        keeps.append(keep)
    return keeps


def baseline_selection(
    policy: Policy, settings: Settings, budget: Selection, seed: str, needed: Sequence[int] = ()
) -> Selection:
    """A baseline that keeps as many tokens as `budget` does, those `needed` first."""
    n = budget.prompt_tokens
    positions = baseline(
        policy.name,
        n,
        budget.kept_tokens,
        chunk=settings.chunk,
        guard_first=settings.guard_first,
        guard_last=settings.guard_last,
        seed=seed,
        needed=needed,
    )
    chunks = -(-n // settings.chunk)
    return Selection(n, positions, np.full(chunks, np.nan), np.zeros(chunks, dtype=bool))

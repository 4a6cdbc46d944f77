"""Presets: named sets of settings. What a preset does not name is as in `auto`, the defaults of `Settings`.

An option or an `SP_*` variable always beats the preset. A preset that keeps by `adaptive` gives way to an
explicit `keep` (as `select=chunk`) or `mass` (as `select=mass`), since it would otherwise read neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

AUTO: Mapping[str, Any] = MappingProxyType({})
"""Decides by itself how much to keep and where to cut (pieces of about a sentence: docs/QUALITY.md); protects a
chat's structure, which is what the boosts of version 3.1 were for."""

V3: Mapping[str, Any] = MappingProxyType({
    "select": "mass",
    "edges": "fixed", "chunk": 32,
    "protect": "off",
    "boost_first": 1.5, "boost_first_n": 64,
    "boost_last": 1.3, "boost_last_n": 128,
})
"""Version 3.1 of the description: min-max, boosts, mass of 0.85, fixed chunks of 32, 4 + 2 guard tokens."""

PAPER: Mapping[str, Any] = MappingProxyType({
    "select": "chunk",
    "edges": "fixed", "chunk": 32,
    "protect": "off",
    "lookahead": 7,          # generated tokens; with the last prompt token's query 8 rows
    "softmax": "prompt",
    "pool": 13,
    "guard_first": 0, "guard_last": 0, "halo": 0,
})
"""Speculative Prefill (arXiv 2502.02789): top fraction of 32-token chunks, nothing boosted.

The paper guards nothing, not even the last token, so neither does this; an unlucky prompt loses its
question. Its code has no default fraction: `keep` is the 0.3 of the other presets.
"""

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType({"auto": AUTO, "v3": V3, "paper": PAPER})


def effective(explicit: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """All settings: `explicit` ones over those of the preset they name, over the `defaults`."""
    values = {**defaults, **PRESETS[explicit.get("preset", defaults["preset"])], **explicit}
    if values["select"] == "adaptive" and "select" not in explicit:
        values["select"] = "chunk" if "keep" in explicit else "mass" if "mass" in explicit else "adaptive"
    return values

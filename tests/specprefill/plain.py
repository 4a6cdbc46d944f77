"""The presets in full, and version 3.1 by itself: what the policy does where no preset changes it."""

from __future__ import annotations

from typing import Any

from spvk.specprefill import Settings

V3 = {
    "preset": "v3",
    "mode": "auto",
    "select": "mass",
    "mass": 0.85,
    "keep": 0.3,
    "keep_floor": 0.2,
    "keep_ceiling": 0.5,
    "code_floor": 0.3,
    "max_keep": None,
    "window": None,
    "lookahead": 8,
    "heads": "all",
    "softmax": "all",
    "pool": 1,
    "normalise": "minmax",
    "chunk": 32,
    "edges": "fixed",
    "halo": None,
    "backbone": 0.0,
    "dense_ends": 0.0,
    "boost_first": 1.5,
    "boost_first_n": 64,
    "boost_last": 1.3,
    "boost_last_n": 128,
    "guard_first": 4,
    "guard_last": 2,
    "positions": "original",
    "dense_layers": 0,
    "gap_decay": "off",
    "protect": "off",
    "last_user": 64,
    "min_tokens": 256,
    "tool_guard": "skip",
    "min_confidence": 0.2,
    "spec_throughput": None,
    "break_even": None,
    "break_even_safety": 1.0,
}
"""What preset `v3` sets, in full."""
AUTO = {
    "preset": "auto", "select": "adaptive", "edges": "snapped", "chunk": 12, "protect": "on",
    "boost_first": 1.0, "boost_first_n": 0, "boost_last": 1.0, "boost_last_n": 0,
}  # fmt: skip
"""What preset `auto`, the default, sets otherwise."""


def v3(**changed: Any) -> Settings:
    """Settings of preset `v3`, but those that are `changed`."""
    return Settings(**{"preset": "v3", **changed})

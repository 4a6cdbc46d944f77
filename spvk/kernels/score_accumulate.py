"""Importance of a prompt's tokens: the sum of its score rows (one a lookahead step)."""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes
from .profile import Profile

KEYS = 1024  # a workgroup


def score_accumulate(profile: Profile, row: Buffer, importance: Buffer, step: Buffer, *,
                     context: int) -> Dispatch:
    """row [context], importance [context], float32: importance[key] += row[key] for keys < step.prompt.

    In score row 0 (step.row) the sum starts anew. Raises ValueError when a buffer is too small.
    """
    expect_bytes("score_accumulate", row=(row, 4 * context), importance=(importance, 4 * context))
    args = dict(row=row, importance=importance, step_params=step, context=context)
    return Dispatch("score_accumulate", (-(-context // KEYS), 1, 1), args,
                    {"LOCAL": profile.local, "KEYS": KEYS}, flops=context)


def reference(rows: np.ndarray) -> np.ndarray:
    """Sum of score rows [steps, prompt], in float64."""
    return rows.astype(np.float64).sum(0)

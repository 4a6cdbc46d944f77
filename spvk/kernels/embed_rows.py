"""Embedding: the rows of a matrix that tokens name, dequantised."""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch, Matrix
from ..shaders import typed
from .checks import expect_bytes
from .profile import Profile
from .weights import expect_matrix, piece_args


def embed_rows(profile: Profile, tokens: Buffer, w: Matrix, y: Buffer, step: Buffer, *,
               rows: int) -> list[Dispatch]:
    """tokens [rows] uint32, w [w.rows, w.k] -> y [rows, w.k] float32; the first step.tokens rows.

    One dispatch for each piece of w, which writes the rows whose token it holds. The caller checks tokens: a
    row whose token is w.rows or more is left as it was.
    Raises ValueError when a buffer is too small, or when shaders cannot read w (type, row length).
    """
    expect_matrix("embed_rows", w)
    expect_bytes("embed_rows", tokens=(tokens, 4 * rows), y=(y, 4 * rows * w.k))
    return [Dispatch(typed("embed_rows", w.type), (rows, 1, 1),
                     dict(tokens=tokens, y=y, step_params=step, **piece_args(w, first, n, buffer)),
                     {"LOCAL": profile.local}, flops=2 * rows * w.k)
            for first, n, buffer in w.pieces]


def reference(tokens: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The same from dequantised weights [n, k]."""
    return weights[tokens]

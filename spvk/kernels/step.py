"""The step parameters: the few numbers that change between replays of a recording (shaders' InStep)."""

from __future__ import annotations

import numpy as np

DTYPE = np.dtype([("tokens", "<u4"), ("past", "<u4"), ("prompt", "<u4"), ("row", "<u4")])


def pack(tokens: int, past: int = 0, prompt: int = 0, row: int = 0) -> np.ndarray:
    """One set of step parameters, an array of shape [1]."""
    return np.array([(tokens, past, prompt, row)], DTYPE)


def write(words: np.ndarray, tokens: int, past: int, prompt: int, row: int) -> None:
    """The same into a device buffer seen as uint32 [4]; nothing is allocated."""
    words[0], words[1], words[2], words[3] = tokens, past, prompt, row

"""The fixture models and their exact outputs (float64 NumPy on the dequantised weights)."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import numpy as np

from spvk.gguf import open_gguf

FIXTURES = Path(__file__).parent / "fixtures"
DRAFT = FIXTURES / "trained" / "pair-draft-Q4_K_M.gguf"
TARGET = FIXTURES / "trained" / "pair-target-Q4_K_M.gguf"
TINY = FIXTURES / "qwen35" / "tiny-draft-Q4_K_M.gguf"
MIXED = FIXTURES / "qwen35" / "tiny-draft-mixed.gguf"


@lru_cache(maxsize=None)
def exact(path: Path) -> dict[str, np.ndarray]:
    """The .npz beside a model: case/name -> array."""
    with np.load(path.with_suffix(".npz")) as z:
        return {k: z[k] for k in z.files}


def cases(path: Path) -> list[str]:
    return sorted({k.split("/")[0] for k in exact(path)})


def broken_draft(path: Path) -> Path:
    """Write the draft with one weight of layer 1 made NaN: it cannot score."""
    data = bytearray(DRAFT.read_bytes())
    norm = open_gguf(DRAFT).tensor("blk.1.post_attention_norm.weight")
    data[norm.offset : norm.offset + 4] = np.float32(np.nan).tobytes()
    path.write_bytes(data)
    return path


def prompts(length: int, facts: int, count: int) -> list[dict]:
    lines = (FIXTURES / "trained" / "prompts.jsonl").read_text().splitlines()
    found = [p for p in map(json.loads, lines) if (p["len"], p["facts"]) == (length, facts)]
    return found[:count]

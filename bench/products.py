"""The matrix products of a layer of qwen35, and random weights for them."""

from __future__ import annotations

import numpy as np
from blocks import dequantize, put_matrix, random_rows
from harness import Bench

from spvk.recording import Matrix
from spvk.synth import Shape

VOCABULARY = 248320  # of Qwen3.5
PRODUCTS = ("qkv_z", "alpha_beta", "ssm_out", "qkv", "attn_output", "gate_up", "ffn_down")


def product(s: Shape, name: str) -> tuple[int, int]:
    """(rows, columns) of a weight by name; those that multiply the same activations lie side by side."""
    inner, attended = s.value_heads * s.state, s.heads * s.head_dim
    return {
        "qkv_z": (2 * s.key_heads * s.state + 2 * inner, s.width),  # Gated DeltaNet
        "alpha_beta": (2 * s.value_heads, s.width),
        "ssm_out": (s.width, inner),
        "qkv": (2 * attended + 2 * s.kv_heads * s.head_dim, s.width),  # attention, queries with their gates
        "attn_output": (s.width, attended),
        "gate_up": (2 * s.feed_forward, s.width),
        "ffn_down": (s.width, s.feed_forward),
        "head": (VOCABULARY, s.width),
    }[name]


class Weight:
    """A random weight on the device, of which some rows can be had dequantised."""

    def __init__(self, bench: Bench, kind: str, rows: int, k: int, rng: np.random.Generator) -> None:
        self.kind, self.raw = kind, random_rows(kind, rows, k, rng)
        self.matrix: Matrix = put_matrix(bench, kind, self.raw)
        # some of the first, of the last, and from all over
        self.sample = np.r_[0:8, rows - 8 : rows, rng.integers(0, rows, 48)]

    def sampled(self) -> np.ndarray:
        """float32 [64, k]: the rows `sample`."""
        return dequantize(self.kind, self.raw[self.sample])

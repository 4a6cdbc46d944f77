"""The matrix products of a layer of qwen35, random weights for them, and a product that reads rounded rows."""

from __future__ import annotations

import numpy as np
from blocks import dequantize, put_matrix, random_rows
from harness import Bench

from spvk.kernels.matmul import matmul, reference
from spvk.kernels.quantize_rows import packed_bytes
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


class Rounded:
    """Rows [rows, k] that a kernel under measurement rounds, and a product with 64 columns that reads them."""

    KIND = "Q4_K"  # every class that rounds activations does so for products with it

    def __init__(self, bench: Bench, rng: np.random.Generator, rows: int, k: int) -> None:
        self.bench, self.rows = bench, rows
        self.weight, self.y = Weight(bench, self.KIND, 64, k, rng), bench.empty(rows, 64)
        self.packed = bench.put(np.zeros(packed_bytes(bench.profile, rows, k), np.uint8))

    def compare(self, exact: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """(found, exact) products, of what the rows [rows, k] should be."""
        floats = self.bench.empty(self.rows, exact.shape[1])  # not read
        step = self.bench.step(self.rows)
        self.bench.run(
            matmul(
                self.bench.profile,
                floats,
                self.weight.matrix,
                self.y,
                step,
                rows=self.rows,
                packed=self.packed,
            )
        )
        found = self.bench.get(self.y, self.rows, 64)[:, self.weight.sample]
        return [(found, reference(exact, self.weight.sampled()))]

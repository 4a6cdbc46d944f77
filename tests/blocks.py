"""Weights for kernel tests: random blocks of every GGML type, and matrices of them on the device."""

from __future__ import annotations

import numpy as np
from gguf import GGMLQuantizationType, quants

from spvk.gguf.types import BY_NAME
from spvk.recording import Matrix

# Byte offsets of the half-precision scales in a block; every other byte may have any value.
HALVES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82),
          "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,)}
FLOATS = ("F32", "F16", "BF16")


def random_rows(name: str, rows: int, k: int, rng: np.random.Generator,
                integers: bool = False) -> np.ndarray:
    """uint8 [rows, row bytes]: any quants and group scales; block scales 0.01 to 0.1, or 1 for integers."""
    if name in FLOATS:
        values = rng.integers(-100, 101, (rows, k)) if integers else rng.normal(size=(rows, k))
        return quants.quantize(values.astype(np.float32), GGMLQuantizationType[name]).view(np.uint8)
    kind = BY_NAME[name]
    raw = rng.integers(0, 256, (rows * k // kind.block_elements, kind.block_bytes), np.uint8)
    for at in HALVES[name]:
        scale = rng.uniform(0.01, 0.1, len(raw)) * rng.choice([-1, 1], len(raw))
        raw[:, at:at + 2] = np.where(integers, 1, scale).astype("<f2").view(np.uint8).reshape(-1, 2)
    return raw.reshape(rows, -1)


def dequantize(name: str, raw: np.ndarray) -> np.ndarray:
    """float32 [rows, k] by the gguf package."""
    return quants.dequantize(raw, GGMLQuantizationType[name])


def put_matrix(bench, name: str, raw: np.ndarray, cuts: tuple[int, ...] = ()) -> Matrix:
    """The rows on the device, in pieces that end before the rows named in `cuts`."""
    kind, (rows, row_bytes) = BY_NAME[name], raw.shape
    edges = (0, *cuts, rows)
    pieces = tuple((a, b - a, bench.put(raw[a:b], f"w{a}")) for a, b in zip(edges, edges[1:]))
    return Matrix("w", name, row_bytes // kind.block_bytes * kind.block_elements, rows, row_bytes, pieces)

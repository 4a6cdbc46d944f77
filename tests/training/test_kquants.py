"""K-quants against the gguf package's dequantisation."""

import gguf
import numpy as np
import pytest
from conftest import nmse
from gguf import quants

from training.kquants import quantise


def round_trip(x, kind):
    return quants.dequantize(quantise(x, kind), gguf.GGMLQuantizationType[kind])


@pytest.mark.parametrize("kind,budget", [("Q4_K", 0.0055), ("Q6_K", 0.0004)])
def test_normal_weights_keep_their_values(kind, budget):
    x = np.random.default_rng(0).standard_normal((64, 512), dtype=np.float32)
    assert nmse(round_trip(x, kind), x) < budget


def test_four_bits_are_better_than_the_simple_type():
    x = np.random.default_rng(1).standard_normal((64, 512), dtype=np.float32)
    simple = gguf.GGMLQuantizationType.Q4_1
    assert nmse(round_trip(x, "Q4_K"), x) < 0.9 * nmse(
        quants.dequantize(quants.quantize(x, simple), simple), x
    )


@pytest.mark.parametrize("kind", ["Q4_K", "Q6_K"])
def test_what_a_block_can_hold_comes_back(kind):
    grid = np.arange(16, dtype=np.float32) if kind == "Q4_K" else np.arange(-32, 32, dtype=np.float32)
    x = np.resize(grid, (2, 256)) / 8
    assert nmse(round_trip(x, kind), x) < 1e-4
    assert (round_trip(np.zeros((1, 256), np.float32), kind) == 0).all()
    for sign in (1, -1):
        same = np.full((1, 256), sign * 0.75, np.float32)
        assert np.abs(round_trip(same, kind) - same).max() < 2e-3

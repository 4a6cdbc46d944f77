"""Attention on cooperative matrices: `pytest -m coopmat`, on a driver that has them (bench/coopmat.sh sets one up)."""

from dataclasses import replace

import numpy as np
import pytest
from test_attention import data, run

from conftest import assert_close
from spvk.kernels.attention import attention, coop_spec, fits_coop, reference
from spvk.kernels.profile import Profile
from spvk.recording import Buffer

RDNA3 = Profile("coopmat", 64, 256, "fast", (16, 16, 16), 32, 65536)
BUDGET = 5e-7  # float16 queries, keys, values and probabilities


@pytest.fixture
def gpu(device) -> Profile:
    info = device.info
    assert info.matrix, f"{info.name} has no cooperative matrices"
    shared = max(info.shared_memory, 65536)  # lavapipe has it, whatever it says
    return Profile("coopmat", info.subgroup[1], 256, "fast", info.matrix, info.subgroup[1], shared)


@pytest.mark.coopmat
@pytest.mark.parametrize("cache", ["f32", "f16"])
@pytest.mark.parametrize("rows,past,context,heads,kv_heads,dim,gated", [
    (9, 0, 20, 4, 1, 64, False),      # a tile that is not full, keys that are fewer than a block
    (70, 58, 200, 2, 1, 256, True),   # several tiles and blocks, the draft model's head
    (33, 64, 97, 6, 2, 128, True),    # groups of three; a block that is not full
    (40, 1, 64, 3, 3, 192, False)])  # groups of one  # fmt: skip
def test_matches_twin(bench, gpu, rows, past, context, heads, kv_heads, dim, gated, cache):
    gpu = replace(gpu, cache=cache)
    assert fits_coop(gpu, dim)
    q, k, v, gate = data(rows, heads, kv_heads, dim, context, gated)
    k[:, past + rows :], v[:, past + rows :] = np.nan, np.nan
    k, v = k.astype("f2" if cache == "f16" else "f4"), v.astype("f2" if cache == "f16" else "f4")
    out = run(bench, q, k, v, past, gate, gpu)
    assert_close(out, reference(q, k, v, past, gate), BUDGET)
    some = run(bench, q, k, v, past, gate, gpu, tokens=rows - 2)
    assert np.array_equal(some[:-2], out[:-2]) and np.isnan(some[-2:]).all()


@pytest.mark.coopmat
def test_rounded_operands_are_all_that_is_lost(bench, gpu):
    """Values of few bits: queries, keys and values are exact in float16, and equal scores make exact means."""
    rng = np.random.default_rng(2)
    k = rng.integers(-4, 5, (1, 256, 64)).astype(np.float32)
    v = np.broadcast_to(np.arange(256, dtype=np.float32)[None, :, None], (1, 256, 64))
    out = run(bench, np.zeros((256, 1, 64), np.float32), k, v, 0, profile=gpu)
    assert np.array_equal(out, np.broadcast_to(np.arange(256)[:, None] / 2, (256, 64)).astype(np.float32))
    q = rng.integers(-4, 5, (256, 1, 64)).astype(np.float32)
    ones = run(bench, q, k, np.ones_like(v), 0, profile=gpu)
    assert np.abs(ones - 1).max() <= 1e-6


@pytest.mark.coopmat
def test_extremes_and_nan_stay_apart(bench, gpu):
    """One-hot softmaxes of scores of +-1000; a NaN key reaches exactly the rows that see it."""
    q, k = np.full((40, 1, 64), 8, np.float32), np.full((1, 200, 64), -1000 / 64, np.float32)
    v = np.random.default_rng(0).normal(size=k.shape).astype(np.float16).astype(np.float32)
    k[0, 70] = 1000 / 64
    assert np.array_equal(run(bench, q, k, v, 150, profile=gpu), np.broadcast_to(v[0, 70], (40, 64)))
    k[0, 160, 3] = np.nan
    out = run(bench, q, k, v, 150, profile=gpu)
    assert np.isfinite(out[:10]).all() and np.isnan(out[10:]).all()


def test_where_it_is_taken():
    def module(profile, rows, dim=256):
        b = [Buffer(x, 2**30) for x in "qkvys"]
        sizes = dict(rows=rows, heads=8, kv_heads=2, dim=dim, context=4096)
        return attention(profile, *b, **sizes)[0].module

    assert module(RDNA3, 8) == "attention.coop" and module(RDNA3, 7) == "attention"
    assert module(RDNA3, 512, 72) == "attention.tiles"  # columns that are not staged whole
    assert module(replace(RDNA3, precision="exact"), 512) == "attention.tiles"
    assert module(replace(RDNA3, shared=49152), 512) == "attention.tiles"
    assert module(replace(RDNA3, shared=49152), 512, 64) == "attention.coop"
    assert coop_spec(RDNA3) == {"SUBGROUP": 32, "M": 16, "N": 16, "K": 16, "WAVE_ROWS": 32}
    assert coop_spec(replace(RDNA3, matrix=(8, 8, 8), wave=8))["WAVE_ROWS"] == 16

"""Kernels over a KV cache of float16: the same as over its values in float32, and what is stored there."""

from dataclasses import replace

import numpy as np
import pytest
from test_attention import data, run
from test_norm_rope_store import POSITIONS, Store
from test_norm_rope_store import data as heads_data
from test_scores import Layer, maximum
from test_scores import data as score_data

from conftest import assert_close
from spvk.kernels.attention import reference
from spvk.kernels.norm_rope_store import norm_rope_store
from spvk.kernels.profile import CPU, Profile
from spvk.recording import Buffer

SCALAR = Profile("scalar", 32, 64)
PLAIN, HALF = {"cpu": CPU, "scalar": SCALAR}, {p.name: replace(p, cache="f16") for p in (CPU, SCALAR)}


@pytest.mark.parametrize("name,rows,past,heads,kv_heads,dim,context,split", [
    ("cpu", 1, 300, 4, 1, 64, 301, False),     # decode, through views
    ("cpu", 13, 25, 3, 3, 8, 40, False),       # the smallest head: a texel holds a row
    ("cpu", 7, 126, 4, 2, 72, 200, False),     # an odd number of quads over two rows of texels
    ("scalar", 5, 130, 8, 2, 256, 160, False),
    ("scalar", 3, 254, 6, 2, 72, 700, True),   # split keys
    ("scalar", 70, 58, 2, 1, 256, 200, False), # tiles
    ("scalar", 33, 64, 6, 2, 72, 97, False)])  # fmt: skip
def test_attention_matches_twin(bench, name, rows, past, heads, kv_heads, dim, context, split):
    q, k, v, gate = data(rows, heads, kv_heads, dim, context, True)
    k, v = k.astype(np.float16), v.astype(np.float16)
    k[:, past + rows :], v[:, past + rows :] = np.nan, np.nan
    got = run(bench, q, k, v, past, gate, HALF[name], split=split)
    assert_close(got, reference(q, k, v, past, gate), 1e-12)
    wide = run(bench, q, k.astype(np.float32), v.astype(np.float32), past, gate, PLAIN[name], split=split)
    assert np.array_equal(got, wide)


@pytest.mark.parametrize("name", HALF)
@pytest.mark.parametrize("heads,kv_heads,dim,context,past", [(4, 2, 72, 700, 600), (8, 1, 64, 300, 255)])
def test_scores_match_those_of_float32(bench, name, heads, kv_heads, dim, context, past):
    q, k = score_data(2, heads, kv_heads, dim, context, past + 2)
    rows, best = [], []
    for profile, kind in ((PLAIN[name], np.float32), (HALF[name], np.float16)):
        layer, row = (
            Layer(bench, q, k.astype(np.float16).astype(kind), past, prompt=past, profile=profile),
            None,
        )
        rows.append(layer.rows()[:, : past + 2])
        row = bench.empty(context)
        bench.run(layer.max_into(row, first=True))
        best.append(bench.get(row, context)[:past])
    assert np.array_equal(*rows) and np.array_equal(*best)
    exact = maximum.reference(q[-1], k.astype(np.float16).astype(np.float32), past + 2, past)
    assert np.abs(best[0] - exact).max() <= 1e-6


@pytest.mark.parametrize("local", [8, 64])
@pytest.mark.parametrize("heads,kv_heads,dim,rotary,pairing", [
    (4, 2, 64, 64, "adjacent"), (3, 1, 72, 20, "half"), (4, 1, 256, 64, "half"), (2, 1, 8, 6, "adjacent")])  # fmt: skip
def test_keys_and_values_are_stored_rounded_to_nearest(bench, heads, kv_heads, dim, rotary, pairing, local):
    rows, caches = len(POSITIONS), []
    q, k, v = heads_data(rows, heads, kv_heads, dim, False)
    weight = bench.put(np.random.default_rng(1).normal(size=dim).astype(np.float32))
    for cache, kind in (("f32", np.float32), ("f16", np.float16)):
        store = Store(bench, heads, kv_heads, dim, rows + 5, rotary, pairing=pairing, k_weight=weight)
        store.caches = [bench.put(np.full((kv_heads, rows + 5, dim), np.nan, kind)) for _ in range(2)]
        out = store.run(q, k, v, POSITIONS, past=3, profile=Profile("cpu", 8, local, cache=cache))
        shape = kv_heads, rows + 5, dim
        caches.append([out, *(bench.get(buffer, *shape, dtype=kind) for buffer in store.caches)])
    (out, *wide), (same, *halves) = caches
    assert np.array_equal(out, same)
    for full, half in zip(wide, halves):
        assert np.array_equal(full.astype(np.float16), half, equal_nan=True)


def test_pairs_that_share_no_word_are_refused():
    sizes = dict(rows=1, heads=2, kv_heads=1, dim=64, rotary=62, context=4, eps=0.0)
    with pytest.raises(ValueError, match="rotary 62, expected a multiple of 4 for a float16 cache"):
        norm_rope_store(HALF["cpu"], *[Buffer("x", 64)] * 9, **sizes)

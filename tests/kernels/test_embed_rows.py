import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants

from blocks import dequantize, put_matrix, random_rows
from spvk.kernels.embed_rows import embed_rows, reference
from spvk.kernels.profile import Profile
from spvk.shaders import WEIGHT_TYPES

ROUNDING = 2.0**-23  # as a share of the row's largest weight: by so much a fused multiply-add may differ


def embed(bench, name, raw, tokens, rows=None, cuts=(), profile=None):
    k = dequantize(name, raw[:1]).shape[1]
    y = bench.empty(len(tokens), k)
    w, step = put_matrix(bench, name, raw, cuts), bench.step(len(tokens) if rows is None else rows)
    ids = bench.put(np.array(tokens, np.uint32))
    bench.run(embed_rows(profile or bench.profile, ids, w, y, step, rows=len(tokens)))
    return bench.get(y, len(tokens), k)


def assert_rounded(got, exact):
    assert np.isfinite(got).all()
    assert (np.abs(got - exact) <= ROUNDING * np.abs(exact).max(1, keepdims=True)).all()


@pytest.mark.parametrize("name", WEIGHT_TYPES)
def test_every_type_as_gguf_dequantises_it(bench, name):
    """Row sizes of 1 and 3 blocks, so that rows start at every alignment that the type allows."""
    rng = np.random.default_rng(1)
    for k in (256, 768):
        raw = random_rows(name, 9, k, rng)
        tokens = [8, 0, 3, 3, 7, 1, 2]
        assert_rounded(embed(bench, name, raw, tokens), reference(tokens, dequantize(name, raw)))


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_quantised_values_and_short_rows(bench, name):
    values = np.random.default_rng(2).normal(size=(5, 96)).astype(np.float32)
    raw = quants.quantize(values, GGMLQuantizationType[name])
    got = embed(bench, name, raw, [4, 2, 0, 1, 3])
    assert_rounded(got, dequantize(name, raw)[[4, 2, 0, 1, 3]])
    assert np.abs(got - values[[4, 2, 0, 1, 3]]).max() < 0.6  # near what was quantised


@pytest.mark.parametrize("profile", [Profile("cpu", 8, 32), Profile("scalar", 8, 256)])
def test_pieces_and_workgroup_sizes(bench, profile):
    raw = random_rows("Q6_K", 20, 512, np.random.default_rng(3))
    tokens = [0, 6, 7, 12, 13, 19, 5]
    got = embed(bench, "Q6_K", raw, tokens, cuts=(7, 13), profile=profile)
    assert_rounded(got, dequantize("Q6_K", raw)[tokens])


def test_rows_beyond_the_step_and_foreign_tokens_are_untouched(bench):
    raw = random_rows("F16", 3, 8, np.random.default_rng(4))
    got = embed(bench, "F16", raw, [2, 3, 2**32 - 1, 1, 1], rows=4)
    assert np.array_equal(got[[0, 3]], dequantize("F16", raw)[[2, 1]])
    assert np.isnan(got[[1, 2, 4]]).all()

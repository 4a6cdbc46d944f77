"""What the presets add to the scores: pooling, the softmax over the prompt alone, normalisations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from specprefill.plain import v3
from spvk.errors import SpvkError
from spvk.specprefill import choose, normalise, pool, reduce_rows
from spvk.specprefill.importance import over_prompt

HOWS = ["minmax", "percentile", "zscore"]


def test_pool_counts_the_zeros_beyond_the_ends():
    assert_allclose(pool([3.0, 0.0, 6.0, 3.0], 3), [1.0, 3.0, 3.0, 3.0], rtol=1e-15)
    assert_allclose(pool(np.ones(5), 13), np.full(5, 5 / 13), rtol=1e-15)
    assert_array_equal(pool([1.5, 2.5], 1), [1.5, 2.5])
    assert_allclose(pool([7.0], 3), [7 / 3])


@given(st.integers(1, 40), st.sampled_from([1, 3, 5, 13]))
def test_pool_is_the_plain_average(n, width):
    scores = np.random.default_rng(n).random((2, n))
    padded = np.pad(scores, ((0, 0), (width // 2, width // 2)))
    want = np.stack([padded[:, i : i + width].sum(1) / width for i in range(n)], axis=1)
    assert_allclose(pool(scores, width), want, rtol=1e-13)


def test_a_softmax_over_the_prompt_alone():
    logits = np.array([[1.0, 2.0, 3.0, 9.0], [0.0, 0.0, 1.0, -3.0]])
    rows = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    want = np.exp(logits[:, :3]) / np.exp(logits[:, :3]).sum(1, keepdims=True)
    assert_allclose(over_prompt(rows[:, :3]), want, rtol=1e-14)
    assert_array_equal(over_prompt([[0.0, 0.0], [0.5, 1.5]]), [[0.0, 0.0], [0.25, 0.75]])


def test_the_paper_renormalises_and_pools_each_head_before_the_maximum():
    # one layer, two heads, three prompt keys; the second step sees a generated token's key as well
    first = np.array([[[0.6, 0.3, 0.1], [0.0, 0.0, 1.0]]])
    second = np.array([[[0.1, 0.1, 0.2, 0.6], [0.2, 0.0, 0.2, 0.6]]])
    got = reduce_rows([first, second], 3, softmax="prompt", width=3)
    step0 = np.maximum([0.9, 1.0, 0.4], [0.0, 1.0, 1.0]) / 3
    step1 = np.maximum([0.5, 1.0, 0.75], [0.5, 1.0, 0.5]) / 3
    assert_allclose(got, (step0 + step1) / 2, rtol=1e-14)
    assert_allclose(reduce_rows([first, second], 3), np.add([0.6, 0.3, 1.0], [0.2, 0.1, 0.2]) / 2, rtol=1e-14)


def test_percentile_is_not_ruled_by_one_outlier():
    scores = np.r_[np.arange(200.0), 1e6]
    got = normalise(scores, "percentile")
    assert_allclose(got[:3], 0.0)  # the 1st percentile lies at 2
    assert_allclose(got[100], 0.5, atol=1e-12)
    assert_array_equal(got[198:], 1.0)
    assert normalise(scores)[100] == 1e-4


def test_percentile_of_a_lone_peak_is_its_min_max():
    scores = np.zeros(1000)
    scores[7] = 5.0
    assert_array_equal(np.flatnonzero(normalise(scores, "percentile")), [7])


def test_zscore_is_deviations_above_the_mean():
    assert_allclose(normalise([1.0, 2.0, 3.0, 6.0], "zscore"), [0.0, 0.0, 0.0, 3 / np.sqrt(3.5)], rtol=1e-15)


@pytest.mark.parametrize("how", HOWS)
def test_equal_scores_are_worth_the_same(how):
    assert_array_equal(normalise(np.full(9, 0.3), how), np.ones(9))
    with pytest.raises(SpvkError, match="expected finite"):
        normalise([1.0, np.nan], how)


@example([0.0, 2.2250738585e-313], "zscore")  # squares that vanish
@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.sampled_from(HOWS))
def test_no_score_is_negative_and_the_order_stays(scores, how):
    got = normalise(scores, how)
    order = np.argsort(scores, kind="stable")
    assert np.isfinite(got).all() and got.min() >= 0 and (np.diff(got[order]) >= 0).all()


def test_choose_pools_and_normalises_as_set():
    scores = np.full(320, 0.01)
    scores[[63, 64]] = 1.0, 0.9
    one = {"select": "chunk", "keep": 0.1, "boost_first_n": 0, "boost_last_n": 0, "guard_first": 0}
    one["guard_last"] = 0
    assert choose(scores, v3(**one)).spans == [(32, 64)]
    assert choose(scores, v3(**one, pool=13)).spans == [(32, 64)]
    scores[[63, 64, 65]] = 0.9, 1.0, 0.0
    assert choose(scores, v3(**one)).spans == [(64, 96)]
    flat = np.zeros(320)
    flat[32] = 1.0  # pooled, six thirteenths of it lie in the chunk before
    got = choose(flat, v3(**one, pool=13)).chunk_scores
    assert_allclose(got[:3], [6 / 32, 7 / 32, 0.0])
    assert_allclose(choose(flat, v3(**one, pool=13), pooled=True).chunk_scores[:3], [0.0, 1 / 32, 0.0])


def test_percentile_and_zscore_reach_the_selection():
    scores = np.random.default_rng(1).lognormal(size=640)
    hashes = {choose(scores, v3(normalise=how)).sha256 for how in ("minmax", "percentile", "zscore")}
    assert len(hashes) == 3

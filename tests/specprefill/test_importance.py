"""Importance: reduction against the exact reference, joining, normalisation, boosts, and NaN by layer."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from specprefill.plain import v3
from spvk.errors import SpvkError
from spvk.specprefill import (
    boost,
    join,
    normalise,
    reduce_rows,
    require_finite,
    require_finite_layers,
)
from spvk.specprefill.windows import windows

# A shared machine may be slow at any moment: no example has a time limit.
unhurried = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
FIXTURE = Path(__file__).parents[1] / "fixtures" / "qwen35" / "tiny-draft-mixed.npz"


def test_reduce_rows_by_hand():
    first = [[[0.1, 0.9], [0.4, 0.6]], [[0.3, 0.7], [0.2, 0.8]]]  # [layers 2, heads 2, keys 2]
    second = [[[0.5, 0.2, 0.3], [0.1, 0.3, 0.6]], [[0.2, 0.1, 0.7], [0.1, 0.2, 0.7]]]  # one more key
    assert_array_equal(reduce_rows([first, second], 2), [(0.4 + 0.5) / 2, (0.9 + 0.3) / 2])


@pytest.mark.parametrize("case", ["n1", "n7", "n64", "n65", "n257", "n1000"])
def test_reduce_rows_against_the_exact_reference(case):
    data = np.load(FIXTURE)
    expected = data[f"{case}/importance"]
    steps = [data[f"{case}/attn_rows"]] + [data[f"{case}/attn_rows_step{i}"] for i in range(1, 5)]
    np.testing.assert_allclose(reduce_rows(steps, expected.size), expected, rtol=0, atol=1e-7)


def test_reduce_rows_needs_a_row():
    with pytest.raises(ValueError, match="no attention rows"):
        reduce_rows([], 3)


def test_nan_names_the_layer_and_the_token():
    rows = np.full((2, 3, 8), 0.125)
    rows[1, 2, 5] = np.nan
    with pytest.raises(SpvkError) as error:
        reduce_rows([rows], 8, layers=["blk.3", "blk.7"])
    found = "found nan at token 5 (1 of 24 scores)"
    assert str(error.value) == f"blk.7: {found}, expected finite attention scores"
    with pytest.raises(SpvkError, match="^attention layer 1: found nan at token 5"):
        reduce_rows([rows], 8)


@pytest.mark.parametrize("value, shown", [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_require_finite(value, shown):
    with pytest.raises(SpvkError) as error:
        require_finite(np.array([0, value, 1, value], np.float32), "draft layer 11")
    expected = f"draft layer 11: found {shown} at token 1 (2 of 4 scores), expected finite attention scores"
    assert str(error.value) == expected
    require_finite(np.zeros(4), "draft layer 11")


def test_require_finite_layers():
    names = ["blk.3", "blk.7", "blk.11"]
    require_finite_layers([False, False, False], names)
    with pytest.raises(SpvkError) as error:
        require_finite_layers(np.array([0, 1, 1], np.uint32), names)
    assert str(error.value) == "blk.7, blk.11: found NaN or inf, expected finite attention scores"
    with pytest.raises(ValueError, match="flags for 3 layers"):
        require_finite_layers([True], names)


def test_join_takes_the_first_stride_of_each_window():
    ws = windows(4471, 2000)
    got = join(ws, [np.full(w.end - w.start, i, np.float32) for i, w in enumerate(ws)])
    assert got.dtype == np.float64
    assert_array_equal(got, np.repeat([0.0, 1.0, 2.0, 3.0], [1000, 1000, 1000, 1471]))


@unhurried
@given(st.integers(1, 400), st.integers(1, 90))
def test_join_puts_every_token_at_its_own_place(n, window):
    ws = windows(n, window)
    assert_array_equal(join(ws, [np.arange(w.start, w.end) for w in ws]), np.arange(n))


def test_join_checks_its_input():
    ws = windows(6, 4)
    with pytest.raises(ValueError, match="1 score arrays for 2 windows"):
        join(ws, [np.ones(4)])
    with pytest.raises(ValueError, match="3 scores taken from 2 do not fit"):
        join(ws, [np.ones(4), np.ones(3)])
    with pytest.raises(ValueError, match="do not fit"):
        join(ws[1:], [np.ones(4)])
    with pytest.raises(SpvkError, match="^importance of tokens 2 to 5: found nan at token 1"):
        join(ws, [np.ones(4), np.array([1, np.nan, 1, 1])])


def test_normalise():
    assert_array_equal(normalise(np.array([2, 4, 3], np.float32)), [0.0, 1.0, 0.5])


@pytest.mark.parametrize("n", [1, 4, 5, 31, 32, 33])
@pytest.mark.parametrize("value", [0.0, 1 / 3, 5e-324])
def test_equal_scores_all_become_one(n, value):
    assert_array_equal(normalise(np.full(n, value)), np.ones(n))


@unhurried
@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=80))
def test_normalise_spans_zero_to_one_and_keeps_the_order(values):
    got = normalise(values)
    assert got.max() == 1.0
    assert got.min() == (0.0 if len(set(values)) > 1 else 1.0)
    assert (np.diff(got[np.argsort(values, kind="stable")]) >= 0).all()


def test_only_the_heads_that_count_are_reduced():
    rows = np.array([[[0.1, 0.9], [0.6, 0.4]], [[0.3, 0.7], [0.2, 0.8]]])  # [layers, heads, keys]
    assert_array_equal(reduce_rows([rows], 2), [0.6, 0.9])
    assert_array_equal(reduce_rows([rows], 2, heads=[[False, True], [True, False]]), [0.6, 0.7])
    assert_array_equal(reduce_rows([rows], 2, heads=np.zeros((2, 2), bool)), [0, 0])


@pytest.mark.parametrize("function", [normalise, lambda s: boost(s, v3())])
def test_bad_scores(function):
    for scores, message in [
        ([], "prompt: found 0 tokens, expected at least 1"),
        ([1.0, np.nan], "importance: found nan at token 1 (1 of 2 scores), expected finite attention scores"),
        ([[1.0]], "importance: found an array of shape [1, 1], expected one score each"),
    ]:
        with pytest.raises(SpvkError) as error:
            function(scores)
        assert str(error.value) == message


def test_boost_of_a_long_prompt():
    got = boost(np.ones(1000), v3())
    assert_array_equal(got, np.repeat([1.5, 1.0, 1.3], [64, 808, 128]))


@pytest.mark.parametrize(
    "n, runs",
    [
        (1, [(1.5 * 1.3, 1)]),
        (64, [(1.5 * 1.3, 64)]),
        (65, [(1.5 * 1.3, 64), (1.3, 1)]),
        (128, [(1.5 * 1.3, 64), (1.3, 64)]),
        (129, [(1.5, 1), (1.5 * 1.3, 63), (1.3, 65)]),
        (192, [(1.5, 64), (1.3, 128)]),
        (193, [(1.5, 64), (1.0, 1), (1.3, 128)]),
    ],
)
def test_boosts_multiply_where_they_overlap(n, runs):
    assert_array_equal(boost(np.ones(n), v3()), np.repeat(*zip(*runs)))


def test_boost_leaves_its_input_and_can_be_switched_off():
    scores = np.ones(10)
    assert_array_equal(boost(scores, v3(boost_first_n=0, boost_last_n=0)), np.ones(10))
    boost(scores, v3())
    assert_array_equal(scores, np.ones(10))

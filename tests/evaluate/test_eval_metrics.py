"""Intervals, F1 and divergence against known values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spvk.evaluate import metrics


@pytest.mark.parametrize(
    "right, total, low, high",
    [
        (0, 10, 0.0, 0.277533),  # z² / (n + z²), z² = 3.841459
        (10, 10, 0.722467, 1.0),
        (5, 10, 0.236593, 0.763407),
        (81, 263, 0.255289, 0.366208),  # Newcombe 1998, Table I, method 3: 0.2553 to 0.3662
        (1, 29, 0.006114, 0.171755),  # the same: 0.0061 to 0.1718
    ],
)
def test_wilson_has_the_known_values(right, total, low, high):
    assert metrics.wilson(right, total) == pytest.approx((low, high), abs=2e-6)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_mirrors(pair):
    right, total = pair
    low, high = metrics.wilson(right, total)
    assert 0 <= low <= right / total <= high <= 1 and low < high
    assert metrics.wilson(total - right, total) == pytest.approx((1 - high, 1 - low))


def test_exact_match_is_of_normalised_text():
    assert metrics.normalise("  The Horse, a  BAY!\n") == "horse bay"
    assert metrics.exact_match("The Bessey.", ["Bassey", "bessey"])
    assert not metrics.exact_match("Bassey, I think", ["Bassey"])
    assert not metrics.exact_match("theatre", ["atre"])  # an article is a whole word


@pytest.mark.parametrize(
    "got, answers, value",
    [
        ("the horse was Bassey", ["Bassey"], 0.5),  # 1 common of 3 + 1
        ("Bassey", ["a bay", "Bassey"], 1.0),
        ("one one two", ["one two two"], 2 / 3),  # repeated words count as often as both have them
        ("", ["Bassey"], 0.0),
        ("The", ["a"], 1.0),  # both normalise to nothing
    ],
)
def test_f1(got, answers, value):
    assert metrics.f1(got, answers) == pytest.approx(value)


def test_contained_needs_all_or_any():
    assert metrics.contained("It is Bassey.", ["bassey", "dobbin"], all_needed=False) == 1.0
    assert metrics.contained("It is Bassey.", ["bassey", "dobbin"], all_needed=True) == 0.5
    assert metrics.contained("It is.", ["bassey"], all_needed=False) == 0.0


def test_divergence_of_known_distributions():
    p, q = np.log([0.5, 0.5]), np.log([0.9, 0.1])
    expected = 0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(0.5 / 0.1)
    assert metrics.divergence(p + 7, q - 300) == pytest.approx(expected)  # logits have no zero point
    assert metrics.divergence(p, p) == 0.0
    assert metrics.divergence([1e4, 0.0], [0.0, 0.0]) == pytest.approx(np.log(2))  # no overflow


def test_stated_wants_whole_words():
    assert metrics.stated("It is 41327.", ["41327"], False) and not metrics.stated("141327", ["41327"], False)
    assert metrics.stated("THREE lanterns", ["3", "three"], False)
    assert not metrics.stated("13", ["3", "three"], False)
    assert metrics.stated("XA, XB", ["XA", "XB"], True) and not metrics.stated("XA", ["XA", "XB"], True)
    assert metrics.stated("f(x) = 2", ["f(x)"], False)

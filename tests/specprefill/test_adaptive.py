"""The keep fraction and the confidence, worked out by hand from a prompt's own scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specprefill.plain import v3
from spvk.errors import SpvkError
from spvk.specprefill import Evidence, choose, keep_fraction, read_evidence
from spvk.specprefill.protect import Structure
from spvk.specprefill.text import Kind

SETTINGS = v3(select="adaptive", guard_first=0, guard_last=0)


def evidence(*means, guards=(), size=32):
    mask = np.zeros(len(means) * size, dtype=bool)
    mask[list(guards)] = True
    return read_evidence(np.repeat(np.array(means, dtype=np.float64), size), SETTINGS, mask)


def test_one_chunk_of_ten_stands_out():
    got = evidence(*[1] * 9, 11)
    assert (got.chunks, got.spread, got.confidence) == (10, pytest.approx(0.1, rel=1e-14), 1 - 1 / 11)


def test_two_that_stand_out_alike_are_two_chunks():
    assert evidence(*[1] * 8, 5, 5).spread == pytest.approx(0.2, rel=1e-14)
    # three to one: exp(H) = 4 / 3**0.75 chunks of 10
    assert evidence(*[1] * 8, 4, 2).spread == pytest.approx(4 / 3**0.75 / 10, rel=1e-14)


def test_a_level_below_all_changes_the_confidence_only():
    low, high = evidence(*[1] * 9, 2), evidence(*[101] * 9, 102)
    assert low.spread == pytest.approx(high.spread, rel=1e-12)
    assert (low.confidence, high.confidence) == (0.5, pytest.approx(1 - 101 / 102))


def test_flat_scores():
    assert evidence(3, 3, 3, 3) == Evidence(4, 1.0, 0.0)
    assert evidence(0, 0, 0) == Evidence(3, 1.0, 0.0)


def test_one_chunk_is_nothing_to_compare():
    assert evidence(3) == Evidence(1, 1.0, 1.0)
    assert evidence(3, 4, guards=range(32)) == Evidence(1, 1.0, 1.0)
    assert evidence(3, guards=range(32)) == Evidence(0, 1.0, 1.0)


def test_guards_take_no_part():
    assert evidence(100, 1, 1, 1, 9, guards=range(32)) == evidence(1, 1, 1, 9)


def test_scores_that_are_not_finite():
    with pytest.raises(SpvkError, match="^importance: found nan at token 1"):
        read_evidence([1.0, np.nan], SETTINGS, np.zeros(2, dtype=bool))


@pytest.mark.parametrize(
    "spread, kind, keep",
    [
        (0.01, "prose", 0.2),
        (0.1, "prose", 0.2),
        (0.15, "prose", 0.3),
        (0.2, "code", 0.4),
        (0.01, "code", 0.3),
        (0.6, "prose", 0.5),
        (1.0, "code", 0.5),
    ],
)
def test_the_fraction_is_twice_the_spread_between_floor_and_ceiling(spread, kind, keep):
    assert keep_fraction(Evidence(40, spread, 0.9), v3(), kind) == keep


def test_floor_and_ceiling_are_settings():
    settings = v3(keep_floor=0.05, keep_ceiling=0.25, code_floor=0.1)
    of = [keep_fraction(Evidence(40, s, 0.9), settings, k) for s in (0.01, 0.5) for k in ("prose", "code")]
    assert of == [0.05, 0.1, 0.25, 0.25]
    assert keep_fraction(Evidence(40, 0.01, 0.9), v3(code_floor=0.9), "code") == 0.5
    assert keep_fraction(Evidence(40, 0.01, 0.9), v3(keep_floor=0.4), "code") == 0.4


def test_choose_keeps_the_fraction_that_the_scores_give():
    scores = np.full(640, 0.1)
    scores[64:96] = 0.7
    got = choose(scores, SETTINGS)
    assert got.keep == 0.2 and got.kept_tokens == 4 * 32 and got.evidence.spread == pytest.approx(0.05)
    code = Structure(np.zeros(640, np.int8), kind=Kind("code", 0.8))
    assert choose(scores, SETTINGS, code).keep == 0.3
    assert choose(scores, SETTINGS, code).kept_tokens == 6 * 32
    spread = np.linspace(1.0, 2.0, 640)
    assert choose(spread, SETTINGS).keep == 0.5
    assert choose(spread, v3(select="chunk")).keep is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=300))
def test_the_numbers_stay_in_their_ranges(scores):
    got = read_evidence(scores, v3(chunk=8), np.zeros(len(scores), dtype=bool))
    assert 0 < got.spread <= 1 and 0 <= got.confidence <= 1
    assert 0.2 <= keep_fraction(got, v3(), "prose") <= 0.5

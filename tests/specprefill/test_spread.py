"""Halo, backbone and dense ends: one budget, spent as they say."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specprefill.plain import v3
from spvk.errors import SpvkError
from spvk.specprefill import Settings, choose, spans_of
from spvk.specprefill.edges import Layout
from spvk.specprefill.settings import EDGES
from spvk.specprefill.spread import evenly_spaced, spread

unhurried = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
PLAIN = {"select": "chunk", "chunk": 10, "boost_first_n": 0, "boost_last_n": 0}
NO_GUARDS = {"guard_first": 0, "guard_last": 0}


def by_chunk(*means, size=10):
    return np.repeat(np.array(means, dtype=np.float64), size)


def kept_of(scores, **options):
    return choose(scores, v3(**PLAIN | options))


TEN = by_chunk(1, 8, 2, 9, 3, 4, 0, 0, 0, 7)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 300),
    st.integers(1, 40),
    st.sampled_from(EDGES),
    st.sampled_from([{"select": "mass"}, {"select": "chunk", "keep": 0.2}, {"select": "adaptive"}]),
    st.integers(0, 50),
    st.floats(0, 1),
    st.floats(0, 1),
    st.none() | st.integers(9, 60),
)
@unhurried
def test_the_budget_is_that_of_the_plain_selection(seed, n, chunk, edges, how, halo, backbone, ends, cap):
    importance = np.random.default_rng(seed).random(n) ** 4
    options = {**how, "chunk": chunk, "edges": edges, "max_keep": cap}
    plain = choose(importance, v3(**options))
    other = {"halo": halo, "backbone": backbone, "dense_ends": ends * (1 - backbone)}
    got = choose(importance, v3(**options, **other))
    assert got.kept_tokens == plain.kept_tokens
    assert np.array_equal(got.chunk_scores, plain.chunk_scores) and got.keep == plain.keep
    assert np.isin(np.r_[: min(n, 4), max(0, n - 2) : n], got.positions).all()
    kept = np.isin(np.arange(n), got.positions)
    assert np.array_equal(got.chunk_kept, np.logical_and.reduceat(kept, np.arange(0, n, chunk)))


def test_a_halo_makes_room_by_the_lowest_chunks():
    assert kept_of(TEN, keep=0.3, **NO_GUARDS).spans == [(10, 20), (30, 40), (90, 100)]
    # 30 tokens: the two best with 5 before each; the third has none left
    assert kept_of(TEN, keep=0.3, halo=5, **NO_GUARDS).spans == [(5, 20), (25, 40)]
    # 3 left: the best of the third chunk and its halo
    scores = TEN + 0.0
    scores[94:97] += 0.5
    assert kept_of(scores, keep=0.3, halo=4, **NO_GUARDS).spans == [(6, 20), (26, 40), (94, 96)]


def test_a_halo_stands_before_guards_too_and_costs_nothing_where_it_is_kept():
    got = kept_of(TEN, keep=0.3, halo=3, guard_first=4, guard_last=2)
    assert got.kept_tokens == kept_of(TEN, keep=0.3, guard_first=4, guard_last=2).kept_tokens == 34
    # 28 beside the guards: 3 before the last two, 13 and the best 12 of 13 for the best two chunks
    assert got.spans == [(0, 4), (8, 20), (27, 40), (95, 100)]
    assert kept_of(by_chunk(0, 9, 8, 1), keep=0.5, halo=10, **NO_GUARDS).spans == [(0, 20)]


def test_a_backbone_is_evenly_spaced():
    # 30 tokens, 20 of them for chunks in the middles of the prompt's halves, the rest for the best
    assert kept_of(TEN, keep=0.3, backbone=0.7, **NO_GUARDS).spans == [(20, 40), (70, 80)]
    assert kept_of(by_chunk(9, *[0] * 9), keep=0.3, backbone=0.7, **NO_GUARDS).spans == [
        (0, 10),
        (20, 30),
        (70, 80),
    ]
    assert kept_of(TEN, keep=0.3, backbone=1.0, **NO_GUARDS).spans == [(10, 20), (50, 60), (80, 90)]


@given(st.integers(1, 500), st.integers(0, 300), st.integers(1, 40), st.integers(0, 20))
def test_evenly_spaced_chunks_leave_no_long_gap(n, count, chunk, halo):
    spans, total = evenly_spaced(n, count, chunk, halo), -(-n // chunk)
    assert len(spans) == (min(total, max(1, count // (chunk + halo))) if count else 0)
    starts = [end - 1 for _, end in spans]
    share = total / max(1, len(spans)) * chunk
    assert all(b - a <= share + chunk for a, b in zip([-1, *starts], [*starts, n]) if spans)
    assert all(end - start <= chunk + halo for start, end in spans)


def test_dense_ends_are_the_first_and_last_tokens():
    # 28 beside the guards: 7 at each end, 10 and 4 for the best two chunks
    assert kept_of(TEN, keep=0.3, dense_ends=0.5).spans == [(0, 15), (30, 40), (91, 100)]
    assert kept_of(TEN, keep=0.3, dense_ends=1.0, **NO_GUARDS).spans == [(0, 15), (85, 100)]


@pytest.mark.parametrize("share", [0.29, 0.57, 0.58])
def test_an_exact_share_is_not_a_token_less(share):
    layout = Layout(np.zeros(1000, bool), 10)
    kept = spread(np.zeros(1000), 100, layout, v3(dense_ends=share, backbone=1 - share))
    half = round(share * 100) // 2
    assert kept[:half].all() and kept[1000 - half :].all() and kept.sum() == 100


def test_protected_tokens_are_kept_besides():
    guards = np.isin(np.arange(100), [50, 51])
    kept = spread(TEN, 30, Layout(guards, 10), v3(halo=5, backbone=0.4))
    assert kept.sum() == 32 and kept[45:52].all()


def test_without_any_of_it_nothing_changes(monkeypatch):
    monkeypatch.setattr("spvk.specprefill.selection.spread", lambda *a: pytest.fail("spread"))
    assert spans_of(kept_of(TEN, keep=0.1, **NO_GUARDS).positions) == [(30, 40)]


def test_shares_of_more_than_the_budget_are_refused():
    with pytest.raises(SpvkError, match="^backbone: found 0.6, expected at most 0.5 beside dense_ends 0.5"):
        v3(backbone=0.6, dense_ends=0.5)
    with pytest.raises(
        SpvkError, match="^SP_BACKBONE: found 0.6, expected at most 0.5 beside --dense-ends 0.5"
    ):
        Settings.resolve({"dense_ends": "0.5"}, {"SP_BACKBONE": "0.6"})
    assert v3(backbone=0.9, dense_ends=0.1).backbone == 0.9

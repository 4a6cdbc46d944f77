"""Selection: mass, chunk, guards and cap on and across their edges, and what holds for any scores."""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import FrozenInstanceError

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from specprefill.plain import v3
from spvk.errors import SpvkError
from spvk.specprefill import choose, keep_all, positions_of, select, spans_of

# A shared machine may be slow at any moment: no example has a time limit.
unhurried = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
CHUNK = v3(select="chunk")
PLAIN = {"boost_first_n": 0, "boost_last_n": 0}


def by_chunk(*means, size=32):
    """Scores whose chunks of `size` tokens each hold one value."""
    return np.repeat(np.array(means, dtype=np.float64), size)


def test_chunk_mode_keeps_the_top_chunks_and_the_guards():
    got = select(by_chunk(1, 5, 2, 9, 3, 4, 0, 0, 0, 1), CHUNK)  # 0.3 of 10 chunks
    assert got.spans == [(0, 4), (32, 64), (96, 128), (160, 192), (318, 320)]
    assert_array_equal(got.chunk_kept, np.isin(np.arange(10), [1, 3, 5]))
    assert_array_equal(got.chunk_scores, [1, 5, 2, 9, 3, 4, 0, 0, 0, 1])
    assert got.kept_tokens == 3 * 32 + 6
    assert got.kept_fraction == 102 / 320


def test_mass_mode_keeps_the_fewest_chunks_that_cover_the_mass():
    scores = by_chunk(1, 50, 4, 35, 10)  # 50 + 35 is 0.85 of 100
    assert np.flatnonzero(select(scores, v3()).chunk_kept).tolist() == [1, 3]
    assert np.flatnonzero(select(scores, v3(mass=0.8501)).chunk_kept).tolist() == [1, 3, 4]
    assert np.flatnonzero(select(scores, v3(mass=0.5)).chunk_kept).tolist() == [1]
    assert np.flatnonzero(select(scores, v3(mass=0.99)).chunk_kept).tolist() == [1, 2, 3, 4]
    assert select(scores, v3(mass=1.0)).kept_tokens == 160


@pytest.mark.parametrize("share", [0.07, 0.14, 0.28, 0.29, 0.55, 0.56, 0.57, 0.58, 0.85])
def test_an_exact_share_costs_no_chunk_more(share):
    scores = np.ones(100 * 32)
    assert select(scores, v3(select="chunk", keep=share)).chunk_kept.sum() == round(share * 100)
    assert select(scores, v3(mass=share)).chunk_kept.sum() == round(share * 100)


@pytest.mark.parametrize("chunks, kept", [(1, 1), (3, 1), (4, 2), (10, 3), (11, 4)])
def test_chunk_mode_rounds_up(chunks, kept):
    assert select(np.ones(chunks * 32), CHUNK).chunk_kept.sum() == kept


def test_ties_go_to_the_earlier_chunk():
    got = select(np.ones(10 * 32), CHUNK)
    assert got.spans == [(0, 96), (318, 320)]
    # A mean of equal values may round above them: a short last chunk must not pass an equal one for that.
    assert math.fsum([0.1] * 3) / 3 > 0.1
    for value in (0.1, 1.3, 1 / 3, 0.7):
        for last in range(1, 32):
            scores = np.full(64 + last, value)
            assert_array_equal(select(scores, CHUNK).chunk_scores, [value] * 3)
            assert select(scores, CHUNK).spans[0] == (0, 32)


@pytest.mark.parametrize(
    "n, mass_spans, chunk_spans",
    [
        (1, [(0, 1)], [(0, 1)]),
        (4, [(0, 4)], [(0, 4)]),
        (5, [(0, 5)], [(0, 5)]),
        (31, [(0, 31)], [(0, 31)]),
        (32, [(0, 32)], [(0, 32)]),
        (33, [(0, 33)], [(0, 33)]),  # the second chunk is a guard
        (35, [(0, 32), (33, 35)], [(0, 32), (33, 35)]),
    ],
)
def test_short_prompts_of_equal_scores(n, mass_spans, chunk_spans):
    assert choose(np.full(n, 0.25), v3()).spans == mass_spans
    assert choose(np.full(n, 0.25), CHUNK).spans == chunk_spans


@pytest.mark.parametrize("settings", [v3(), CHUNK, v3(mode="off")])
def test_an_empty_prompt_is_an_error(settings):
    for function in (select, choose):
        with pytest.raises(SpvkError, match="^prompt: found 0 tokens, expected at least 1$"):
            function([], settings)


@pytest.mark.parametrize("settings", [v3(), CHUNK])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.001])
def test_equal_scores_select_the_same_whatever_their_value(settings, value):
    got = select(np.full(20 * 32 + 5, value), settings)
    assert_array_equal(got.chunk_kept, np.arange(21) < (18 if settings.select == "mass" else 7))


def test_equal_importance_favours_both_ends():
    got = choose(np.full(32 * 32, 1 / 1024), CHUNK)  # 10 of 32: 2 boosted by 1.5, 4 by 1.3, then 4 in order
    assert np.flatnonzero(got.chunk_kept).tolist() == [0, 1, 2, 3, 4, 5, 28, 29, 30, 31]


def test_nan_and_negative_scores_are_errors():
    with pytest.raises(SpvkError, match=r"^importance: found nan at token 2 \(1 of 3 scores\)"):
        choose([0, 1, np.nan], v3())
    with pytest.raises(SpvkError, match="^importance: found -0.5 at token 1, expected no negative score$"):
        select([0, -0.5, 1], v3())


def test_the_cap_drops_the_lowest_chunks_whole():
    scores = by_chunk(1, 5, 2, 9, 3, 4, 0, 0, 0, 1)
    caps = (102, 101, 70, 69, 38, 37, 6)
    kept = {cap: select(scores, v3(select="chunk", max_keep=cap)) for cap in caps}
    assert {cap: np.flatnonzero(s.chunk_kept).tolist() for cap, s in kept.items()} == {
        102: [1, 3, 5],
        101: [1, 3],
        70: [1, 3],
        69: [3],
        38: [3],
        37: [],
        6: [],
    }
    assert kept[6].spans == [(0, 4), (318, 320)]


def test_guards_count_once_in_the_chunk_that_holds_them():
    scores = by_chunk(9, 1, 1, 8)
    both = v3(select="chunk", keep=0.5, max_keep=64)
    assert select(scores, both).spans == [(0, 32), (96, 128)]
    assert select(scores, v3(select="chunk", keep=0.5, max_keep=63)).spans == [(0, 32), (126, 128)]


def test_a_short_prompt_fits_under_any_valid_cap():
    for n in range(1, 7):
        assert select(np.ones(n), v3(max_keep=6)).kept_tokens == n
    assert select(np.ones(7), v3(max_keep=6)).spans == [(0, 4), (5, 7)]


def test_a_chunk_longer_than_the_prompt():
    got = select(np.arange(100.0), v3(chunk=2**31 - 1, select="chunk", keep=0.01))
    assert got.spans == [(0, 100)] and got.chunk_scores.tolist() == [49.5]


def test_guards_longer_than_the_prompt():
    scores = np.r_[np.zeros(4), 1.0]
    for guards in ({"guard_first": 0, "guard_last": 7}, {"guard_first": 7, "guard_last": 0}):
        assert select(scores, v3(select="chunk", chunk=1, **guards)).spans == [(0, 5)]
    none = v3(select="chunk", chunk=1, guard_first=0, guard_last=0, keep=0.01)
    assert select(scores, none).spans == [(4, 5)]


def test_mode_off_keeps_all_and_reads_no_score():
    off = v3(mode="off", max_keep=6)
    for got in (keep_all(70, off), select(np.full(70, np.nan), off), choose(np.full(70, np.nan), off)):
        assert got.spans == [(0, 70)]
        assert got.chunk_kept.tolist() == [True, True, True]
        assert np.isnan(got.chunk_scores).all() and got.chunk_scores.shape == (3,)
    with pytest.raises(SpvkError, match="^prompt: found 0 tokens"):
        keep_all(0, off)


def test_the_hash_is_that_of_little_endian_int32():
    got = select(by_chunk(1, 5, 2, 9, 3, 4, 0, 0, 0, 1), CHUNK)
    positions = [*range(0, 4), *range(32, 64), *range(96, 128), *range(160, 192), 318, 319]
    assert got.sha256 == hashlib.sha256(struct.pack("<102i", *positions)).hexdigest()
    # SHA-256 of 00000000 01000000 02000000
    assert keep_all(3, CHUNK).sha256 == hashlib.sha256(bytes.fromhex("000000000100000002000000")).hexdigest()


def test_a_selection_cannot_be_changed():
    got = select(np.ones(64), CHUNK)
    assert got.positions.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        got.positions[0] = 1
    with pytest.raises(FrozenInstanceError):
        got.prompt_tokens = 3


def test_a_choice_by_hand():
    """512 tokens; token 200 outweighs all, 70 and 500 share a score that only the last boost raises."""
    importance = np.zeros(512)
    importance[[200, 70, 500]] = [0.8, 0.2, 0.2]
    got = choose(importance, v3(select="chunk", keep=0.1))  # 2 of 16 chunks
    assert got.spans == [(0, 4), (192, 224), (480, 512)]
    assert got.chunk_scores[15] == pytest.approx(0.25 * 1.3 / 32, rel=1e-15)
    assert got.chunk_scores[2] == 0.25 / 32
    assert got.chunk_scores[6] == 1 / 32
    # Mass of the sum 1 + 0.25 + 0.325: 1.325 is 0.841 of it, so 0.85 takes the third chunk as well.
    assert np.flatnonzero(choose(importance, v3()).chunk_kept).tolist() == [2, 6, 15]
    assert np.flatnonzero(choose(importance, v3(mass=0.84)).chunk_kept).tolist() == [6, 15]


def test_float32_and_float64_scores_select_the_same():
    scores = np.random.default_rng(1).random(5000).astype(np.float32)
    assert choose(scores, v3()).sha256 == choose(scores.astype(np.float64), v3()).sha256


scores_of_any_kind = st.one_of(
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=300),
    st.tuples(st.integers(0, 2**32), st.integers(1, 900)).map(
        lambda a: np.random.default_rng(a[0]).exponential(size=a[1]).tolist()
    ),
    st.tuples(st.sampled_from([0.0, 0.1, 1.0]), st.integers(1, 300)).map(lambda a: [a[0]] * a[1]),
)
settings_of_any_kind = st.builds(
    v3,
    select=st.sampled_from(["mass", "chunk"]),
    mass=st.floats(0.01, 1),
    keep=st.floats(0.01, 1),
    max_keep=st.none() | st.integers(6, 400),
    chunk=st.integers(1, 40),
)


@unhurried
@given(scores_of_any_kind, settings_of_any_kind)
def test_what_holds_for_every_selection(scores, settings):
    got = choose(scores, settings)
    n = len(scores)
    kept = set(got.positions.tolist())
    assert got.positions.tolist() == sorted(kept) and kept <= set(range(n))
    guards = set(range(min(n, 4))) | set(range(max(0, n - 2), n))
    assert guards <= kept
    assert settings.max_keep is None or len(kept) <= settings.max_keep
    assert_array_equal(positions_of(got.spans), got.positions)
    assert choose(scores, settings).sha256 == got.sha256
    # Besides the guards, what is kept is exactly the kept chunks.
    in_chunks = {t for t in range(n) if got.chunk_kept[t // settings.chunk]}
    assert kept == guards | in_chunks
    # No dropped chunk ranks above a kept one.
    ranks = sorted(range(got.chunk_kept.size), key=lambda i: (-got.chunk_scores[i], i))
    count = int(got.chunk_kept.sum())
    assert got.chunk_kept[ranks[:count]].all()


@unhurried
@given(scores_of_any_kind, settings_of_any_kind)
def test_the_count_is_the_smallest_that_the_mode_asks_for(scores, settings):
    uncapped = v3(**(settings.as_dict() | {"max_keep": None} | PLAIN))
    values = np.asarray(scores) + 1.0
    got = select(values, uncapped)
    count, chunks = int(got.chunk_kept.sum()), got.chunk_kept.size
    if settings.select == "chunk":
        assert (count - 1) / chunks < settings.keep <= count / chunks + 1e-9
        return
    sums = np.array([values[i * settings.chunk : (i + 1) * settings.chunk].sum() for i in range(chunks)])
    covered = sums[got.chunk_kept].sum() / sums.sum()
    weakest = max(np.flatnonzero(got.chunk_kept), key=lambda i: (-got.chunk_scores[i], i))
    assert covered >= settings.mass - 1e-9
    assert covered - sums[weakest] / sums.sum() < settings.mass + 1e-9


@unhurried
@given(scores_of_any_kind, settings_of_any_kind, st.integers(6, 400))
def test_a_cap_only_takes_away_from_the_bottom(scores, settings, cap):
    free = choose(scores, v3(**(settings.as_dict() | {"max_keep": None})))
    capped = choose(scores, v3(**(settings.as_dict() | {"max_keep": cap})))
    assert set(capped.positions.tolist()) <= set(free.positions.tolist())
    if free.kept_tokens <= cap:
        assert capped.sha256 == free.sha256
    else:  # not one chunk more would have fitted
        dropped = np.flatnonzero(free.chunk_kept & ~capped.chunk_kept)
        best = min(dropped, key=lambda i: (-free.chunk_scores[i], i))
        chunk = set(range(best * settings.chunk, min((best + 1) * settings.chunk, len(scores))))
        assert len(chunk | set(capped.positions.tolist())) > cap


@unhurried
@given(st.sets(st.integers(0, 200)))
def test_spans_and_positions_round_trip(positions):
    ordered = sorted(positions)
    spans = spans_of(ordered)
    assert positions_of(spans).tolist() == ordered
    assert all(a < b for a, b in spans)
    assert all(left[1] < right[0] for left, right in zip(spans, spans[1:]))

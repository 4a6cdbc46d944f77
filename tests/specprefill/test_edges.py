"""Edges: a peak at a chunk's edge, message and sentence boundaries, and one budget for all finders."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from specprefill.plain import v3
from spvk.errors import SpvkError
from spvk.specprefill import choose, select, spans_of
from spvk.specprefill.edges import FINDERS, Layout, cut
from spvk.specprefill.protect import Structure
from spvk.specprefill.settings import EDGES

unhurried = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
# A fact of 9 tokens whose value, the last but one, scores high; a cut at 64 lies between words and value.
FACT = slice(57, 67)


def layout(n, chunk=32, guards=(), messages=(), sentences=(), indented=()):
    mask = np.zeros(n, dtype=bool)
    mask[list(guards)] = True
    bounds = (np.array(indices, dtype=np.int64) for indices in (messages, sentences, indented))
    return Layout(mask, chunk, *bounds)


def kept(scores, budget, edges, **more):
    return spans_of(np.flatnonzero(cut(scores, budget, layout(len(scores), **more), edges)))


def at_the_edge():
    """320 tokens of 0.1 with a value of 1.0 on tokens 64 and 65, just behind a cut, and a lesser peak."""
    scores = np.full(320, 0.1)
    scores[[64, 65]] = 1.0
    scores[200:204] = 0.3
    return scores


def test_every_setting_has_its_finder():
    assert tuple(FINDERS) == EDGES


def test_fixed_edges_cut_the_fact():
    assert kept(at_the_edge(), 64, "fixed") == [(64, 96), (192, 224)]


@pytest.mark.parametrize(
    "edges, spans",
    [
        # the flat averages before the peak's middle tie, the earliest first; both sides of the cut are kept
        ("pooled", [(32, 96)]),
        ("peaks", [(48, 80), (184, 216)]),
        ("snapped", [(48, 76), (184, 220)]),
        ("overlap", [(48, 96), (188, 204)]),
        ("dilated", [(52, 84), (188, 220)]),
    ],
)
def test_the_others_keep_it_whole_with_the_same_tokens(edges, spans):
    scores = at_the_edge()
    got = kept(scores, 64, edges, sentences=[16, 48, 57, 76, 120, 150, 184, 220, 250, 290])
    mask = cut(scores, 64, layout(320, sentences=[16, 48, 57, 76, 120, 150, 184, 220, 250, 290]), edges)
    assert mask[FACT].all() and mask.sum() == 64
    assert got == spans


@pytest.mark.parametrize("edges", EDGES)
def test_no_span_crosses_a_message(edges):
    scores = np.full(120, 0.1)
    scores[50] = 1.0
    got = kept(scores, 10, edges, messages=[0, 45, 55, 120])
    assert got == [(45, 55)]


def test_short_messages_do_not_hide_their_neighbours():
    scores = np.array([0.1, 0.9, 0.1, 0.8, 0.1, 0.1])
    assert kept(scores, 2, "peaks", chunk=4, messages=[1, 2, 3, 4]) == [(1, 2), (3, 4)]


@pytest.mark.parametrize("edges", EDGES)
def test_guards_cost_nothing_and_do_not_count(edges):
    scores = np.full(128, 0.1)
    scores[:16] = 5.0  # guarded: these scores must not buy the rest of their chunk
    scores[100] = 1.0
    mask = cut(scores, 32, layout(128, guards=range(16)), edges)
    assert mask[:16].all() and mask[100] and mask.sum() == 48
    assert_array_equal(mask[16:32], False)


def test_the_last_span_is_cut_to_its_best_run():
    scores = np.r_[np.full(32, 1.0), np.full(32, 0.2)]
    scores[40:45] = 0.9
    assert kept(scores, 37, "fixed") == [(0, 32), (40, 45)]
    assert kept(np.ones(64), 37, "fixed") == [(0, 37)]


def test_snapped_chunks_end_with_sentences():
    scores = np.repeat([1.0, 3.0, 2.0], [30, 40, 30])
    assert kept(scores, 40, "snapped", sentences=[30, 70]) == [(30, 70)]
    assert kept(scores, 32, "snapped") == [(32, 64)]  # no sentence is known: as fixed
    far = [10, 70, 140]  # 10 is less than 0.5 chunks from 0, 70 more than 2; 140 is more than 2 from 70
    assert kept(np.arange(160.0), 58, "snapped", sentences=far) == [(102, 160)]
    assert kept(np.repeat([0.0, 3.0, 2.5], [32, 38, 90]), 40, "snapped", sentences=far) == [(32, 72)]


def test_snapped_keeps_an_indented_line_with_the_one_before():
    scores = np.repeat([2.5, 3.0, 2.0, 1.0], [30, 30, 14, 26])
    lines = [30, 60, 74]
    assert kept(scores, 44, "snapped", sentences=lines) == [(0, 14), (30, 60)]
    assert kept(scores, 44, "snapped", sentences=lines, indented=[60]) == [(30, 74)]
    # from 30 to 100 is more than two chunks: the indented line is better than a cut inside a line
    assert kept(scores, 44, "snapped", sentences=lines, indented=[60, 74]) == [(0, 14), (30, 60)]


def test_chunks_of_a_sentence_share_its_best_score():
    # sentences [0, 40), [40, 240), [240, 280); the second one's first piece is the peak
    scores = np.repeat([0.6, 1.0, 0.1, 0.8], [40, 40, 160, 40])
    whole = dict(chunk=40, sentences=[40, 240])
    order = FINDERS["snapped"](scores, layout(280, **whole))
    assert order == [(40, 80), (240, 280), (80, 120), (120, 160), (160, 240), (0, 40)]
    assert kept(scores, 160, "snapped", **whole) == [(40, 160), (240, 280)]
    order = FINDERS["snapped"](scores, layout(280, **whole, messages=[160]))
    assert order == [(40, 80), (240, 280), (80, 160), (0, 40), (160, 240)]
    # a guarded piece has no score to share, and gets none
    order = FINDERS["snapped"](scores, layout(280, **whole, guards=range(40, 80)))
    assert order == [(240, 280), (0, 40), (80, 120), (120, 160), (160, 240)]


def test_a_long_sentence_shares_no_farther_than_four_chunks():
    scores = np.repeat([1.0, 0.1, 0.2, 0.1], [10, 70, 10, 110])
    order = FINDERS["snapped"](scores, layout(200, chunk=10, sentences=[150]))
    assert order[:7] == [(0, 10), (10, 20), (20, 30), (30, 40), (40, 50), (80, 90), (50, 60)]
    unknown = FINDERS["snapped"](scores, layout(200, chunk=10))  # where no sentence is known none is shared
    assert unknown[:4] == [(0, 10), (80, 90), (10, 20), (20, 30)]


def test_ties_go_to_the_earlier():
    for edges in EDGES:
        assert kept(np.ones(320), 64, edges) == [(0, 64)]


@pytest.mark.parametrize("edges", EDGES)
def test_no_budget_leaves_the_guards(edges):
    assert kept(np.ones(40), 0, edges, guards=[0, 39]) == [(0, 1), (39, 40)]


@unhurried
@given(st.data())
def test_one_budget_for_all(data):
    n = data.draw(st.integers(1, 150))
    scores = np.array(data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)), dtype=np.float64)
    indices = st.lists(st.integers(0, n - 1), max_size=8)
    guards, messages, sentences = (data.draw(indices) for _ in range(3))
    plan = layout(n, data.draw(st.integers(1, 40)), guards, messages, sentences)
    budget = data.draw(st.integers(0, n))
    free = int((~plan.guards).sum())
    for edges in EDGES:
        mask = cut(scores, budget, plan, edges)
        assert mask[plan.guards].all()
        assert int((mask & ~plan.guards).sum()) == min(budget, free)
        assert_array_equal(mask, cut(scores.copy(), budget, plan, edges))


# --- by way of choose ---


def plain(**more):
    return v3(select="chunk", boost_first_n=0, boost_last_n=0, **more)


def test_fixed_without_structure_is_version_3_1():
    scores = np.random.default_rng(4).random(333)
    settings = v3(select="chunk", keep=0.21)
    empty = Structure(np.zeros(333, np.int8))
    assert choose(scores, settings, empty).sha256 == choose(scores, settings).sha256
    assert choose(scores, settings).kept_tokens >= 3 * 32  # ceil(0.21 x 11) whole chunks


@pytest.mark.parametrize("edges", EDGES[1:])
@pytest.mark.parametrize("keep, budget", [(0.05, 17), (0.2, 67), (0.55, 184), (1.0, 327)])
def test_tokens_kept_are_the_share_and_the_guards(edges, keep, budget):
    scores = np.random.default_rng(4).random(333)
    got = choose(scores, plain(keep=keep, edges=edges))
    assert got.kept_tokens == budget + 6
    assert got.spans[0][0] == 0 and got.spans[-1][1] == 333


def test_an_exact_share_costs_no_token_more():
    assert choose(np.arange(100.0), plain(keep=0.55, edges="peaks")).kept_tokens == 55 + 6


@pytest.mark.parametrize("edges", EDGES[1:])
def test_mass_keeps_as_many_tokens_as_the_chunks_would(edges):
    scores = np.repeat([1.0, 50.0, 4.0, 35.0, 10.0], 32) + 0.0
    settings = v3(boost_first_n=0, boost_last_n=0)
    want = select((scores - 1) / 49, settings).kept_tokens
    assert choose(scores, settings).kept_tokens == want == 2 * 32 + 6
    assert choose(scores, v3(boost_first_n=0, boost_last_n=0, edges=edges)).kept_tokens == want


def test_the_cap_counts_guards_and_protected_tokens():
    structure = Structure(np.repeat([0, 3, 0], [50, 20, 30]).astype(np.int8))
    settings = plain(keep=0.5, edges="peaks", max_keep=40)
    got = choose(np.arange(100.0), settings, structure)
    assert got.kept_tokens == 40 and set(range(50, 70)) <= set(got.positions.tolist())
    assert choose(np.arange(100.0), plain(edges="peaks", max_keep=26), structure).kept_tokens == 26
    with pytest.raises(SpvkError, match="^max_keep: found 25, expected at least 26, as 26 tokens are g"):
        choose(np.arange(100.0), plain(max_keep=25), structure)


def test_chunk_scores_are_those_of_the_plain_chunks():
    scores = np.zeros(96)
    scores[[48, 80]] = 4.0, 2.0
    got = choose(scores, plain(keep=1 / 3, edges="peaks", guard_first=0, guard_last=0))
    assert_array_equal(got.chunk_scores, [0.0, 1 / 32, 0.5 / 32])
    assert got.spans == [(32, 64)] and got.chunk_kept.tolist() == [False, True, False]

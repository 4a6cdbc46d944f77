"""Baselines: their budget, their guards, and where their tokens lie."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spvk.errors import SpvkError
from spvk.evaluate.baselines import BASELINES, baseline
from spvk.evaluate.policies import read_keeps, read_policies
from spvk.specprefill import Settings, choose, spans_of

GUARDS = {"guard_first": 4, "guard_last": 2}


@given(
    st.sampled_from(BASELINES),
    st.integers(1, 400),
    st.integers(0, 400),
    st.integers(1, 40),
    st.integers(0, 5),
    st.integers(0, 5),
    st.text(max_size=3),
    st.lists(st.integers(0, 399), max_size=30),
)
def test_every_baseline_spends_its_budget_exactly(name, n, more, chunk, first, last, seed, needed):
    guards = np.zeros(n, bool)
    guards[:first] = guards[max(0, n - last) :] = True
    budget = int(guards.sum()) + more
    kept = baseline(name, n, budget, chunk=chunk, guard_first=first, guard_last=last, seed=seed)
    assert len(kept) == min(budget, n)
    assert (np.diff(kept) > 0).all() and 0 <= kept.min(initial=0) and kept.max(initial=0) < n
    assert set(np.flatnonzero(guards)) <= set(kept.tolist())
    needed = [i for i in needed if i < n]
    guards[needed] = True
    knowing = baseline(
        name, n, budget, chunk=chunk, guard_first=first, guard_last=last, seed=seed, needed=needed
    )
    assert len(knowing) == max(min(budget, n), guards.sum())
    assert set(np.flatnonzero(guards)) <= set(knowing.tolist())


def spans(name, n, budget, **options):
    return spans_of(baseline(name, n, budget, **{"chunk": 10, **GUARDS, **options}))


def test_where_they_lie():
    assert spans("recent", 100, 30) == [(0, 4), (74, 100)]
    assert spans("ends", 100, 30) == [(0, 15), (85, 100)]
    # 24 tokens beside the guards: 3 chunks of 10 in the middles of their thirds, the last one cut
    assert spans("even", 100, 30) == [(0, 4), (10, 20), (50, 60), (80, 84), (98, 100)]
    assert spans("even", 100, 100) == [(0, 100)]


def test_the_oracle_keeps_what_is_needed_and_fills_up():
    needed = [*range(40, 52), *range(90, 100)]
    # 26 for guards and needed; 14 left: two chunks of 10 in the middles of the halves, the last one cut
    assert spans("oracle", 100, 40, needed=needed) == [(0, 4), (20, 30), (40, 52), (70, 74), (90, 100)]
    assert spans("oracle", 100, 20, needed=needed) == [(0, 4), (40, 52), (90, 100)]  # more than the budget
    assert spans("oracle", 100, 30) == spans("even", 100, 30)


def test_random_is_whole_chunks_and_its_seeds_own():
    kept = spans("random", 1000, 106, seed="0/a")
    assert kept == spans("random", 1000, 106, seed="0/a") != spans("random", 1000, 106, seed="0/b")
    inner = [(start, end) for start, end in kept if 4 <= start and end <= 998]
    assert len(inner) >= 5 and all(start % 10 == 0 for start, _ in inner)
    assert sum(end % 10 != 0 for _, end in inner) <= 1


def test_random_reaches_every_chunk():
    seen = np.zeros(200, int)
    for seed in range(200):
        seen[baseline("random", 200, 46, chunk=10, guard_first=4, guard_last=2, seed=str(seed))] += 1
    assert seen[:4].min() == 200 and 20 <= seen[4:198].min() and seen[4:198].max() <= 70  # 40 expected


def test_policies_are_ordered_and_carry_their_options():
    dense, v3, auto, even = read_policies("v3:edges=peaks:guard-last=9, auto,dense,even")[:1] + read_policies(
        "v3:edges=peaks:guard-last=9,auto,even"
    )
    assert (dense.label, dense.settings(None).mode, dense.keeps([0.1])) == ("dense", "off", [None])
    s = v3.settings(0.2)
    assert (s.preset, s.select, s.keep, s.edges, s.guard_last) == ("v3", "chunk", 0.2, "peaks", 9)
    s = auto.settings(0.1)
    assert (s.preset, s.mode, s.select, s.keep, s.protect) == ("auto", "always", "chunk", 0.1, "on")
    assert read_policies("ends:protect=on")[0].settings(0.3) == Settings(mode="always", select="chunk", keep=0.3)
    assert (v3.settings("preset").select, auto.settings("preset").select) == ("mass", "adaptive")
    assert even.settings(0.3) == Settings(preset="v3", mode="always", select="chunk", keep=0.3)


def test_the_environment_is_not_read(monkeypatch):
    monkeypatch.setenv("SP_CHUNK", "8")
    (policy,) = read_policies("v3")
    assert choose(np.ones(64), policy.settings(0.5)).chunk_kept.size == 2


@pytest.mark.parametrize(
    "text, words",
    [
        ("v3,best", "found 'best', expected one of auto, v3, paper, dense, random"),
        ("", "found '', expected one of"),
        ("oracle:gap_decay=much", "--policy oracle:gap_decay=much: --gap-decay: found 'much'"),
        ("v3,auto,v3", "found v3 twice"),
        ("dense:chunk=8", "expected no option"),
        ("v3:keep=0.1", "found 'keep=0.1', expected one of"),
        ("v3:chunk", "found 'chunk', expected one of"),
        ("v3:halo=0:halo=8", "found halo twice, expected it once"),
        ("v3:chunk=0", "--policy v3:chunk=0: --chunk: found"),
    ],
)
def test_a_bad_policy_is_named(text, words):
    with pytest.raises(SpvkError) as error:
        read_policies(text)
    assert words in str(error.value) and "--policy" in str(error.value)


@pytest.mark.parametrize("text", ["0", "1.1", "-0.2", "nan", "x", "", "0.2,,0.1", "0.2,0.20"])
def test_a_bad_keep_is_refused(text):
    with pytest.raises(SpvkError, match="--keep: found"):
        read_keeps(text)


def test_keeps():
    assert read_keeps("1,0.25, 0.1") == [1.0, 0.25, 0.1]
    assert read_keeps("0.2, preset") == [0.2, "preset"]

"""Windows: the numbers of version 3.1, and takes that tile the prompt."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spvk.errors import SpvkError
from spvk.specprefill.windows import Window, windows

# A shared machine may be slow at any moment: no example has a time limit.
unhurried = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])


def test_4471_tokens_in_windows_of_2000():
    assert windows(4471, 2000) == [
        Window(0, 2000, 0, 1000),
        Window(1000, 3000, 1000, 2000),
        Window(2000, 4000, 2000, 3000),
        Window(3000, 4471, 3000, 4471),
    ]


@pytest.mark.parametrize(
    "n, starts",
    [(1999, [0]), (2000, [0]), (2001, [0, 1000]), (3000, [0, 1000]), (3001, [0, 1000, 2000])],
)
def test_no_window_follows_one_that_reaches_the_end(n, starts):
    assert [w.start for w in windows(n, 2000)] == starts


@pytest.mark.parametrize("window", [None, 5, 6, 10**6])
def test_one_window_for_a_prompt_that_fits(window):
    assert windows(5, window) == [Window(0, 5, 0, 5)]


def test_odd_windows_round_the_stride_down_to_at_least_one():
    assert windows(12, 5) == [
        Window(0, 5, 0, 2), Window(2, 7, 2, 4), Window(4, 9, 4, 6), Window(6, 11, 6, 8), Window(8, 12, 8, 12)
    ]  # fmt: skip
    assert windows(3, 1) == [Window(0, 1, 0, 1), Window(1, 2, 1, 2), Window(2, 3, 2, 3)]


def test_given_stride():
    assert windows(10, 4, stride=4) == [Window(0, 4, 0, 4), Window(4, 8, 4, 8), Window(8, 10, 8, 10)]


@unhurried
@given(st.integers(1, 3000), st.integers(1, 700), st.data())
def test_takes_tile_the_prompt_inside_their_windows(n, window, data):
    stride = data.draw(st.none() | st.integers(1, window))
    got = windows(n, window, stride)
    at = 0
    for w in got:
        assert w.take_start == at and w.start == w.take_start < w.take_end <= w.end
        assert w.end - w.start <= window
        at = w.take_end
    assert at == n
    assert [w.end == n for w in got] == [False] * (len(got) - 1) + [True]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0, None), "prompt: found 0 tokens, expected at least 1"),
        ((10, 0), "window: found 0, expected at least 1 token"),
        ((10, 4, 5), "window stride: found 5, expected 1 to 4 tokens"),
        ((10, 4, 0), "window stride: found 0, expected 1 to 4 tokens"),
    ],
)
def test_bad_sizes_are_one_line(arguments, message):
    with pytest.raises(SpvkError) as error:
        windows(*arguments)
    assert str(error.value) == message

"""Which head gave each token its score."""

import numpy as np
from numpy.testing import assert_allclose

from spvk.specprefill import Tally, reduce_rows
from spvk.specprefill.windows import Window, windows

ROWS = np.array(
    [[[0.1, 0.9, 0.2], [0.6, 0.4, 0.3]], [[0.3, 0.7, 0.1], [0.2, 0.8, 0.5]]]
)  # [layers, heads, n]


def test_a_token_s_score_is_its_strongest_head_s():
    tally = Tally()
    tally.of(Window(0, 3, 0, 3))(ROWS)
    assert_allclose(tally.shares([0, 1, 2]), np.array([[0.9, 0.6], [0.0, 0.5]]) / 2.0)
    assert_allclose(tally.shares([2]), [[0, 0], [0, 1]])
    tally.of(Window(0, 3, 0, 3))(np.roll(ROWS, 1, axis=0))  # a second row: the layers change places
    assert_allclose(tally.shares([1]), [[0.5, 0], [0.5, 0]])


def test_without_a_score_there_is_nothing_to_share():
    tally = Tally()
    assert tally.shares([0]) is None
    tally.of(Window(0, 3, 0, 3))(0 * ROWS)
    assert tally.shares([0, 1]) is None


def test_windows_count_where_they_are_taken():
    rng, tally, n, parts, importance = np.random.default_rng(0), Tally(), 50, np.zeros(6), []
    for w in windows(n, 20):
        steps = [rng.random((2, 3, w.end - w.start)) for _ in range(2)]
        taken = slice(w.take_start - w.start, w.take_end - w.start)
        importance.append(reduce_rows(steps, w.end - w.start)[taken])
        for rows in steps:
            tally.of(w)(rows)
            flat = rows.reshape(6, -1)[:, taken]
            parts += np.where(flat == flat.max(0), flat, 0).sum(1) / len(steps)
    assert_allclose(parts.sum(), np.concatenate(importance).sum())  # nothing is lost or counted twice
    assert_allclose(tally.shares(np.arange(n)).ravel(), parts / parts.sum())

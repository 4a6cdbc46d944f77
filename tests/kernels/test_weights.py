"""Weights that are multiplied as one: neighbours in memory, and those that are none."""

import numpy as np

from blocks import dequantize, put_matrix, random_rows
from conftest import assert_close
from spvk.kernels.matmul import matmul, reference
from spvk.kernels.weights import row_stride, side_by_side
from spvk.recording import Buffer, Matrix

ROW = 144  # bytes of 256 elements of Q4_K


def matrix(name, rows, buffer, kind="Q4_K"):
    return Matrix(name, kind, 256, rows, ROW, ((0, rows, buffer),))


def spans(matrices):
    return [[(first, rows, b.offset, b.nbytes) for first, rows, b in m.pieces] for m in matrices]


def test_neighbours_of_one_type_become_one_matrix():
    root = Buffer("root", 7 * ROW)
    a, b = matrix("a", 3, root.range(0, 3 * ROW)), matrix("b", 4, root.range(3 * ROW, 4 * ROW))
    (both,) = side_by_side([a, b])
    assert (both.name, both.rows, spans([both])) == ("a + b", 8, [[(0, 7, 0, 7 * ROW)]])  # rows: the stride


def test_others_stay_apart_and_start_behind_each_other():
    root = Buffer("root", 9 * ROW)
    a, c = matrix("a", 3, root.range(0, 3 * ROW)), matrix("c", 4, root.range(5 * ROW, 4 * ROW))
    elsewhere = matrix("d", 2, Buffer("other", 2 * ROW))
    other_type = matrix("e", 2, root.range(3 * ROW, 2 * ROW), "Q4_0")
    for second in (c, elsewhere, other_type):
        parts = side_by_side([a, second])
        assert [p.pieces[0][0] for p in parts] == [0, 3] and {p.rows for p in parts} == {8}


def test_pieces_of_a_cut_matrix_join_only_where_they_touch():
    root = Buffer("root", 5 * ROW)
    cut = Matrix("a", "Q4_K", 256, 4, ROW, ((0, 2, Buffer("x", 2 * ROW)), (2, 2, root.range(0, 2 * ROW))))
    (both,) = side_by_side([cut, matrix("b", 3, root.range(2 * ROW, 3 * ROW))])
    assert spans([both]) == [[(0, 2, 0, 2 * ROW), (2, 5, 0, 5 * ROW)]]


def test_rows_are_padded_to_eight():
    assert [row_stride(w) for w in ((8,), (9,), (256, 128, 8, 8), (1, 1))] == [8, 16, 400, 8]


def test_products_side_by_side(bench):
    """Two types, three weights, an odd width: each in its columns, the padding untouched."""
    rng = np.random.default_rng(3)
    raws = [random_rows(kind, n, 256, rng) for kind, n in (("Q4_K", 5), ("Q4_K", 6), ("Q6_K", 3))]
    x = rng.normal(size=(4, 256)).astype(np.float32)
    first = put_matrix(bench, "Q4_K", np.concatenate(raws[:2]))
    ((_, _, root),) = first.pieces
    weights = [matrix("a", 5, root.range(0, 5 * ROW)), matrix("b", 6, root.range(5 * ROW, 6 * ROW)),
               put_matrix(bench, "Q6_K", raws[2])]
    y, step = bench.empty(4, 16), bench.step(4)
    parts = side_by_side(weights)
    x_buffer = bench.put(x)
    bench.run(*(matmul(bench.profile, x_buffer, w, y, step, rows=4) for w in parts))
    got = bench.get(y, 4, 16)
    exact = np.concatenate([dequantize("Q4_K", np.concatenate(raws[:2])), dequantize("Q6_K", raws[2])])
    assert len(parts) == 2
    assert_close(got[:, :14], reference(x, exact), 1e-12)
    assert np.isnan(got[:, 14:]).all()

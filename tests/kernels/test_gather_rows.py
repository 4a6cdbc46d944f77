import numpy as np
import pytest

from spvk.kernels.gather_rows import gather_rows, reference
from spvk.kernels.profile import SCALAR, Profile
from spvk.recording import Buffer

CPU = Profile("cpu", 8, 8)


@pytest.mark.parametrize("profile", [CPU, SCALAR], ids=str)
@pytest.mark.parametrize("index,past,n", [([0], 0, 2), ([5, 1, 1], 2, 34), ([0, 1, 2, 3, 4, 5], 0, 2560)])
def test_copies_rows_behind_those_before(bench, index, past, n, profile):
    x = np.random.default_rng(42).normal(size=(6, n)).astype(np.float32)
    y, rows = bench.empty(6, n), bench.put(np.array(index + [99] * (6 - len(index)), np.uint32))
    step = bench.step(len(index), past=past)
    bench.run(gather_rows(profile, bench.put(x), rows, y, step, rows=6, n=n))
    out, end = bench.get(y, 6, n), past + len(index)
    assert np.array_equal(out[past:end], reference(x, index))
    assert np.isnan(out[:past]).all() and np.isnan(out[end:]).all()


def test_more_rows_than_workgroups(bench):
    x = np.random.default_rng(42).normal(size=(2100, 2)).astype(np.float32)
    index, y = np.arange(2100, dtype=np.uint32)[::-1], bench.empty(2100, 2)
    bench.run(gather_rows(CPU, bench.put(x), bench.put(index), y, bench.step(2100), rows=2100, n=2))
    assert np.array_equal(bench.get(y, 2100, 2), x[::-1])


def test_no_row_writes_nothing(bench):
    x, index, y = bench.put(np.ones((2, 4), np.float32)), bench.put(np.zeros(2, np.uint32)), bench.empty(2, 4)
    bench.run(gather_rows(CPU, x, index, y, bench.step(0), rows=2, n=4))
    assert np.isnan(bench.get(y, 2, 4)).all()


@pytest.mark.parametrize(
    "n,message", [(4, "x has 16 bytes, expected at least 32"), (3, "n is 3, expected a multiple of 2")]
)
def test_bad_arguments_are_named(n, message):
    b = Buffer("b", 16)
    with pytest.raises(ValueError, match=f"gather_rows: {message}"):
        gather_rows(CPU, b, b, b, b, rows=2, n=n)

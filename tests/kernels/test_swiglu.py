import numpy as np
import pytest

from conftest import assert_close
from spvk.kernels.profile import SCALAR, Profile
from spvk.kernels.swiglu import reference, swiglu
from spvk.recording import Buffer

CPU = Profile("cpu", 8, 8)


@pytest.mark.parametrize("profile", [CPU, Profile("cpu", 8, 32), SCALAR], ids=str)
@pytest.mark.parametrize("tokens,n", [(1, 4), (1, 12), (3, 20), (7, 332), (33, 512), (2, 1028)])
def test_matches_twin(bench, tokens, n, profile):
    rng = np.random.default_rng(42)
    rows = tokens + 2
    gate, up = (rng.normal(size=(rows, n)).astype(np.float32) * s for s in (6, 2))
    y = bench.empty(rows, n)
    bench.run(swiglu(profile, bench.put(gate), bench.put(up), y, bench.step(tokens), rows=rows, n=n))
    out = bench.get(y, rows, n)
    assert_close(out[:tokens], reference(gate[:tokens], up[:tokens]), 1e-12)
    assert np.isnan(out[tokens:]).all()  # to the very next value


def test_gate_and_up_side_by_side(bench):
    x = np.random.default_rng(43).normal(size=(5, 28)).astype(np.float32)  # 12 gates, 12 ups, 4 unused
    both, y = bench.put(x), bench.empty(5, 12)
    up = both.range(48, both.nbytes - 48)
    bench.run(swiglu(bench.profile, both, up, y, bench.step(4), rows=5, n=12, stride=28))
    out = bench.get(y, 5, 12)
    assert_close(out[:4], reference(x[:4, :12], x[:4, 12:24]), 1e-12)
    assert np.isnan(out[4]).all()


def test_extremes(bench):
    gate = np.array([[-np.inf, -1e30, -100, 0, 100, 1e30, np.inf, np.nan]], np.float32)
    y = bench.empty(1, 8)
    up = bench.put(np.full((1, 8), 2, np.float32))
    bench.run(swiglu(CPU, bench.put(gate), up, y, bench.step(1), rows=1, n=8))
    want = np.array([np.nan, 0, 0, 0, 200, 2e30, np.inf, np.nan], np.float32)
    assert np.array_equal(bench.get(y, 8), want, equal_nan=True)


def test_bad_arguments_are_named():
    b = Buffer("b", 64)
    with pytest.raises(ValueError, match="swiglu: gate has 64 bytes, expected at least 80"):
        swiglu(CPU, b, b, b, b, rows=1, n=20)
    with pytest.raises(ValueError, match="swiglu: n is 6, expected a multiple of 4"):
        swiglu(CPU, b, b, b, b, rows=1, n=6)
    with pytest.raises(ValueError, match="swiglu: up_offset is 4, expected a multiple of 16"):
        swiglu(CPU, b, b.range(4, 4), b, b, rows=1, n=4)

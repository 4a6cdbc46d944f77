import numpy as np
import pytest

from conftest import assert_close
from spvk.kernels.profile import Profile
from spvk.kernels.rms_norm import reference, rms_norm
from spvk.recording import Buffer


@pytest.mark.parametrize("local", [8, 64])
@pytest.mark.parametrize("rows,n", [(1, 1), (1, 64), (7, 100), (65, 576), (3, 1024)])
def test_matches_twin(bench, rows, n, local):
    rng = np.random.default_rng(42)
    x, weight = rng.normal(size=(rows, n)).astype(np.float32), rng.normal(size=n).astype(np.float32)
    y = bench.empty(rows, n)
    bench.run(
        rms_norm(
            Profile("cpu", 8, local),
            bench.put(x),
            bench.put(weight),
            y,
            bench.step(rows),
            rows=rows,
            n=n,
            eps=1e-6,
        )
    )
    assert_close(bench.get(y, rows, n), reference(x, weight, 1e-6), 1e-13)


def test_rows_beyond_the_step_are_untouched(bench):
    x = np.ones((5, 16), np.float32)
    y = bench.empty(5, 16)
    bench.run(rms_norm(bench.profile, bench.put(x), bench.put(x[0]), y, bench.step(2), rows=5, n=16, eps=0.0))
    out = bench.get(y, 5, 16)
    assert np.array_equal(out[:2], np.ones((2, 16), np.float32)) and np.isnan(out[2:]).all()


@pytest.mark.parametrize("tokens,n", [(1, 7), (3, 64), (5, 1022)])
def test_last_row_only(bench, tokens, n):
    x, weight = np.random.default_rng(7).normal(size=(2, 5, n)).astype(np.float32)
    y = bench.empty(2, n)
    bench.run(
        rms_norm(
            bench.profile,
            bench.put(x),
            bench.put(weight[0]),
            y,
            bench.step(tokens),
            rows=5,
            n=n,
            eps=1e-6,
            last=True,
        )
    )
    out = bench.get(y, 2, n)
    assert_close(out[0], reference(x[tokens - 1], weight[0], 1e-6), 1e-13)
    assert np.isnan(out[1]).all()


def test_last_row_of_no_tokens_writes_nothing(bench):
    y = bench.empty(4)
    x = bench.put(np.ones((2, 4), np.float32))
    bench.run(rms_norm(bench.profile, x, x, y, bench.step(0), rows=2, n=4, eps=1e-6, last=True))
    assert np.isnan(bench.get(y, 4)).all()


def test_short_buffer_is_named(bench):
    small = Buffer("x", 4)
    with pytest.raises(ValueError, match="rms_norm: x has 4 bytes, expected at least 64"):
        rms_norm(bench.profile, small, small, small, small, rows=1, n=16, eps=1e-6)

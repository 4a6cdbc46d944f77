import numpy as np
import pytest

from spvk.kernels.profile import SCALAR, Profile
from spvk.kernels.take_row import reference, take_row
from spvk.recording import Buffer

CPU = Profile("cpu", 8, 8)


@pytest.mark.parametrize("profile", [CPU, SCALAR], ids=str)
@pytest.mark.parametrize("tokens,n", [(1, 1), (3, 7), (5, 1001), (2, 2560)])
def test_copies_the_last_valid_row_into_a_range(bench, tokens, n, profile):
    x = np.random.default_rng(42).normal(size=(6, n)).astype(np.float32)
    whole = bench.empty(n + 5)
    bench.run(take_row(profile, bench.put(x), whole.range(12, 4 * n), bench.step(tokens), rows=6, n=n))
    out = bench.get(whole, n + 5)
    assert np.array_equal(out[3:3 + n], reference(x, tokens))
    assert np.isnan(out[:3]).all() and np.isnan(out[3 + n:]).all()


def test_no_token_writes_nothing(bench):
    y = bench.empty(4)
    bench.run(take_row(CPU, bench.put(np.ones((2, 4), np.float32)), y, bench.step(0), rows=2, n=4))
    assert np.isnan(bench.get(y, 4)).all()


def test_short_buffer_is_named():
    b = Buffer("b", 16)
    with pytest.raises(ValueError, match="take_row: x has 16 bytes, expected at least 32"):
        take_row(CPU, b, b, b, rows=2, n=4)

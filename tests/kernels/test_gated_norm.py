import numpy as np
import pytest

from conftest import assert_close
from spvk.kernels.gated_norm import gated_norm, reference
from spvk.kernels.profile import SCALAR, Profile
from spvk.recording import Buffer

CPU = Profile("cpu", 8, 8)


@pytest.mark.parametrize("profile", [CPU, Profile("cpu", 8, 32), SCALAR], ids=str)
@pytest.mark.parametrize("rows,heads,size", [(1, 1, 32), (7, 5, 64), (33, 3, 128), (2, 35, 96)])
def test_matches_twin(bench, rows, heads, size, profile):
    rng = np.random.default_rng(42)
    x, z = (rng.normal(size=(rows, heads, size)).astype(np.float32) * s for s in (3, 8))
    weight = rng.normal(size=size).astype(np.float32)
    y = bench.empty(rows + 2, heads, size)
    bench.run(gated_norm(profile, bench.put(np.pad(x, ((0, 2), (0, 0), (0, 0)))), bench.put(weight),
                         bench.put(np.pad(z, ((0, 2), (0, 0), (0, 0)))), y, bench.step(rows), rows=rows + 2,
                         heads=heads, size=size, eps=1e-6))
    out = bench.get(y, rows + 2, heads, size)
    assert_close(out[:rows], reference(x, weight, z, 1e-6), 1e-12)
    assert np.isnan(out[rows:]).all()


def test_zero_head_and_its_neighbour(bench):
    """eps keeps a head of zeros from dividing by zero, and heads do not mix."""
    x = np.zeros((1, 2, 32), np.float32)
    x[0, 1] = 3
    z = np.full((1, 2, 32), 100, np.float32)  # silu(100) = 100
    y = bench.empty(1, 2, 32)
    ones = bench.put(np.ones(32, np.float32))
    bench.run(gated_norm(CPU, bench.put(x), ones, bench.put(z), y, bench.step(1), rows=1, heads=2, size=32,
                         eps=7.0))  # 9 + 7 = 4^2
    out = bench.get(y, 1, 2, 32)
    assert np.array_equal(out[0, 0], np.zeros(32, np.float32))
    assert np.array_equal(out[0, 1], np.full(32, 75, np.float32))


def test_bad_arguments_are_named():
    b = Buffer("b", 256)
    with pytest.raises(ValueError, match="gated_norm: size is 48, expected a multiple of 32"):
        gated_norm(CPU, b, b, b, b, b, rows=1, heads=1, size=48, eps=0)
    with pytest.raises(ValueError, match="gated_norm: size is 512, expected at most 256"):
        gated_norm(CPU, b, b, b, b, b, rows=1, heads=1, size=512, eps=0)
    with pytest.raises(ValueError, match="gated_norm: x has 256 bytes, expected at least 384"):
        gated_norm(CPU, b, b, b, b, b, rows=1, heads=3, size=32, eps=0)

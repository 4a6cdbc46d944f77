import numpy as np
import pytest

from spvk.kernels.probe import probe, read_reference, reference
from spvk.kernels.profile import Profile
from spvk.recording import Buffer

PROFILES = [Profile("cpu", 8, 8), Profile("scalar", 8, 64)]


@pytest.mark.parametrize("profile", PROFILES, ids=str)
@pytest.mark.parametrize("rows,n", [(1, 0), (1, 32), (5, 64), (3, 480)])
def test_multiply_adds_match_twin_to_the_bit(bench, profile, rows, n):
    y = bench.empty(rows, profile.local)
    bench.run(probe(profile, y, y, rows=rows, n=n))
    assert np.array_equal(bench.get(y, rows * profile.local), reference(rows * profile.local, n))


@pytest.mark.parametrize("profile", PROFILES, ids=str)
@pytest.mark.parametrize("rows,n", [(1, 0), (1, 4), (5, 12), (3, 100)])
def test_every_word_is_read_once(bench, profile, rows, n):
    x = np.random.default_rng(0).integers(0, 2**32, (rows, n, profile.local, 8), np.uint32)
    y = bench.empty(rows, profile.local)
    bench.run(probe(profile, bench.put(x), y, rows=rows, n=n, read=True))
    assert np.array_equal(bench.get(y, rows, profile.local, dtype=np.uint32), read_reference(x))


def test_flops_are_those_of_the_chains():
    assert probe(PROFILES[0], Buffer("x", 0), Buffer("y", 320), rows=10, n=32).flops == 10 * 8 * 32 * 10 * 2


def test_bad_sizes_are_named():
    x, y = Buffer("x", 4 * 8 * 32), Buffer("y", 32)
    with pytest.raises(ValueError, match="probe: n is 8, expected a multiple of 32"):
        probe(PROFILES[0], x, y, rows=1, n=8)
    with pytest.raises(ValueError, match="probe: x has 1024 bytes, expected at least 2048"):
        probe(PROFILES[0], x, y, rows=1, n=8, read=True)
    with pytest.raises(ValueError, match="probe: y has 32 bytes, expected at least 64"):
        probe(PROFILES[0], x, y, rows=2, n=32)

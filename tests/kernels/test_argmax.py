import numpy as np
import pytest

from spvk.kernels.argmax import argmax, reference
from spvk.kernels.profile import Profile
from spvk.kernels.top_k import NO_ID, scratch_bytes
from spvk.recording import Buffer


def run(bench, x, local=8):
    out, scratch = bench.put(np.zeros(1, np.uint32)), bench.put(np.full(scratch_bytes(), 0xAB, np.uint8))
    bench.run(argmax(Profile("cpu", 8, local), bench.put(x), out, scratch, n=len(x)))
    return int(bench.get(out, 1, dtype=np.uint32)[0])


@pytest.mark.parametrize("local", [8, 64, 256])
@pytest.mark.parametrize("n", [1, 2, 7, 511, 513, 65537, 248320])
def test_matches_twin(bench, n, local):
    x = np.random.default_rng(n).normal(size=n).astype(np.float32)
    assert run(bench, x, local) == reference(x)


def test_the_first_of_equals(bench):
    x = np.full(1025, -7, np.float32)
    assert run(bench, x) == 0
    x[[300, 301, 900]] = 5
    assert run(bench, x) == 300
    x[:], x[4] = -np.inf, -3e38
    assert run(bench, x) == 4
    assert run(bench, np.array([-0.0, 0.0, -1.0], np.float32)) == 0


@pytest.mark.parametrize("where", [0, 500, 1000])
def test_any_nan_is_reported(bench, where):
    x = np.random.default_rng(3).normal(size=1001).astype(np.float32)
    x[where], x[17] = np.nan, np.inf
    assert run(bench, x) == NO_ID == reference(x)


def test_short_buffer_is_named():
    b = Buffer("b", 4096)
    with pytest.raises(ValueError, match="argmax: x has 4096 bytes, expected at least 4100"):
        argmax(Profile("cpu", 8, 8), b, b, b, n=1025)

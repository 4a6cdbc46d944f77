import numpy as np
import pytest

from spvk.kernels.profile import Profile
from spvk.kernels.top_k import NO_ID, reference, scratch_bytes, top_k
from spvk.recording import Buffer

CPU = Profile("cpu", 8, 8)


def run(bench, x, k, local=8):
    n = len(x)
    ids, values = bench.put(np.zeros(k + 1, np.uint32)), bench.empty(k + 1)
    scratch = bench.put(np.full(scratch_bytes(), 0xAB, np.uint8))
    bench.run(top_k(Profile("cpu", 8, local), bench.put(x), ids, values, scratch, n=n, k=k))
    got_ids, got_values = bench.get(ids, k + 1, dtype=np.uint32), bench.get(values, k + 1)
    assert got_ids[k] == 0 and np.isnan(got_values[k])  # nothing behind the end
    return got_ids[:k], got_values[:k]


def check(bench, x, k, local=8):
    ids, values = run(bench, x, k, local)
    exact_ids, exact_values = reference(x, k)
    assert np.array_equal(ids, exact_ids)
    assert np.array_equal(values, exact_values)


@pytest.mark.parametrize("local", [8, 64, 256])
@pytest.mark.parametrize("n,k", [(1, 1), (2, 2), (63, 63), (64, 64), (513, 64), (1001, 20), (248320, 64)])
def test_matches_twin(bench, n, k, local):
    check(bench, np.random.default_rng(42).normal(size=n).astype(np.float32), k, local)


@pytest.mark.parametrize("local", [8, 64])
@pytest.mark.parametrize("order", ["rising", "falling", "equal", "few", "zeros", "infinite"])
def test_orders_and_ties(bench, order, local):
    n = 5003
    x = {"rising": np.arange(n), "falling": -np.arange(n), "equal": np.full(n, -3.5),
         "few": np.random.default_rng(1).integers(-2, 3, n), "zeros": np.where(np.arange(n) % 2, 0.0, -0.0),
         "infinite": np.where(np.arange(n) % 97 == 5, np.inf, -np.inf)}[order].astype(np.float32)
    check(bench, x, 64, local)


def test_nan_goes_first(bench):
    x = np.arange(3000, dtype=np.float32)
    x[1234], x[77] = np.nan, -np.nan
    ids, values = run(bench, x, 4)
    assert ids.tolist() == [NO_ID, NO_ID, 2999, 2998]
    assert np.isnan(values[:2]).all() and values[2:].tolist() == [2999, 2998]


def test_bad_arguments_are_named():
    b = Buffer("b", 4096)
    with pytest.raises(ValueError, match="top_k: k is 65, expected 1 to 64"):
        top_k(CPU, b, b, b, b, n=1000, k=65)
    with pytest.raises(ValueError, match="top_k: k is 4, expected 1 to 3"):
        top_k(CPU, b, b, b, b, n=3, k=4)
    with pytest.raises(ValueError, match="top_k: x has 4096 bytes, expected at least 4400"):
        top_k(CPU, b, b, b, b, n=1100, k=4)

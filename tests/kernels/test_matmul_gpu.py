"""Products of packed rows on GPUs: classes dot and coopmat.

The latter by `pytest -m coopmat`, on a driver with cooperative matrices (bench/coopmat.sh sets one up).
"""

import numpy as np
import pytest

from blocks import dequantize, put_matrix, random_rows
from conftest import assert_close
from spvk.kernels import quantize_rows
from spvk.kernels.matmul import matmul, reference
from spvk.kernels.profile import Profile
from spvk.recording import Buffer, Matrix
from spvk.shaders import QUANTS

CLASSES = ["dot", pytest.param("coopmat", marks=pytest.mark.coopmat)]
BUDGET = 1e-12            # against the twin
ROUNDING = {"coopmat": 5e-7, "dot": 1e-4}  # against the exact product


@pytest.fixture(params=CLASSES)
def gpu(request, device) -> Profile:
    """A profile of each class that multiplies packed rows, for the device that is here."""
    info = device.info
    if request.param == "coopmat":
        assert info.matrix, f"{info.name} has no cooperative matrices"
    return Profile(request.param, info.subgroup[1], 256, "fast", info.matrix, info.subgroup[1],
                   info.shared_memory)


def product(bench, profile, x, w, *, tokens=None, y=None, accumulate=False):
    rows, k = x.shape
    out = bench.empty(rows, w.rows) if y is None else bench.put(y)
    step = bench.step(rows if tokens is None else tokens)
    source = bench.put(x)
    packed = bench.put(np.full(quantize_rows.packed_bytes(profile, rows, k), 0xFF, np.uint8))
    bench.run(quantize_rows.quantize_rows(profile, source, packed, step, rows=rows, k=k))
    bench.run(matmul(profile, source, w, out, step, rows=rows, accumulate=accumulate, packed=packed))
    return bench.get(out, rows, w.rows)


def twin(profile, x, weights):
    """What the class computes, in float64 but for its roundings."""
    if profile.name == "dot":
        return reference(quantize_rows.reference(x), weights)
    return reference(quantize_rows.reference_half(x), weights.astype(np.float16))


def normal(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("name", QUANTS)
def test_every_type(bench, name, gpu):
    """Against the twin, against the exact product, and exactly where all values are whole and small."""
    rng = np.random.default_rng(21)
    raw, x = random_rows(name, 19, 512, rng), normal(rng, 3, 512)
    got, weights = product(bench, gpu, x, put_matrix(bench, name, raw)), dequantize(name, raw)
    assert_close(got, twin(gpu, x, weights), BUDGET, f"{name} {gpu.name}")
    assert_close(got, reference(x, weights), ROUNDING[gpu.name], f"{name} {gpu.name}, rounding")
    raw, x = random_rows(name, 19, 512, rng, integers=True), rng.integers(-2, 3, (3, 512)).astype(np.float32)
    x[:, ::32] = 127  # a scale of one for each 32 elements, where there is one
    got = product(bench, gpu, x, put_matrix(bench, name, raw))
    assert np.array_equal(got, twin(gpu, x, dequantize(name, raw)))


@pytest.mark.parametrize("rows,n,k", [(2, 5, 256), (33, 130, 768), (64, 128, 256), (150, 129, 256)])
def test_ragged_shapes(bench, monkeypatch, rows, n, k, gpu):
    """In the largest tiles that the device has room for."""
    monkeypatch.setattr("spvk.kernels.matmul.COOP_GROUPS", 1)
    rng = np.random.default_rng(22)
    raw, x = random_rows("Q4_K", n, k, rng), normal(rng, rows, k)
    got = product(bench, gpu, x, put_matrix(bench, "Q4_K", raw))
    assert_close(got, twin(gpu, x, dequantize("Q4_K", raw)), BUDGET)


@pytest.mark.parametrize("k", [32, 96, 160])
def test_short_rows(bench, k, gpu):
    rng = np.random.default_rng(23)
    raw, x = random_rows("Q4_0", 6, k, rng), normal(rng, 3, k)
    got = product(bench, gpu, x, put_matrix(bench, "Q4_0", raw))
    assert_close(got, twin(gpu, x, dequantize("Q4_0", raw)), BUDGET)


def test_pieces_and_accumulation(bench, gpu):
    rng = np.random.default_rng(24)
    raw, x, y = random_rows("Q4_K", 40, 256, rng), normal(rng, 3, 256), normal(rng, 3, 40)
    exact = twin(gpu, x, dequantize("Q4_K", raw))
    w = put_matrix(bench, "Q4_K", raw, cuts=(13, 14))
    assert_close(product(bench, gpu, x, w), exact, BUDGET)
    assert_close(product(bench, gpu, x, w, y=y, accumulate=True), y + exact, BUDGET)


def test_rows_depend_on_nothing_but_themselves(bench, gpu):
    """The same rows in a larger batch, beside NaN rows, with fewer of them valid: the same to the bit."""
    rng = np.random.default_rng(25)
    w, x = put_matrix(bench, "Q4_K", random_rows("Q4_K", 30, 256, rng)), normal(rng, 70, 256)
    all_rows = product(bench, gpu, x, w)
    some = product(bench, gpu, x, w, tokens=7)
    assert np.array_equal(some[:7], all_rows[:7]) and np.isnan(some[7:]).all()
    x[[3, 9]] = np.nan
    beside = product(bench, gpu, x, w)
    rest = [i for i in range(len(x)) if i not in (3, 9)]
    assert np.array_equal(beside[rest], all_rows[rest]) and np.isnan(beside[[3, 9]]).all()
    assert np.array_equal(product(bench, gpu, x[:3], w)[:3], beside[:3], equal_nan=True)


def test_rows_of_any_size_are_rounded_alike(bench, gpu):
    """A row times powers of two far beyond half precision: the same product times them, to the bit."""
    rng = np.random.default_rng(26)
    w, x = put_matrix(bench, "Q4_K", random_rows("Q4_K", 30, 256, rng)), normal(rng, 1, 256)
    sizes = np.float32(2.0) ** np.float32([[0], [-80], [-20], [20], [100]])
    got = product(bench, gpu, np.vstack([x * sizes, 0 * x]), w)
    assert np.array_equal(got[:5], got[:1] * sizes) and (got[5] == 0).all() and (got[0] != 0).all()


def test_infinities_do_not_vanish(bench, gpu):
    rng = np.random.default_rng(27)
    w, x = put_matrix(bench, "Q4_K", random_rows("Q4_K", 30, 256, rng)), normal(rng, 2, 256)
    alone = product(bench, gpu, x, w)
    x[0, 5] = np.inf
    got = product(bench, gpu, x, w)
    assert not np.isfinite(got[0]).any() and np.array_equal(got[1], alone[1])


@pytest.mark.parametrize("rows,n,groups,wave", [
    (2, 3000, (24, 1, 1), (32, 32, 32)), (64, 3000, (24, 2, 1), (32, 32, 32)),
    (64, 6000, (47, 1, 1), (64, 64, 32)), (128, 3000, (24, 2, 1), (64, 64, 32)),
    (512, 3000, (24, 4, 1), (128, 64, 64)),
])
def test_dispatches_of_class_coopmat(rows, n, groups, wave):
    profile = Profile("coopmat", 64, 256, "fast")
    w = Matrix("w", "Q4_K", 1024, n, 576, ((0, n, Buffer("w", n * 576)),))
    x, y = Buffer("x", 4 * rows * 1024), Buffer("y", 4 * rows * n)
    packed = Buffer("packed", quantize_rows.packed_bytes(profile, rows, 1024))
    (d,) = matmul(profile, x, w, y, Buffer("step", 16), rows=rows, packed=packed)
    assert (d.module, d.groups) == ("matmul.q4_k.coop", groups)
    assert tuple(d.spec[n] for n in ("ROWS", "WAVE_ROWS", "WAVE_COLUMNS")) == wave
    assert d.spec["SUBGROUP"] == 32 and d.flops == 2 * rows * n * 1024

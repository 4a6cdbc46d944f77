import numpy as np
import pytest

from blocks import dequantize, put_matrix, random_rows
from conftest import assert_close
from spvk.kernels.matvec import matvec, reference
from spvk.kernels.profile import Profile
from spvk.kernels.weights import fold
from spvk.recording import MAX_GROUPS, Buffer, Matrix
from spvk.shaders import WEIGHT_TYPES

PROFILES = {"cpu": Profile("cpu", 8, 8), "scalar": Profile("scalar", 8, 256)}
BUDGET = 1e-12


def product(bench, profile, x, w, y=None):
    out = bench.empty(w.rows) if y is None else bench.put(y)
    bench.run(matvec(profile, bench.put(x), w, out, accumulate=y is not None))
    return bench.get(out, w.rows)


def normal(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("kind", PROFILES)
@pytest.mark.parametrize("name", WEIGHT_TYPES)
def test_every_type(bench, name, kind):
    """Against the twin, and exactly where all values are whole and sums stay below 2^24."""
    rng = np.random.default_rng(12)
    raw, x = random_rows(name, 37, 768, rng), normal(rng, 768)
    got = product(bench, PROFILES[kind], x, put_matrix(bench, name, raw))
    assert_close(got, reference(x, dequantize(name, raw)), BUDGET, f"{name} {kind}")
    raw, x = random_rows(name, 37, 768, rng, integers=True), rng.integers(-2, 3, 768).astype(np.float32)
    got = product(bench, PROFILES[kind], x, put_matrix(bench, name, raw))
    assert np.array_equal(got, reference(x, dequantize(name, raw)))


@pytest.mark.parametrize("profile", [Profile("cpu", 8, 8), Profile("cpu", 8, 32), Profile("scalar", 8, 64),
                                     Profile("scalar", 4, 64), Profile("scalar", 1, 8)])
@pytest.mark.parametrize("name,n,k", [("F32", 1, 8), ("F16", 9, 56), ("Q8_0", 17, 32), ("Q5_0", 700, 96)])
def test_odd_sizes_and_lanes(bench, name, n, k, profile):
    rng = np.random.default_rng(13)
    raw, x = random_rows(name, n, k, rng), normal(rng, k)
    got = product(bench, profile, x, put_matrix(bench, name, raw))
    assert_close(got, reference(x, dequantize(name, raw)), BUDGET)


@pytest.mark.parametrize("kind", PROFILES)
def test_pieces_and_accumulation(bench, kind):
    rng = np.random.default_rng(14)
    raw, x, y = random_rows("Q6_K", 50, 256, rng), normal(rng, 256), normal(rng, 50)
    exact = reference(x, dequantize("Q6_K", raw))
    w = put_matrix(bench, "Q6_K", raw, cuts=(17, 18))
    assert_close(product(bench, PROFILES[kind], x, w), exact, BUDGET)
    assert_close(product(bench, PROFILES[kind], x, w, y), y + exact, BUDGET)


def test_more_rows_than_one_axis_of_workgroups(bench, monkeypatch):
    """70,001 rows, a row a workgroup: the grid is folded, and cut into submissions as well."""
    rng = np.random.default_rng(15)
    raw, x = random_rows("Q4_0", 70001, 32, rng), normal(rng, 32)
    w, profile = put_matrix(bench, "Q4_0", raw), Profile("scalar", 1, 8)
    assert fold(70001) == (35001, 2) and fold(MAX_GROUPS) == (MAX_GROUPS, 1)
    exact = reference(x, dequantize("Q4_0", raw))
    monkeypatch.setattr("spvk.kernels.weights.MAX_GROUPS", 4000)
    assert matvec(profile, Buffer("x", 128), w, Buffer("y", 4 * 70001))[0].groups == (2917, 3, 1)
    monkeypatch.setattr("spvk.vulkan.commands.SUBMISSION_SECONDS", 1e-4)
    assert_close(product(bench, profile, x, w), exact, BUDGET)


def test_short_buffers_and_unreadable_matrices_are_named():
    w = Matrix("head", "Q6_K", 256, 4, 210, ((0, 4, Buffer("w", 840)),))
    with pytest.raises(ValueError, match="matvec: x has 4 bytes, expected at least 1024"):
        matvec(PROFILES["cpu"], Buffer("x", 4), w, Buffer("y", 16))
    with pytest.raises(ValueError, match="matvec: y has 4 bytes, expected at least 16"):
        matvec(PROFILES["cpu"], Buffer("x", 1024), w, Buffer("y", 4))
    with pytest.raises(ValueError, match="matvec: head is Q8_K, expected one of F32"):
        matvec(PROFILES["cpu"], Buffer("x", 1024), Matrix("head", "Q8_K", 256, 4, 292, ()), Buffer("y", 16))

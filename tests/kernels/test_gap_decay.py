import numpy as np
import pytest

from conftest import assert_close
from spvk.kernels.gap_decay import ESTIMATES, gap_decay, reference
from spvk.kernels.profile import SCALAR, Profile
from spvk.recording import Buffer

CPU = Profile("cpu", 8, 8)


def problem(rows, heads, stride, seed=42):
    """alpha [rows, stride] (NaN beyond the heads), dt_bias, a, gaps."""
    rng = np.random.default_rng(seed)
    alpha = np.full((rows, stride), np.nan, np.float32)
    alpha[:, :heads] = rng.normal(size=(rows, heads)) * 3
    dt_bias = (rng.normal(size=heads) - 2).astype(np.float32)
    a = -np.exp(rng.uniform(-7, 2.7, heads)).astype(np.float32)
    gaps = ((rng.integers(0, 3, rows) == 0) * rng.integers(1, 3000, rows)).astype(np.uint32)
    return alpha, dt_bias, a, gaps


def run(bench, profile, parts, heads, stride, estimate, splits, total, past=0):
    """(y, total) from the device, in batches of `splits` in buffers for 40 rows."""
    alpha, dt_bias, a, gaps = parts
    fixed, carried, at, out = (bench.put(dt_bias), bench.put(a)), bench.put(total), 0, []
    for count in splits:
        rows = np.zeros((40, stride), np.float32), np.zeros(40, np.uint32)
        rows[0][:count], rows[1][:count] = alpha[at : at + count], gaps[at : at + count]
        y, step = bench.empty(40, heads), bench.step(count, past=past + at)
        buffers = bench.put(rows[0]), *fixed, bench.put(rows[1]), carried, y, step
        sizes = dict(rows=40, value_heads=heads, gate_stride=stride, estimate=estimate)
        bench.run(gap_decay(profile, *buffers, **sizes))
        out.append(bench.get(y, 40, heads))
        assert np.isnan(out[-1][count:]).all()
        out[-1], at = out[-1][:count], at + count
    return np.concatenate(out), bench.get(carried, heads)


@pytest.mark.parametrize("profile", [CPU, SCALAR], ids=str)
@pytest.mark.parametrize("estimate", ESTIMATES)
@pytest.mark.parametrize("heads,stride", [(1, 1), (16, 16), (100, 131)])
def test_matches_twin(bench, profile, estimate, heads, stride):
    parts = problem(40, heads, stride)
    total = -np.random.default_rng(1).random(heads).astype(np.float32) * 20
    y, carried = run(bench, profile, parts, heads, stride, estimate, [40], total, past=7)
    alpha, *others = parts
    exact_y, exact_total = reference(alpha[:, :heads], *others, total, 7, estimate)
    assert_close(y, exact_y, 1e-12, "y")
    assert_close(carried, exact_total, 1e-12, "total")
    assert (y[parts[3] == 0] == 0).all() and (y <= 0).all()


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_how_the_rows_are_cut_does_not_matter(bench, estimate):
    parts, zeros = problem(40, 4, 6), np.zeros(4, np.float32)
    whole = run(bench, CPU, parts, 4, 6, estimate, [40], zeros)
    for splits in ([1] * 40, [0, 13, 0, 27]):
        cut = run(bench, CPU, parts, 4, 6, estimate, splits, zeros)
        assert np.array_equal(cut[0], whole[0]) and np.array_equal(cut[1], whole[1])


def test_the_mean_is_of_the_tokens_before():
    """By hand: log decays -ln 2, then twice that; nothing is known before the first token."""
    zeros, gaps = np.zeros(1), np.array([5, 1, 10])
    alpha = np.log([[1.0], [3.0], [1.0]])  # softplus: ln 2, ln 4, ln 2
    y, total = reference(alpha, zeros, -np.ones(1), gaps, zeros, 0, "mean")
    assert np.allclose(y.ravel() / np.log(2), [0, -1, -15]) and np.allclose(total / np.log(2), -4)
    y, _ = reference(alpha, zeros, -np.ones(1), gaps, zeros, 0, "typical")
    assert np.allclose(y.ravel() / np.log(2), [-5, -1, -10])


@pytest.mark.parametrize("change,message", [
    (dict(estimate="median"), "estimate is 'median', expected one of"),
    (dict(rows=9), "gaps has 32 bytes, expected at least 36"),
    (dict(gate_stride=9), "alpha has 256 bytes, expected at least 280"),
])  # fmt: skip
def test_bad_arguments_are_named(change, message):
    b, gaps = Buffer("b", 256 if "gate_stride" in change else 4096), Buffer("gaps", 32)
    with pytest.raises(ValueError, match=f"gap_decay: {message}"):
        numbers = dict(rows=8, value_heads=7, estimate="mean") | change
        gap_decay(CPU, b, b, b, gaps, b, b, b, **numbers)

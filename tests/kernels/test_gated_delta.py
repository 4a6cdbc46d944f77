import numpy as np
import pytest

from conftest import assert_close
from spvk.kernels.gated_delta import gated_delta, reference, state_to_numpy
from spvk.kernels.profile import SCALAR, Profile
from spvk.recording import Buffer

CPU = Profile("cpu", 8, 8)
EPS = 1e-6


class Problem:
    """Random inputs of one layer: slow and fast decays, values off zero, queries and keys of any length."""

    def __init__(self, rows, key_heads, value_heads, size, seed=42):
        rng = np.random.default_rng(seed)
        self.rows, self.shape = rows, dict(key_heads=key_heads, value_heads=value_heads, size=size, eps=EPS)
        normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
        inner = value_heads * size
        self.conv = np.concatenate(
            [normal(rows, 2 * key_heads * size), rng.uniform(-0.3, 5, (rows, inner)).astype(np.float32)],
            axis=1,
        )
        self.alpha, self.beta = normal(rows, value_heads) * 3, normal(rows, value_heads) * 2
        self.dt_bias = normal(value_heads) - 2
        self.a = -np.exp(rng.uniform(-7, 2.7, value_heads)).astype(np.float32)
        self.state = normal(value_heads, size, size)
        self.gaps: np.ndarray | None = None  # float32 [rows, value_heads]

    def exact(self):
        """(y, S) of the twin, started from this state as S [head, k, v]."""
        numbers = {k: v for k, v in self.shape.items() if k != "value_heads"}
        return reference(
            self.conv,
            self.alpha,
            self.beta,
            self.dt_bias,
            self.a,
            self.state.transpose(0, 2, 1),
            gaps=self.gaps,
            **numbers,
        )

    def run(self, bench, profile=CPU, splits=None, capacity=None):
        """y and S from the device: rows in batches of `splits`, buffers sized for `capacity` rows."""
        heads, size = self.shape["value_heads"], self.shape["size"]
        capacity = capacity or self.rows
        state, dt_bias, a = bench.put(self.state), bench.put(self.dt_bias), bench.put(self.a)
        at, out = 0, []
        for count in splits or [self.rows]:
            inputs = self.conv, self.alpha, self.beta
            parts = [bench.put(padded(x[at : at + count], capacity)) for x in inputs]
            y, numbers = bench.empty(capacity, heads * size), dict(self.shape, rows=capacity)
            if self.gaps is not None:
                numbers["gaps"] = bench.put(padded(self.gaps[at : at + count], capacity))
            bench.run(gated_delta(profile, *parts, dt_bias, a, state, y, bench.step(count), **numbers))
            out.append(bench.get(y, capacity, heads * size))
            assert np.isnan(out[-1][count:]).all()  # rows beyond the step are untouched
            out[-1], at = out[-1][:count], at + count
        return np.concatenate(out), state_to_numpy(bench.get(state, heads * size * size), heads, size)


def padded(x, rows):
    """x with NaN rows behind it: they must not be used."""
    return np.concatenate([x, np.full((rows - len(x), *x.shape[1:]), np.nan, np.float32)])


@pytest.mark.parametrize("rows", [1, 4, 33, 64, 65, 100, 127, 200, 256])
def test_matches_twin(bench, rows):
    p = Problem(rows, 2, 4, 128)  # each key head serves two value heads
    y, state = p.run(bench)
    exact_y, exact_state = p.exact()
    assert_close(y, exact_y, 1e-10, "y")
    assert_close(state, exact_state, 1e-10, "state")


@pytest.mark.parametrize("profile", [CPU, Profile("cpu", 8, 32), Profile("scalar", 8, 64), SCALAR], ids=str)
@pytest.mark.parametrize("size,key_heads,value_heads", [(32, 3, 3), (64, 1, 3), (128, 1, 1)])
def test_every_shape_and_workgroup(bench, profile, size, key_heads, value_heads):
    p = Problem(37, key_heads, value_heads, size)
    y, state = p.run(bench, profile)
    exact_y, exact_state = p.exact()
    assert_close(y, exact_y, 1e-10, "y")
    assert_close(state, exact_state, 1e-10, "state")


@pytest.mark.parametrize("splits", [[7, 57], [1] * 64])
def test_the_state_carries_over_batches(bench, splits):
    p = Problem(64, 2, 4, 32)
    whole_y, whole_state = p.run(bench)
    y, state = p.run(bench, splits=splits, capacity=57)
    assert_close(y, whole_y, 1e-12, "y")
    assert_close(state, whole_state, 1e-12, "state")


@pytest.mark.parametrize("profile", [CPU, SCALAR], ids=str)
@pytest.mark.parametrize("splits", [None, [7, 30, 3]], ids=str)
@pytest.mark.parametrize("size", [32, 64, 128])
def test_the_state_decays_over_gaps(bench, profile, splits, size):
    p, rng = Problem(40, 2, 4, size), np.random.default_rng(3)
    gaps = (rng.integers(0, 3, 40) == 0) * rng.integers(1, 200, 40)  # before every third token or so
    p.gaps = np.multiply.outer(gaps, np.array([-1e-4, -0.01, -0.3, -5])).astype(np.float32)
    p.gaps[-1] = [0, -1, -80, -1e6]
    y, state = p.run(bench, profile, splits, 40)
    exact_y, exact_state = p.exact()
    assert_close(y, exact_y, 1e-10, "y")
    assert_close(state, exact_state, 1e-10, "state")
    p.gaps = None
    assert not np.allclose(p.exact()[0], exact_y, rtol=1e-3)


def test_no_gap_is_no_change(bench):
    p = Problem(40, 2, 4, 64)
    plain_y, plain_state = p.run(bench)
    p.gaps = np.zeros((40, 4), np.float32)
    y, state = p.run(bench)
    assert np.array_equal(y, plain_y) and np.array_equal(state, plain_state)


@pytest.mark.parametrize("alpha", [-50.0, 50.0])
def test_extreme_gates(bench, alpha):
    """g -> 1 (the state is kept to the last digit) and g -> 0 (only the newest token counts)."""
    p = Problem(40, 2, 2, 64)
    p.alpha[:], p.beta[::2], p.beta[1::2], p.a[:] = alpha, 50, -50, -16
    y, state = p.run(bench)
    exact_y, exact_state = p.exact()
    assert np.isfinite(y).all() and np.isfinite(state).all()
    assert_close(y, exact_y, 1e-10, "y")
    assert_close(state, exact_state, 1e-10, "state")  # for g -> 0 about 1e-22, what the last beta lets in


def test_a_slow_decay_does_not_drift(bench):
    """256 tokens with nothing written: what is left is the product of the decays."""
    p = Problem(256, 1, 2, 32)
    p.beta[:], p.alpha[:] = -200, np.linspace(-9, 1, 512, dtype=np.float32).reshape(256, 2)
    p.a[:] = -0.05
    _, state = p.run(bench)
    assert_close(state, p.exact()[1], 1e-11, "state")


def test_zero_queries_and_keys(bench):
    p = Problem(9, 1, 2, 32)
    p.conv[2:5, :64], p.conv[6, :32] = 0, 0
    y, state = p.run(bench)
    assert np.array_equal(y[2:5], np.zeros_like(y[2:5]))
    exact_y, exact_state = p.exact()
    assert_close(y, exact_y, 1e-10, "y")
    assert_close(state, exact_state, 1e-10, "state")


def test_no_token_leaves_the_state(bench):
    p = Problem(0, 1, 1, 32)
    _, state = p.run(bench, splits=[0], capacity=3)
    assert np.array_equal(state, p.state.transpose(0, 2, 1))


@pytest.mark.parametrize(
    "change,message",
    [
        (dict(size=48), r"gated_delta: size is 48, expected one of \(32, 64, 128\)"),
        (dict(key_heads=3), "gated_delta: value_heads is 4, expected a multiple of 3"),
        (dict(rows=100000), "gated_delta: conv has 1000000 bytes, expected at least 102400000"),
    ],
)
def test_bad_arguments_are_named(change, message):
    b = Buffer("b", 1000000)
    with pytest.raises(ValueError, match=message):
        numbers = dict(rows=1, key_heads=2, value_heads=4, size=32, eps=EPS) | change
        gated_delta(CPU, b, b, b, b, b, b, b, b, **numbers)


def test_short_gaps_are_named():
    b, gaps = Buffer("b", 1000000), Buffer("gaps", 20)
    with pytest.raises(ValueError, match="gated_delta: gaps has 20 bytes, expected at least 24"):
        numbers = dict(rows=3, key_heads=1, value_heads=2, size=32, eps=EPS)
        gated_delta(CPU, b, b, b, b, b, b, b, b, gaps=gaps, **numbers)

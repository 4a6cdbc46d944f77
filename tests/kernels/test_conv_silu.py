import numpy as np
import pytest

from conftest import assert_close
from spvk.kernels.conv_silu import conv_silu, reference
from spvk.kernels.profile import SCALAR, Profile
from spvk.recording import Buffer

CPU = Profile("cpu", 8, 8)


def problem(rows, channels, seed=42):
    rng = np.random.default_rng(seed)
    shapes = (rows, channels), (channels, 4), (3, channels)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def run(bench, x, weight, state, splits, capacity, profile=CPU):
    """y and the state after the rows of x in batches of `splits`, buffers sized for `capacity` rows."""
    channels, at, out = x.shape[1], 0, []
    weight, state = bench.put(weight), bench.put(state)
    for count in splits:
        rows = np.full((capacity, channels), np.nan, np.float32)
        rows[:count] = x[at:at + count]
        y = bench.empty(capacity, channels)
        bench.run(conv_silu(profile, bench.put(rows), weight, state, y, bench.step(count), rows=capacity,
                            channels=channels))
        got = bench.get(y, capacity, channels)
        assert np.isnan(got[count:]).all()  # rows beyond the step are untouched
        out.append(got[:count])
        at += count
    return np.concatenate(out), bench.get(state, 3, channels)


@pytest.mark.parametrize("profile", [CPU, Profile("cpu", 8, 32), SCALAR], ids=str)
@pytest.mark.parametrize("rows,channels", [(1, 2), (2, 34), (3, 96), (65, 258), (33, 1000)])
def test_matches_twin(bench, rows, channels, profile):
    x, weight, state = problem(rows, channels)
    y, after = run(bench, x, weight, state, [rows], rows, profile)
    exact_y, exact_after = reference(x, weight, state)
    assert_close(y, exact_y, 1e-12)
    assert np.array_equal(after, exact_after.astype(np.float32))


@pytest.mark.parametrize("splits", [[7, 57], [1] * 64, [2, 0, 1, 61]])
def test_the_state_carries_over_batches(bench, splits):
    x, weight, state = problem(64, 50)
    whole = run(bench, x, weight, state, [64], 64)
    parts = run(bench, x, weight, state, splits, 61)
    assert np.array_equal(parts[0], whole[0]) and np.array_equal(parts[1], whole[1])


def test_the_oldest_token_comes_first(bench):
    """A weight of one at tap j shifts by 3 - j tokens; silu of a large number is that number."""
    x = np.arange(100, 116, dtype=np.float32).reshape(8, 2)
    for tap in range(4):
        weight = np.zeros((2, 4), np.float32)
        weight[:, tap] = 1
        y, _ = run(bench, x, weight, np.full((3, 2), 64, np.float32), [8], 8)
        want = np.concatenate([np.full((3, 2), 64, np.float32), x])[tap:tap + 8]
        assert np.array_equal(y, want)


def test_silu_keeps_its_digits_at_the_ends(bench):
    """Relative error of 1e-6 in every single value, from e^-87 to 88."""
    x = np.linspace(-86, 88, 512, dtype=np.float32).reshape(1, 512)
    weight = np.zeros((512, 4), np.float32)
    weight[:, 3] = 1
    y, _ = run(bench, x, weight, np.zeros((3, 512), np.float32), [1], 1)
    exact, _ = reference(x, weight, np.zeros((3, 512)))
    assert (np.abs(y - exact) <= 1e-6 * np.abs(exact)).all()
    for far, want in ((-1000.0, 0.0), (1000.0, 1000.0), (-np.inf, np.nan), (np.nan, np.nan)):
        y, _ = run(bench, np.full((1, 2), far, np.float32), weight[:2], np.zeros((3, 2), np.float32), [1], 1)
        assert np.array_equal(y, np.full((1, 2), want, np.float32), equal_nan=True)


def test_bad_arguments_are_named():
    b = Buffer("b", 64)
    with pytest.raises(ValueError, match="conv_silu: channels is 3, expected a multiple of 2"):
        conv_silu(CPU, b, b, b, b, b, rows=1, channels=3)
    with pytest.raises(ValueError, match="conv_silu: weight has 64 bytes, expected at least 96"):
        conv_silu(CPU, b, b, b, b, b, rows=1, channels=6)
    with pytest.raises(ValueError, match="conv_silu: y_offset is 4, expected a multiple of 8"):
        conv_silu(CPU, b, b, b, b.range(4, 60), b, rows=1, channels=2)

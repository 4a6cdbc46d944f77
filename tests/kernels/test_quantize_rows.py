"""Both layouts of rounded activations against the twin, level by level."""

import numpy as np
import pytest

from spvk.kernels.profile import Profile
from spvk.kernels.quantize_rows import packed_bytes, quantize_rows, reads_packed, reference
from spvk.recording import Buffer

FAST = Profile("cpu", 8, 8, "fast")


def rounded(bench, x, tokens=None, profile=FAST):
    """uint8: what the kernel wrote for x [rows, k]; what it did not write is 0xee."""
    rows, k = x.shape
    out = bench.put(np.full(packed_bytes(profile, rows, k), 0xEE, np.uint8), "packed")
    step = bench.step(rows if tokens is None else tokens)
    bench.run(quantize_rows(profile, bench.put(x), out, step, rows=rows, k=k))
    return bench.get(out, -1, dtype=np.uint8)


def unpack_pairs(raw, rows, k):
    """Level * scale [rows, k], from groups of 16 rows by 32 elements."""
    runs = raw.reshape(-1, k // 32, 576)
    levels = (
        runs[..., :512].reshape(-1, k // 32, 4, 8, 4, 2, 2).astype(int) - 128
    )  # group run step pair quad row e
    levels = levels.transpose(0, 3, 5, 1, 2, 4, 6).reshape(-1, k // 32, 32)
    scales = np.ascontiguousarray(runs[..., 512:]).view(np.float32).reshape(-1, k // 32, 8, 2)
    scales = scales.transpose(0, 2, 3, 1).reshape(-1, k // 32, 1)
    return (levels * scales.astype(np.float64)).reshape(-1, k)[:rows]


def unpack_vector(raw, k):
    """(level * scale [k], sums of 16 as stored [k / 16])."""
    runs = raw.reshape(k // 32, 80)
    words = np.ascontiguousarray(runs[:, :64]).view(np.int32).reshape(-1, 8, 2)
    low = (words << 16) >> 16
    high = (words - low) >> 16
    levels = np.concatenate([high, low], -1)  # elements 4 e, 4 e + 1, then 4 e + 2, 4 e + 3
    tail = np.ascontiguousarray(runs[:, 64:76]).view(np.float32)
    return (levels.reshape(-1, 32) * tail[:, :1].astype(np.float64)).reshape(k), tail[:, 1:].reshape(-1)


def numbers(rng, rows, k):
    """Rows of very different sizes, with runs of zeros and of numbers next to nothing."""
    x = rng.normal(size=(rows, k)) * 10.0 ** rng.integers(-6, 7, (rows, 1))
    x[:, 32:64] = 0
    x[0, :32] = 1e-35
    return x.astype(np.float32)


@pytest.mark.parametrize("local", [8, 32])
@pytest.mark.parametrize("rows,k", [(2, 64), (16, 96), (17, 288), (40, 64)])
def test_pairs_of_rows(bench, rows, k, local):
    x = numbers(np.random.default_rng(31), rows, k)
    got = unpack_pairs(rounded(bench, x, profile=Profile("cpu", 8, local, "fast")), rows, k)
    assert np.array_equal(got, reference(x))


@pytest.mark.parametrize("k", [64, 288])
def test_one_row(bench, k):
    x = numbers(np.random.default_rng(32), 1, k)
    got, sums = unpack_vector(rounded(bench, x), k)
    assert np.array_equal(got, reference(x)[0])
    assert np.allclose(sums, reference(x).reshape(-1, 16).sum(-1), rtol=1e-6, atol=0)


def test_rounding_is_to_the_nearest_of_255_levels():
    x = np.linspace(-3, 5, 64, dtype=np.float32).reshape(1, 64)
    scale = np.abs(x).reshape(2, 32).max(-1).repeat(32) / 127
    assert (np.abs(reference(x) - x)[0] <= scale * 0.5000001).all()
    assert len(np.unique(np.rint(reference(x)[0] / scale))) > 40


def test_the_scale_is_the_one_that_loses_least():
    x = np.random.default_rng(35).normal(size=(200, 32)).astype(np.float32)
    step = np.abs(x).max(-1, keepdims=True) / 127
    plain = ((np.rint(x / step) * step - x) ** 2).sum(-1)
    chosen = ((reference(x) - x) ** 2).sum(-1)
    assert (chosen <= plain * (1 + 1e-4)).all() and chosen.sum() < 0.85 * plain.sum()


def test_rows_past_the_last_token_are_not_read(bench):
    x = numbers(np.random.default_rng(33), 40, 64)
    raw = rounded(bench, np.where(np.arange(40)[:, None] < 5, x, np.nan), tokens=5)
    assert np.array_equal(unpack_pairs(raw, 5, 64), reference(x[:5]))
    assert (raw.reshape(3, -1)[1:] == 0xEE).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_in_its_run(bench, bad):
    x = numbers(np.random.default_rng(34), 4, 96)
    x[1, 70] = bad
    got = unpack_pairs(rounded(bench, x), 4, 96)
    assert np.array_equal(got, reference(x), equal_nan=True)
    assert np.isnan(got[1, 64:]).all() and np.isfinite(np.delete(got, 1, 0)).all()
    assert np.isnan(unpack_vector(rounded(bench, x[1:2]), 96)[0]).sum() == 32


def test_who_reads_packed_rows():
    assert reads_packed(FAST, 512, "Q4_K") and reads_packed(FAST, 1, "Q6_K")
    assert not reads_packed(FAST, 512, "Q8_0") and not reads_packed(FAST, 512, "F32")
    assert not reads_packed(Profile("cpu", 8, 8), 512, "Q4_K")
    assert packed_bytes(Profile("cpu", 8, 8), 512, 1024) == 0
    assert packed_bytes(FAST, 512, 1024) == 32 * 32 * 576 and packed_bytes(FAST, 1, 1024) == 32 * 80


def test_bad_shapes_are_named():
    x, step = Buffer("x", 4096), Buffer("step", 16)
    with pytest.raises(ValueError, match="quantize_rows: k is 40, expected a multiple of 32"):
        quantize_rows(FAST, x, x, step, rows=2, k=40)
    with pytest.raises(ValueError, match="quantize_rows: packed has 4096 bytes, expected at least 9216"):
        quantize_rows(FAST, x, x, step, rows=2, k=512)

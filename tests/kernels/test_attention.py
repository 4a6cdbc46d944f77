import numpy as np
import pytest

from conftest import assert_close
from spvk.kernels.attention import attention, key_splits, reference, split_bytes, tile_rows
from spvk.kernels.profile import CPU, Profile
from spvk.recording import Buffer

SCALAR = Profile("scalar", 32, 64)  # several subgroups a workgroup on a device with 8 lanes


def data(rows, heads, kv_heads, dim, context, gated=False, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [(rows, heads, dim), (kv_heads, context, dim), (kv_heads, context, dim)]
    arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
    return *arrays, (4 * rng.normal(size=(rows, heads, 2 * dim))).astype(np.float32) if gated else None


def run(bench, q, k, v, past, gate=None, profile=None, tokens=None, split=False):
    rows, heads, dim = q.shape
    y, profile = bench.empty(rows, heads * dim), profile or bench.profile
    need = split_bytes(profile, rows, heads, len(k), dim, k.shape[1])
    assert bool(need) >= split
    bench.run(attention(profile, bench.put(q), bench.put(k), bench.put(v), y,
                        bench.step(rows if tokens is None else tokens, past=past), rows=rows, heads=heads,
                        kv_heads=len(k), dim=dim, context=k.shape[1],
                        gate=None if gate is None else bench.put(gate),
                        parts=bench.empty(need // 4) if split else None))
    return bench.get(y, rows, heads * dim)


@pytest.mark.parametrize("rows,past,heads,kv_heads,dim,context,gated", [
    (1, 0, 2, 2, 64, 1, False),       # one key
    (1, 300, 4, 1, 64, 301, False),   # decode over several blocks, a full cache
    (13, 25, 3, 3, 8, 40, True),      # a group of one, the smallest head
    (7, 126, 4, 2, 72, 200, True),    # columns that fill no lane set, past a block's edge
    (9, 2, 9, 3, 64, 16, False),      # groups of three
    (5, 250, 8, 1, 64, 260, False),   # a group of eight
    (5, 130, 8, 2, 256, 160, True)])  # the draft model's heads
def test_matches_twin(bench, rows, past, heads, kv_heads, dim, context, gated):
    q, k, v, gate = data(rows, heads, kv_heads, dim, context, gated)
    k[:, past + rows:], v[:, past + rows:] = np.nan, np.nan  # slots that nothing has filled
    assert_close(run(bench, q, k, v, past, gate), reference(q, k, v, past, gate), 1e-12)


def test_other_workgroups_match_twin(bench):
    q, k, v, gate = data(6, 4, 2, 72, 300, True)
    assert_close(run(bench, q, k, v, 280, gate, SCALAR), reference(q, k, v, 280, gate), 1e-12)


@pytest.mark.parametrize("rows,past,context,heads,kv_heads,dim,gated", [
    (9, 0, 20, 4, 1, 64, False),       # a tile that is not full, keys that are fewer than a block
    (70, 58, 200, 2, 1, 256, True),    # several tiles and blocks, the draft model's head
    (33, 64, 97, 6, 2, 72, True),      # columns that fill no set; groups of three
    (40, 1, 64, 3, 3, 8, False),       # the smallest head
    (16, 30, 50, 8, 2, 160, True)])    # two sets, the second not full
def test_tiles_match_twin(bench, rows, past, context, heads, kv_heads, dim, gated):
    q, k, v, gate = data(rows, heads, kv_heads, dim, context, gated)
    k[:, past + rows:], v[:, past + rows:] = np.nan, np.nan
    out = run(bench, q, k, v, past, gate, SCALAR)
    assert_close(out, reference(q, k, v, past, gate), 1e-12)
    some = run(bench, q, k, v, past, gate, SCALAR, tokens=rows - 2)
    assert np.array_equal(some[:-2], out[:-2]) and np.isnan(some[-2:]).all()


def test_tiles_keep_extremes_and_nan_apart(bench):
    """One-hot softmaxes of scores of +-1000; a NaN key reaches exactly the rows that see it."""
    q, k = np.full((40, 1, 64), 8, np.float32), np.full((1, 200, 64), -1000 / 64, np.float32)
    v = np.random.default_rng(0).normal(size=k.shape).astype(np.float32)
    k[0, 70] = 1000 / 64
    assert np.array_equal(run(bench, q, k, v, 150, profile=SCALAR), np.broadcast_to(v[0, 70], (40, 64)))
    k[0, 160, 3] = np.nan
    out = run(bench, q, k, v, 150, profile=SCALAR)
    assert np.isfinite(out[:10]).all() and np.isnan(out[10:]).all()


@pytest.mark.parametrize("rows,past,context,heads,kv_heads,dim,gated", [
    (1, 0, 1000, 4, 2, 64, False),    # one key: all ranges but the first are empty
    (1, 700, 1000, 8, 2, 256, True),  # the draft model's heads
    (3, 254, 700, 6, 2, 72, True),    # rows that end in different ranges
    (7, 90, 100, 2, 1, 8, False)])    # the cache holds less than the rows need
def test_split_keys_match_twin(bench, rows, past, context, heads, kv_heads, dim, gated):
    q, k, v, gate = data(rows, heads, kv_heads, dim, context, gated)
    k[:, past + rows:], v[:, past + rows:] = np.nan, np.nan
    got = run(bench, q, k, v, past, gate, SCALAR, split=context > 128)
    assert_close(got, reference(q, k, v, past, gate), 1e-12)


def test_split_keys_keep_nan_and_other_rows_apart(bench):
    q, k, v, _ = data(5, 2, 1, 64, 600)
    k[0, 502, 7] = np.nan
    out = run(bench, q, k, v, 500, profile=SCALAR, split=True)
    assert np.isfinite(out[:2]).all() and np.isnan(out[2:]).all()
    out = run(bench, q, k, v, 400, profile=SCALAR, tokens=3, split=True)
    assert np.isfinite(out[:3]).all() and np.isnan(out[3:]).all()


def test_keys_are_split_where_rows_are_few():
    gpu = Profile("scalar", 64, 256)
    assert key_splits(gpu, 1, 16, 4, 8192) == (32, 256)      # decode
    assert key_splits(gpu, 1, 16, 4, 131072) == (32, 4096)
    assert key_splits(gpu, 512, 16, 4, 8192) == (1, 8192)    # a batch fills the device
    assert key_splits(CPU, 1, 16, 4, 8192) == (1, 8192)


def test_batches_do_not_matter(bench):
    q, k, v, _ = data(64, 4, 2, 64, 80)
    whole = run(bench, q, k, v, 9)
    split = np.concatenate([run(bench, q[:7], k, v, 9), run(bench, q[7:], k, v, 16)])
    assert_close(split, whole, 1e-12, "7 + 57 rows")
    assert_close(run(bench, q[63:], k, v, 72), whole[63:], 1e-12, "the last row alone")


def test_rows_beyond_the_step_are_untouched(bench):
    q, k, v, _ = data(11, 4, 2, 64, 40)
    out = run(bench, q, k, v, 4, tokens=3)
    assert np.isnan(out[3:]).all()
    assert_close(out[:3], reference(q[:3], k, v, 4), 1e-12)
    assert np.isnan(run(bench, q, k, v, 4, tokens=0)).all()


def test_equal_scores_average_exactly(bench):
    """Zero queries weigh all keys alike: the mean of integers is exact, and rows of ones sum to one."""
    k = np.random.default_rng(0).normal(size=(1, 256, 64)).astype(np.float32)
    v = np.broadcast_to(np.arange(256, dtype=np.float32)[None, :, None], (1, 256, 64))
    out = run(bench, np.zeros((256, 1, 64), np.float32), k, v, 0)
    assert np.array_equal(out, np.broadcast_to(np.arange(256)[:, None] / 2, (256, 64)).astype(np.float32))


def test_weights_sum_to_one(bench):
    q, k, _, _ = data(20, 4, 2, 64, 300, seed=5)
    out = run(bench, 3 * q, k, np.ones_like(k), 270)
    assert np.abs(out - 1).max() <= 1e-6


def test_large_scores_do_not_overflow(bench):
    """Scores of +-1000, the largest last or first: the softmax is one-hot there."""
    q = np.full((5, 2, 64), 8, np.float32)
    k = np.full((1, 200, 64), -1000 / 64, np.float32)
    v = np.random.default_rng(0).normal(size=k.shape).astype(np.float32)
    for peak in (0, 150):
        k[0, peak] = 1000 / 64
        out = run(bench, q, k, v, 190)
        assert np.array_equal(out, np.broadcast_to(np.tile(v[0, peak], 2), out.shape))
        k[0, peak] = -1000 / 64


def test_extreme_gates(bench):
    q, k, v, gate = data(1, 1, 1, 64, 3, True)
    gate[..., 64:] = np.resize(np.array([-200, -90, 0, 90, 200], np.float32), 64)
    out, ref = run(bench, q, k, v, 2, gate), reference(q, k, v, 2, gate)
    assert np.isfinite(out).all() and np.abs(out - ref).max() <= 1e-6


def test_nan_is_not_hidden(bench):
    """A NaN key reaches exactly the rows that see it."""
    q, k, v, _ = data(5, 2, 1, 64, 40)
    k[0, 32, 7] = np.nan
    out = run(bench, q, k, v, 30)
    assert np.isfinite(out[:2]).all() and np.isnan(out[2:]).all()


def test_tiles_are_of_few_sizes():
    cases = [(1, 4), (1, 1), (3, 3), (16, 1), (17, 1), (512, 4)]
    assert [tile_rows(CPU, *c) for c in cases] == [4, 1, 16, 16, 32, 32]
    assert [tile_rows(SCALAR, *c) for c in cases] == [4, 1, 4, 4, 4, 4]


@pytest.mark.parametrize("change,message", [
    ({"heads": 0}, "attention: 0 heads, 2 KV heads, 1 rows: expected at least 1 of each"),
    ({"heads": 3}, "attention: heads is 3, expected a multiple of 2"),
    ({"dim": 12}, "attention: dim is 12, expected a multiple of 8"),
    ({"dim": 264}, "attention: dim is 264, expected 8 to 256"),
    ({"context": 2**26}, "expected fewer than 2147483648 elements a buffer"),
    ({}, "attention: q has 64 bytes, expected at least 1024")])
def test_bad_sizes(bench, change, message):
    small = Buffer("x", 64)
    with pytest.raises(ValueError, match=message):
        attention(bench.profile, *[small] * 5, **(dict(rows=1, heads=4, kv_heads=2, dim=64, context=4)
                                                  | change))

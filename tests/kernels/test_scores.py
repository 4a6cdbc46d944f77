"""The score kernels: statistics, softmax rows, the maximum over heads and layers, and importance."""

import numpy as np
import pytest

from conftest import assert_close
from spvk.kernels import score_accumulate as accumulate, score_max as maximum
from spvk.kernels import score_rows as rows_of, score_stats as stats_of
from spvk.kernels.profile import Profile
from spvk.recording import Buffer

SCALAR = Profile("scalar", 32, 64)  # several subgroups a workgroup on a device with 8 lanes


def data(tokens, heads, kv_heads, dim, context, keys, seed=0):
    rng = np.random.default_rng(seed)
    q, k = (rng.normal(size=s).astype(np.float32) for s in ((tokens, heads, dim), (kv_heads, context, dim)))
    k[:, keys:] = np.nan  # slots that nothing has filled
    return q, k


class Layer:
    """Buffers of one attention layer and the launches over them; `tokens` may be fewer than the rows of q."""

    def __init__(self, bench, q, k, past, tokens=None, prompt=0, profile=None):
        self.bench, self.profile = bench, profile or bench.profile
        rows, self.heads, dim = q.shape
        self.context = k.shape[1]
        self.sizes = dict(rows=rows, heads=self.heads, kv_heads=len(k), dim=dim, context=self.context)
        self.splits = stats_of.score_splits(self.context)
        self.stats, self.out = bench.empty(self.heads, self.splits, 2), bench.empty(self.heads, self.context)
        self.q, self.k = bench.put(q), bench.put(k)
        self.step = bench.step(rows if tokens is None else tokens, past=past, prompt=prompt)

    def first_pass(self):
        return stats_of.score_stats(self.profile, self.q, self.k, self.stats, self.step, **self.sizes)

    def rows(self):
        second = rows_of.score_rows(self.profile, self.q, self.k, self.stats, self.out, self.step,
                                    **self.sizes)
        self.bench.run(self.first_pass(), second)
        return self.bench.get(self.out, self.heads, self.context)

    def max_into(self, row, first, weights=None):
        weights = np.ones(self.heads) if weights is None else weights
        return [self.first_pass(), maximum.score_max(self.profile, self.q, self.k, self.stats,
                                                     self.bench.put(weights.astype(np.float32)), row, self.step,
                                                     **self.sizes, first=first)]


SHAPES = pytest.mark.parametrize("heads,kv_heads,dim,context,past,tokens", [
    (2, 2, 64, 1, 0, 1),        # one key
    (4, 2, 72, 700, 600, 3),    # three ranges, two of them full
    (9, 3, 64, 257, 250, 7),    # groups of three; one key in the last range
    (4, 1, 8, 600, 10, 2),      # ranges without keys
    (8, 1, 64, 300, 255, 1),    # a group of eight, exactly one range
    (8, 2, 256, 70, 40, 5)])    # the draft model's heads


@SHAPES
def test_stats_match_twin(bench, heads, kv_heads, dim, context, past, tokens):
    q, k = data(tokens, heads, kv_heads, dim, context, past + tokens)
    layer = Layer(bench, q, k, past)
    bench.run(layer.first_pass())
    ref = stats_of.reference(q[-1], k, past + tokens)
    got = bench.get(layer.stats, heads, layer.splits, 2)
    assert_close(got[:, :ref.shape[1]], ref, 1e-12)
    assert np.isnan(got[:, ref.shape[1]:]).all()


@SHAPES
def test_rows_match_twin(bench, heads, kv_heads, dim, context, past, tokens):
    q, k = data(tokens, heads, kv_heads, dim, context, past + tokens)
    got, n = Layer(bench, q, k, past).rows(), past + tokens
    error = np.abs(got[:, :n] - rows_of.reference(q[-1], k, n)).max()
    print(f"largest error {error:.1e}, {100 * error / 1e-6:.2g} % of the budget 1e-06")
    assert error <= 1e-6 and np.isnan(got[:, n:]).all()
    assert np.abs(got[:, :n].sum(-1, dtype=np.float64) - 1).max() <= 1e-6


def test_other_workgroups_match_twin(bench):
    q, k = data(2, 4, 2, 72, 600, 580)
    got = Layer(bench, q, k, 578, profile=SCALAR).rows()
    assert np.abs(got[:, :580] - rows_of.reference(q[-1], k, 580)).max() <= 1e-6


def test_the_last_valid_row_is_scored(bench):
    q, k = data(9, 4, 2, 64, 64, 24)
    layer = Layer(bench, q, k, 20, tokens=4)
    assert np.abs(layer.rows()[:, :24] - rows_of.reference(q[3], k, 24)).max() <= 1e-6
    assert np.isnan(Layer(bench, q, k, 20, tokens=0).rows()).all()


@pytest.mark.parametrize("workgroups", [None, SCALAR])
def test_max_over_layers_and_heads(bench, workgroups):
    context, n, prompt = 600, 580, 571
    row, ref = bench.empty(context), None
    for layer in range(3):
        q, k = data(3, 8, 2, 64, context, n, seed=layer)
        layers = Layer(bench, q, k, n - 3, prompt=prompt, profile=workgroups)
        bench.run(layers.max_into(row, first=layer == 0))
        ref = maximum.reference(q[-1], k, n, prompt, ref)
    got = bench.get(row, context)
    assert np.abs(got[:prompt] - ref).max() <= 1e-6 and np.isnan(got[prompt:]).all()


@pytest.mark.parametrize("workgroups", [None, SCALAR])
def test_heads_without_weight_do_not_count(bench, workgroups):
    """Single heads, none at all in the first layer, and all: the last adds what the fused row has without weights."""
    context, n = 600, 580
    heads = np.array([[0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 1], [1] * 8])
    row, ref = bench.empty(context), None
    for layer, weights in enumerate(heads):
        q, k = data(3, 8, 2, 64, context, n, seed=layer)
        layers = Layer(bench, q, k, n - 3, prompt=n, profile=workgroups)
        bench.run(layers.max_into(row, layer == 0, weights))
        ref = maximum.reference(q[-1], k, n, n, ref, weights)
        got = bench.get(row, context)[:n]
        assert np.abs(got - ref).max() <= 1e-6
        assert got.any() == (layer > 0)
        if layer == 1:
            few = np.maximum(*rows_of.reference(q[-1], k, n)[[2, 7]])
            assert np.abs(got - few).max() <= 1e-6


def test_prompt_keys_that_are_not_cached_count_as_zero(bench):
    q, k = data(2, 4, 2, 64, 300, 20)
    row = bench.empty(300)
    bench.run(Layer(bench, q, k, 18, prompt=290).max_into(row, first=True))
    got = bench.get(row, 300)
    assert got[:20].min() > 0 and not got[20:290].any() and np.isnan(got[290:]).all()


def test_large_scores_do_not_overflow(bench):
    """Scores of +-1000: one-hot rows, whichever range the largest is in."""
    q = np.full((1, 2, 64), 8, np.float32)
    for peak in (3, 280, 520):
        k = np.full((1, 600, 64), -1000 / 64, np.float32)
        k[0, peak] = 1000 / 64
        got = Layer(bench, q, k, 599).rows()
        assert np.array_equal(got, np.broadcast_to(np.arange(600) == peak, (2, 600)).astype(np.float32))


@pytest.mark.parametrize("kv_head", [0, 1])
def test_nan_reaches_row_and_importance(bench, kv_head):
    """One NaN key makes its heads' softmax NaN; the other heads' numbers do not cover it."""
    q, k = data(1, 4, 2, 64, 600, 600)
    bad = k.copy()
    bad[kv_head, 577, 3] = np.nan
    rows = Layer(bench, q, bad, 599).rows()
    mine = slice(2 * kv_head, 2 * kv_head + 2)
    assert np.isnan(rows[mine]).all() and np.isfinite(np.delete(rows, [mine.start, mine.start + 1], 0)).all()
    row, importance = bench.empty(600), bench.put(np.zeros(600, np.float32))
    recording = Layer(bench, q, bad, 599, prompt=600).max_into(row, first=True)
    recording += Layer(bench, q, k, 599, prompt=600).max_into(row, first=False)
    step = bench.step(1, prompt=600, row=1)
    bench.run(recording, accumulate.score_accumulate(bench.profile, row, importance, step, context=600))
    assert np.isnan(bench.get(row, 600)).all() and np.isnan(bench.get(importance, 600)).all()


@pytest.mark.parametrize("local", [8, 64])
def test_accumulate(bench, local):
    context, prompt, profile = 2500, 2431, Profile("cpu", 8, local)
    rows = np.random.default_rng(0).integers(0, 1000, (3, context)).astype(np.float32)
    importance = bench.empty(context)
    for i, row in enumerate(rows):
        step = bench.step(1, prompt=prompt, row=i)
        bench.run(accumulate.score_accumulate(profile, bench.put(row), importance, step, context=context))
    got = bench.get(importance, context)
    assert np.array_equal(got[:prompt], accumulate.reference(rows)[:prompt]) and np.isnan(got[prompt:]).all()


@pytest.mark.parametrize("context,span,splits", [
    (1, 256, 1), (256, 256, 1), (257, 256, 2), (4096, 256, 16), (65536, 256, 256), (65537, 512, 129),
    (2**18, 1024, 256)])
def test_ranges(context, span, splits):
    assert (stats_of.score_span(context), stats_of.score_splits(context)) == (span, splits)
    assert stats_of.stats_bytes(8, context) == 64 * splits


def test_bad_sizes(bench):
    small, sizes = Buffer("x", 64), dict(rows=1, heads=4, kv_heads=2, dim=64, context=4)
    with pytest.raises(ValueError, match="score_stats: q has 64 bytes, expected at least 1024"):
        stats_of.score_stats(bench.profile, *[small] * 4, **sizes)
    with pytest.raises(ValueError, match="score_max: 17 query heads a KV head, expected at most 16"):
        maximum.score_max(bench.profile, *[small] * 6, **(sizes | {"heads": 34}), first=True)
    with pytest.raises(ValueError, match="score_rows: heads is 3, expected a multiple of 2"):
        rows_of.score_rows(bench.profile, *[small] * 5, **(sizes | {"heads": 3}))
    with pytest.raises(ValueError, match="score_accumulate: row has 64 bytes, expected at least 68"):
        accumulate.score_accumulate(bench.profile, small, small, small, context=17)

import numpy as np
import pytest

from spvk.kernels import score_accumulate, score_max, score_rows, score_stats

KEYS = 8192


@pytest.fixture
def layer(bench, normal, shape):
    """One token's query and the keys of a layer: arrays, and the arguments that the launchers share."""
    q, k = normal(shape.heads, shape.head_dim), normal(shape.kv_heads, KEYS, shape.head_dim)
    numbers = {"rows": 1, "heads": shape.heads, "kv_heads": shape.kv_heads, "dim": shape.head_dim}
    stats = bench.empty(shape.heads, score_stats.score_splits(KEYS), 2)
    step = bench.step(1, past=KEYS - 1, prompt=KEYS)
    return q, k, (bench.put(q), bench.put(k), stats), step, numbers | {"context": KEYS}


@pytest.fixture
def first_pass(bench, layer):
    """The first pass over the keys, done; and the flops of one."""
    q, _, buffers, step, numbers = layer
    bench.run(score_stats.score_stats(bench.profile, *buffers, step, **numbers))
    return 2 * q.size * KEYS


def bench_score_stats(measure, bench, layer):
    q, k, buffers, step, numbers = layer

    def check():
        return [(bench.get(buffers[2], len(q), -1, 2), score_stats.reference(q, k, KEYS))]

    measure(score_stats.score_stats(bench.profile, *buffers, step, **numbers), check, flops=2 * q.size * KEYS)


def bench_score_max(measure, bench, layer, first_pass):
    (q, k, buffers, step, numbers), row = layer, bench.empty(KEYS)
    ones = bench.put(np.ones(len(q), np.float32))

    def check():
        return [(bench.get(row, KEYS), score_max.reference(q, k, KEYS, KEYS))]

    recording = score_max.score_max(bench.profile, *buffers, ones, row, step, **numbers, first=True)
    measure(recording, check, flops=first_pass)


def bench_score_rows(measure, bench, layer, first_pass):
    (q, k, buffers, step, numbers), out = layer, bench.empty(len(layer[0]), KEYS)

    def check():
        return [(bench.get(out, len(q), KEYS), score_rows.reference(q, k, KEYS))]

    measure(score_rows.score_rows(bench.profile, *buffers, out, step, **numbers), check, flops=first_pass)


def bench_score_accumulate(measure, bench, normal):
    rows = normal(2, KEYS)  # what there is, and what comes
    total = bench.put(rows[0])

    def check():
        return [(bench.get(total, KEYS), score_accumulate.reference(rows))]

    step = bench.step(1, past=KEYS - 1, prompt=KEYS, row=1)
    launcher = score_accumulate.score_accumulate
    measure(launcher(bench.profile, bench.put(rows[1]), total, step, context=KEYS), check)

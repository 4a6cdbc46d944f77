from dataclasses import replace

import numpy as np
import pytest
from conftest import BUDGETS

from spvk.kernels.attention import attention, reference, split_bytes

PAST = 2048


@pytest.mark.parametrize("cache", ["f32", "f16"])
@pytest.mark.parametrize("decode", [False, True], ids=["prefill", "decode"])
def bench_attention(measure, bench, normal, shape, rows, decode, cache):
    """A batch, or one token, behind 2,048 others; two tokens are compared."""
    bench.profile = replace(bench.profile, cache=cache)
    rows = 1 if decode else rows
    heads, kv, dim, context = shape.heads, shape.kv_heads, shape.head_dim, PAST + rows
    q, gate = normal(rows, heads, dim), normal(rows, heads, 2 * dim)
    k, v = (normal(kv, context, dim).astype("f2" if cache == "f16" else "f4") for _ in range(2))
    y = bench.empty(rows, heads * dim)

    def check():
        got = bench.get(y, rows, heads * dim)
        return [
            (got[i], reference(q[i : i + 1], k, v, PAST + i, gate[i : i + 1])[0])
            for i in np.unique([0, rows - 1])
        ]

    buffers = *(bench.put(x) for x in (q, k, v)), y, bench.step(rows, past=PAST)
    numbers = {"rows": rows, "heads": heads, "kv_heads": kv, "dim": dim, "context": context}
    parts = bench.put(np.zeros(split_bytes(bench.profile, **numbers) or 4, np.uint8))
    pairs = rows * PAST + rows * (rows + 1) // 2  # of a token and one that it sees
    measure(
        attention(bench.profile, *buffers, **numbers, gate=bench.put(gate), parts=parts), check,
        flops=4 * dim * heads * pairs,
    )  # fmt: skip


def bench_attention_rounded(measure, bench, normal, shape, rounded):
    """One token behind 2,048 others, its output rounded: class cpu alone does so."""
    heads, kv, dim, context = shape.heads, shape.kv_heads, shape.head_dim, PAST + 1
    q, gate = normal(1, heads, dim), normal(1, heads, 2 * dim)
    k, v, y = normal(kv, context, dim), normal(kv, context, dim), rounded(1, heads * dim)
    buffers = *(bench.put(x) for x in (q, k, v)), bench.empty(1, heads * dim), bench.step(1, past=PAST)
    numbers = {"rows": 1, "heads": heads, "kv_heads": kv, "dim": dim, "context": context}
    recording = attention(bench.profile, *buffers, **numbers, gate=bench.put(gate), packed=y.packed)
    exact = reference(q, k, v, PAST, gate)
    measure(recording, lambda: y.compare(exact), budget=BUDGETS["fast"], flops=4 * dim * heads * context)

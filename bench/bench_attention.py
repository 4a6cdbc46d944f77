import numpy as np
import pytest

from spvk.kernels.attention import attention, reference, split_bytes

PAST = 2048


@pytest.mark.parametrize("decode", [False, True], ids=["prefill", "decode"])
def bench_attention(measure, bench, normal, shape, rows, decode):
    """A batch, or one token, behind 2,048 others; two tokens are compared."""
    rows = 1 if decode else rows
    heads, kv, dim, context = shape.heads, shape.kv_heads, shape.head_dim, PAST + rows
    q, gate = normal(rows, heads, dim), normal(rows, heads, 2 * dim)
    k, v = normal(kv, context, dim), normal(kv, context, dim)
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

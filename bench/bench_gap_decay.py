import numpy as np
import pytest

from spvk.kernels.gap_decay import ESTIMATES, gap_decay, reference


@pytest.mark.parametrize("estimate", ESTIMATES)
def bench_gap_decay(measure, bench, normal, shape, rows, estimate):
    """A gap before every fourth token; the sum that is carried counts in the first run alone."""
    heads = shape.value_heads
    alpha, dt_bias, a = normal(rows, heads), normal(heads) - 2, -np.exp(normal(heads))
    gaps, total = np.where(np.arange(rows) % 4, 0, 50).astype(np.uint32), np.zeros(heads, np.float32)
    y, carried = bench.empty(rows, heads), bench.put(total)
    exact, _ = reference(alpha, dt_bias, a, gaps, total, 0, estimate)

    def check():
        return [(bench.get(y, rows, heads), exact)]

    buffers = *(bench.put(x) for x in (alpha, dt_bias, a, gaps)), carried, y, bench.step(rows)
    numbers = {"rows": rows, "value_heads": heads, "estimate": estimate}
    measure(gap_decay(bench.profile, *buffers, **numbers), check, nbytes=8 * rows * heads)

import pytest
from conftest import BUDGETS

from spvk.kernels.quantize_rows import quantize_rows


@pytest.mark.parametrize("single", [False, True], ids=["batch", "row"])
def bench_quantize_rows(measure, bench, normal, shape, rows, rounded, single):
    """Where precision fast rounds activations by itself, rows of the feed-forward's width."""
    rows, k = 1 if single else rows, shape.feed_forward
    x, y = normal(rows, k), rounded(rows, k)
    dispatch = quantize_rows(bench.profile, bench.put(x), y.packed, bench.step(rows), rows=rows, k=k)
    measure(dispatch, lambda: y.compare(x), budget=BUDGETS["fast"])

from dataclasses import replace

import pytest
from products import Weight

from spvk.kernels.matmul import matmul, reference

KIND = "Q4_K"  # every class that rounds activations does so for products with it


@pytest.mark.parametrize("single", [False, True], ids=["batch", "row"])
def bench_quantize_rows(measure, bench, normal, rng, shape, rows, pack, single):
    """Where precision fast rounds activations, whichever is asked for; checked by a product with 64 rows."""
    bench.profile = replace(bench.profile, precision="fast")
    rows, k, n = 1 if single else rows, shape.feed_forward, 64
    x, w, y = normal(rows, k), Weight(bench, KIND, n, k, rng), bench.empty(rows, n)
    put, step = bench.put(x), bench.step(rows)
    packed, budget, recording = pack(x, put, KIND)
    if packed is None:
        pytest.skip("no product of this device class reads such rows rounded")

    def check():
        bench.run(matmul(bench.profile, put, w.matrix, y, step, rows=rows, packed=packed))
        return [(bench.get(y, rows, n)[:, w.sample], reference(x, w.sampled()))]

    measure(recording, check, budget=budget)

import numpy as np
import pytest
from products import PRODUCTS, Weight, product

from spvk.kernels.matmul import matmul, reference


@pytest.mark.parametrize("name", PRODUCTS)
def bench_matmul(measure, bench, normal, rng, shape, rows, pack, name, weight_type):
    n, k = product(shape, name)
    x, w, y = normal(rows, k), Weight(bench, weight_type, n, k, rng), bench.empty(rows, n)

    def check():
        some = np.unique([0, rows // 3, rows - 1])
        got = bench.get(y, rows, n)[some][:, w.sample]
        return [(got, reference(x[some], w.sampled()))]

    put = bench.put(x)
    packed, budget, _ = pack(x, put, weight_type)
    recording = matmul(bench.profile, put, w.matrix, y, bench.step(rows), rows=rows, packed=packed)
    measure(recording, check, flops=2 * rows * n * k, budget=budget)

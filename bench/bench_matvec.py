import pytest
from products import PRODUCTS, Weight, product

from spvk.kernels.matvec import matvec, reference


@pytest.mark.parametrize("name", (*PRODUCTS, "head"))
def bench_matvec(measure, bench, normal, rng, shape, pack, name, weight_type, device):
    n, k = product(shape, name)
    if name == "head" and device.info.type == "cpu":
        n //= 8
    x, w, y = normal(1, k), Weight(bench, weight_type, n, k, rng), bench.empty(n)

    def check():
        return [(bench.get(y, n)[w.sample], reference(x[0], w.sampled()))]

    put = bench.put(x)
    packed, budget, _ = pack(x, put, weight_type)
    recording = matvec(bench.profile, put, w.matrix, y, packed=packed)
    measure(recording, check, flops=2 * n * k, budget=budget)

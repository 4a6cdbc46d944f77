import pytest
from products import PRODUCTS, Weight, product

from spvk.kernels.matvec import matvec, reference


@pytest.mark.parametrize("name", (*PRODUCTS, "head"))
def bench_matvec(measure, bench, normal, rng, shape, name, weight_type, device):
    n, k = product(shape, name)
    if name == "head" and device.info.type == "cpu":
        n //= 8
    x, w, y = normal(k), Weight(bench, weight_type, n, k, rng), bench.empty(n)

    def check():
        return [(bench.get(y, n)[w.sample], reference(x, w.sampled()))]

    measure(matvec(bench.profile, bench.put(x), w.matrix, y), check, flops=2 * n * k)

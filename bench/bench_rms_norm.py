from conftest import BUDGETS

from spvk.kernels.rms_norm import reference, rms_norm

EPS = 1e-6


def bench_rms_norm(measure, bench, normal, shape, rows):
    n = shape.width
    x, weight, y = normal(rows, n), normal(n), bench.empty(rows, n)

    def check():
        return [(bench.get(y, rows, n), reference(x, weight, EPS))]

    buffers = bench.put(x), bench.put(weight), y, bench.step(rows)
    measure(rms_norm(bench.profile, *buffers, rows=rows, n=n, eps=EPS), check)


def bench_rms_norm_rounded(measure, bench, normal, shape, rows, rounded):
    n = shape.width
    x, weight, y = normal(rows, n), normal(n), rounded(rows, n)
    buffers = bench.put(x), bench.put(weight), bench.empty(rows, n), bench.step(rows)
    numbers = {"rows": rows, "n": n, "eps": EPS, "keep": False}
    dispatch = rms_norm(bench.profile, *buffers, **numbers, packed=y.packed)
    measure(dispatch, lambda: y.compare(reference(x, weight, EPS)), budget=BUDGETS["fast"])

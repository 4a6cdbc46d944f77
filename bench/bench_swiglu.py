from conftest import BUDGETS

from spvk.kernels.swiglu import reference, swiglu


def bench_swiglu(measure, bench, normal, shape, rows):
    n = shape.feed_forward
    gate, up, y = normal(rows, n), normal(rows, n), bench.empty(rows, n)

    def check():
        return [(bench.get(y, rows, n), reference(gate, up))]

    measure(swiglu(bench.profile, bench.put(gate), bench.put(up), y, bench.step(rows), rows=rows, n=n), check)


def bench_swiglu_rounded(measure, bench, normal, shape, rows, rounded):
    n = shape.feed_forward
    gate, up, y = normal(rows, n), normal(rows, n), rounded(rows, n)
    buffers = bench.put(gate), bench.put(up), bench.empty(rows, n), bench.step(rows)
    dispatch = swiglu(bench.profile, *buffers, rows=rows, n=n, packed=y.packed)
    measure(dispatch, lambda: y.compare(reference(gate, up)), budget=BUDGETS["fast"])

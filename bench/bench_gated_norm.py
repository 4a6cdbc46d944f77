from conftest import BUDGETS

from spvk.kernels.gated_norm import gated_norm, reference

EPS = 1e-6


def bench_gated_norm(measure, bench, normal, shape, rows):
    sizes = rows, shape.value_heads, shape.state
    x, weight, z, y = normal(*sizes), normal(shape.state), normal(*sizes), bench.empty(*sizes)

    def check():
        return [(bench.get(y, *sizes), reference(x, weight, z, EPS))]

    buffers = bench.put(x), bench.put(weight), bench.put(z), y, bench.step(rows)
    numbers = {"rows": rows, "heads": shape.value_heads, "size": shape.state, "eps": EPS}
    measure(gated_norm(bench.profile, *buffers, **numbers), check)


def bench_gated_norm_rounded(measure, bench, normal, shape, rows, rounded):
    sizes = rows, shape.value_heads, shape.state
    x, weight, z = normal(*sizes), normal(shape.state), normal(*sizes)
    y = rounded(rows, shape.value_heads * shape.state)
    buffers = bench.put(x), bench.put(weight), bench.put(z), bench.empty(*sizes), bench.step(rows)
    numbers = {"rows": rows, "heads": shape.value_heads, "size": shape.state, "eps": EPS}
    exact = reference(x, weight, z, EPS).reshape(rows, -1)
    dispatch = gated_norm(bench.profile, *buffers, **numbers, packed=y.packed)
    measure(dispatch, lambda: y.compare(exact), budget=BUDGETS["fast"])

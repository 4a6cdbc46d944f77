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

from spvk.kernels.swiglu import reference, swiglu


def bench_swiglu(measure, bench, normal, shape, rows):
    n = shape.feed_forward
    gate, up, y = normal(rows, n), normal(rows, n), bench.empty(rows, n)

    def check():
        return [(bench.get(y, rows, n), reference(gate, up))]

    measure(swiglu(bench.profile, bench.put(gate), bench.put(up), y, bench.step(rows), rows=rows, n=n), check)

from spvk.kernels.take_row import take_row


def bench_take_row(measure, bench, normal, shape, rows):
    n = shape.width
    x, y = normal(rows, n), bench.empty(n)

    def check():
        return [(bench.get(y, n), x[-1])]

    measure(take_row(bench.profile, bench.put(x), y, bench.step(rows), rows=rows, n=n), check, nbytes=8 * n)

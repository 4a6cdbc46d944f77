from spvk.kernels.rms_norm import reference, rms_norm

EPS = 1e-6


def bench_rms_norm(measure, bench, normal, shape, rows):
    n = shape.width
    x, weight, y = normal(rows, n), normal(n), bench.empty(rows, n)

    def check():
        return [(bench.get(y, rows, n), reference(x, weight, EPS))]

    buffers = bench.put(x), bench.put(weight), y, bench.step(rows)
    measure(rms_norm(bench.profile, *buffers, rows=rows, n=n, eps=EPS), check)

import numpy as np

from spvk.kernels.gather_rows import gather_rows


def bench_gather_rows(measure, bench, normal, shape, rows):
    """Every second row of a batch."""
    n, index = shape.width, np.zeros(rows, np.uint32)
    kept = np.arange(0, rows, 2)
    index[: len(kept)] = kept
    x, y = normal(rows, n), bench.empty(rows, n)

    def check():
        return [(bench.get(y, rows, n)[: len(kept)], x[kept])]

    buffers = bench.put(x), bench.put(index), y, bench.step(len(kept))
    measure(gather_rows(bench.profile, *buffers, rows=rows, n=n), check, nbytes=8 * n * len(kept))

import numpy as np
from blocks import dequantize
from products import Weight

from spvk.kernels.embed_rows import embed_rows, reference

TOKENS = 4096  # of the vocabulary


def bench_embed_rows(measure, bench, rng, shape, rows, weight_type):
    w, y = Weight(bench, weight_type, TOKENS, shape.width, rng), bench.empty(rows, shape.width)
    tokens = rng.integers(0, TOKENS, rows, np.uint32)

    def check():
        exact = reference(np.arange(rows), dequantize(weight_type, w.raw[tokens]))
        return [(bench.get(y, rows, shape.width), exact)]

    recording = embed_rows(bench.profile, bench.put(tokens), w.matrix, y, bench.step(rows), rows=rows)
    measure(recording, check, nbytes=y.nbytes + rows * w.matrix.row_bytes)

import numpy as np
from products import VOCABULARY

from spvk.kernels.argmax import argmax, reference
from spvk.kernels.top_k import scratch_bytes


def bench_argmax(measure, bench, normal):
    x, out, scratch = normal(VOCABULARY), bench.empty(1), bench.empty(scratch_bytes() // 4)

    def check():
        return [(bench.get(out, 1, dtype=np.uint32), reference(x))]

    measure(argmax(bench.profile, bench.put(x), out, scratch, n=VOCABULARY), check, nbytes=x.nbytes)

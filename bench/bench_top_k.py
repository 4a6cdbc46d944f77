import numpy as np
from products import VOCABULARY

from spvk.kernels.top_k import reference, scratch_bytes, top_k

K = 40


def bench_top_k(measure, bench, normal):
    x, ids, values, scratch = normal(VOCABULARY), *map(bench.empty, (K, K, scratch_bytes() // 4))

    def check():
        exact_ids, exact_values = reference(x, K)
        return [(bench.get(ids, K, dtype=np.uint32), exact_ids), (bench.get(values, K), exact_values)]

    recording = top_k(bench.profile, bench.put(x), ids, values, scratch, n=VOCABULARY, k=K)
    measure(recording, check, nbytes=x.nbytes)

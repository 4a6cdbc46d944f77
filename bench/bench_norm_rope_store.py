import numpy as np

from spvk.kernels.norm_rope_store import norm_rope_store, reference, rope_phases

EPS, BASE = 1e-6, 1e7


def bench_norm_rope_store(measure, bench, normal, shape, rows):
    heads, kv, dim = shape.heads, shape.kv_heads, shape.head_dim
    q, k, v = normal(rows, heads, 2, dim), normal(rows, kv, dim), normal(rows, kv, dim)
    weights, positions = normal(2, dim), np.arange(100, 100 + rows, dtype=np.uint32)
    phases = rope_phases(shape.rotary, BASE)
    out, k_cache, v_cache = bench.empty(rows, heads, dim), *(bench.empty(kv, rows, dim) for _ in "kv")

    def check():
        exact_q, exact_k = (
            reference(x, positions, phases, EPS, w) for x, w in zip((q[:, :, 0], k), weights, strict=True)
        )
        return [
            (bench.get(out, rows, heads, dim), exact_q),
            (bench.get(k_cache, kv, rows, dim), exact_k.transpose(1, 0, 2)),
            (bench.get(v_cache, kv, rows, dim), v.transpose(1, 0, 2)),
        ]

    inputs = (bench.put(x) for x in (q, k, v))
    rest = bench.put(positions), bench.put(phases), bench.step(rows)
    numbers = {"rows": rows, "heads": heads, "kv_heads": kv, "dim": dim, "rotary": shape.rotary}
    q_weight, k_weight = map(bench.put, weights)
    recording = norm_rope_store(
        bench.profile, *inputs, out, k_cache, v_cache, *rest, **numbers, context=rows, eps=EPS,
        q_weight=q_weight, k_weight=k_weight, gated=True,
    )  # fmt: skip
    measure(recording, check, nbytes=8 * (q.size // 2 + k.size + v.size))

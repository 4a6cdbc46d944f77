import numpy as np

from spvk.kernels.gated_delta import gated_delta, reference, state_to_numpy

EPS = 1e-6


def bench_gated_delta(measure, bench, normal, shape, rows):
    """One head in the first and one in the last group of value heads are compared, output and state."""
    keys, heads, size = shape.key_heads, shape.value_heads, shape.state
    conv, alpha, beta = normal(rows, (2 * keys + heads) * size), normal(rows, heads), normal(rows, heads)
    dt_bias, a = normal(heads) - 2, -np.exp(normal(heads))
    y, carried = bench.empty(rows, heads, size), bench.put(np.zeros(heads * size * size, np.float32))

    def check():
        some = np.array([0, heads - 1])
        q, k, v = np.split(conv.reshape(rows, -1, size), [keys, 2 * keys], axis=1)
        few = np.concatenate([q[:, some % keys], k[:, some % keys], v[:, some]], axis=1).reshape(rows, -1)
        gates = (x[..., some] for x in (alpha, beta, dt_bias, a))
        start = np.zeros((2, size, size))
        exact, state = reference(few, *gates, start, key_heads=2, size=size, eps=EPS)
        after = state_to_numpy(bench.get(carried, -1), heads, size)[some]
        return [(bench.get(y, rows, heads, size)[:, some], exact.reshape(rows, 2, size)), (after, state)]

    buffers = *(bench.put(x) for x in (conv, alpha, beta, dt_bias, a)), carried, y, bench.step(rows)
    numbers = {"rows": rows, "key_heads": keys, "value_heads": heads, "size": size, "eps": EPS}
    measure(gated_delta(bench.profile, *buffers, **numbers), check, flops=7 * size * size * heads * rows)

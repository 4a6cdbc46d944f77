from spvk.kernels.conv_silu import TAPS, conv_silu, reference


def bench_conv_silu(measure, bench, normal, shape, rows):
    channels = (2 * shape.key_heads + shape.value_heads) * shape.state
    x, weight, state = normal(rows, channels), normal(channels, TAPS), normal(TAPS - 1, channels)
    y, carried = bench.empty(rows, channels), bench.put(state)

    def check():
        exact, after = reference(x, weight, state)
        return [(bench.get(y, rows, channels), exact), (bench.get(carried, TAPS - 1, channels), after)]

    buffers = bench.put(x), bench.put(weight), carried, y, bench.step(rows)
    measure(conv_silu(bench.profile, *buffers, rows=rows, channels=channels), check)

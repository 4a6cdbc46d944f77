from dataclasses import replace

import numpy as np
import pytest

from blocks import HALVES, dequantize, put_matrix, random_rows
from conftest import assert_close, nmse
from spvk.gguf.types import BY_NAME
from spvk.kernels import quantize_rows
from spvk.kernels.matmul import matmul, reference
from spvk.kernels.profile import Profile
from spvk.recording import Buffer, Matrix
from spvk.shaders import SMALL_QUANTS, WEIGHT_TYPES

PROFILES = {"cpu": Profile("cpu", 8, 8), "scalar": Profile("scalar", 8, 256)}
FAST = Profile("cpu", 8, 8, "fast")
BUDGET = 1e-12


def product(bench, profile, x, w, *, tokens=None, y=None, accumulate=False):
    rows = len(x)
    out, source = bench.empty(rows, w.rows) if y is None else bench.put(y), bench.put(x)
    step = bench.step(rows if tokens is None else tokens)
    packed, recording = None, []
    if quantize_rows.reads_packed(profile, rows, w.type):
        packed = bench.put(np.full(quantize_rows.packed_bytes(profile, rows, w.k), 0xFF, np.uint8))
        recording = [quantize_rows.quantize_rows(profile, source, packed, step, rows=rows, k=w.k)]
    bench.run(recording, matmul(profile, source, w, out, step, rows=rows, accumulate=accumulate, packed=packed))
    return bench.get(out, rows, w.rows)


def normal(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("kind", PROFILES)
@pytest.mark.parametrize("name", WEIGHT_TYPES)
def test_every_type(bench, name, kind):
    """Against the twin, and exactly where all values are whole and sums stay below 2^24."""
    rng = np.random.default_rng(5)
    raw, x = random_rows(name, 19, 512, rng), normal(rng, 3, 512)
    got = product(bench, PROFILES[kind], x, put_matrix(bench, name, raw))
    assert_close(got, reference(x, dequantize(name, raw)), BUDGET, f"{name} {kind}")
    raw, x = random_rows(name, 19, 512, rng, integers=True), rng.integers(-2, 3, (3, 512)).astype(np.float32)
    got = product(bench, PROFILES[kind], x, put_matrix(bench, name, raw))
    assert np.array_equal(got, reference(x, dequantize(name, raw)))


@pytest.mark.parametrize("kind", PROFILES)
@pytest.mark.parametrize("rows,n,k", [(1, 5, 256), (2, 16, 256), (5, 33, 768), (8, 64, 256), (17, 65, 512),
                                      (70, 200, 256)])
def test_ragged_shapes(bench, rows, n, k, kind):
    rng = np.random.default_rng(6)
    raw, x = random_rows("Q4_K", n, k, rng), normal(rng, rows, k)
    got = product(bench, PROFILES[kind], x, put_matrix(bench, "Q4_K", raw))
    assert_close(got, reference(x, dequantize("Q4_K", raw)), BUDGET)


@pytest.mark.parametrize("kind", PROFILES)
def test_ragged_float_weights(bench, kind):
    rng = np.random.default_rng(16)
    raw, x = random_rows("F32", 33, 40, rng), normal(rng, 35, 40)
    got = product(bench, PROFILES[kind], x, put_matrix(bench, "F32", raw))
    assert_close(got, reference(x, dequantize("F32", raw)), BUDGET)


@pytest.mark.parametrize("kind", PROFILES)
@pytest.mark.parametrize("name,k", [("F32", 8), ("F32", 40), ("F16", 24), ("BF16", 72), ("Q8_0", 32),
                                    ("Q4_0", 96)])
def test_short_rows(bench, name, k, kind):
    rng = np.random.default_rng(7)
    raw, x = random_rows(name, 6, k, rng), normal(rng, 3, k)
    got = product(bench, PROFILES[kind], x, put_matrix(bench, name, raw))
    assert_close(got, reference(x, dequantize(name, raw)), BUDGET)


@pytest.mark.parametrize("local", [16, 64])
def test_several_subgroups_a_workgroup(bench, local):
    rng = np.random.default_rng(8)
    raw, x = random_rows("Q4_K", 150, 256, rng), normal(rng, 4, 256)
    got = product(bench, Profile("cpu", 8, local), x, put_matrix(bench, "Q4_K", raw))
    assert_close(got, reference(x, dequantize("Q4_K", raw)), BUDGET)


@pytest.mark.parametrize("kind", PROFILES)
def test_pieces_and_accumulation(bench, kind):
    rng = np.random.default_rng(9)
    raw, x, y = random_rows("Q4_K", 40, 256, rng), normal(rng, 3, 256), normal(rng, 3, 40)
    exact = reference(x, dequantize("Q4_K", raw))
    w = put_matrix(bench, "Q4_K", raw, cuts=(13, 14))
    assert_close(product(bench, PROFILES[kind], x, w), exact, BUDGET)
    assert_close(product(bench, PROFILES[kind], x, w, y=y, accumulate=True), y + exact, BUDGET)


@pytest.mark.parametrize("kind", PROFILES)
def test_rows_depend_on_nothing_but_themselves(bench, kind):
    """The same rows in a larger batch, beside NaN rows, with fewer of them valid: the same to the bit."""
    rng = np.random.default_rng(10)
    w, x = put_matrix(bench, "Q4_K", random_rows("Q4_K", 30, 256, rng)), normal(rng, 12, 256)
    all_rows = product(bench, PROFILES[kind], x, w)
    some = product(bench, PROFILES[kind], x, w, tokens=7)
    assert np.array_equal(some[:7], all_rows[:7]) and np.isnan(some[7:]).all()
    x[[3, 9]] = np.nan
    beside = product(bench, PROFILES[kind], x, w)
    rest = [i for i in range(12) if i not in (3, 9)]
    assert np.array_equal(beside[rest], all_rows[rest]) and np.isnan(beside[[3, 9]]).all()
    assert np.array_equal(product(bench, PROFILES[kind], x[:2], w), all_rows[:2])
    assert nmse(product(bench, PROFILES[kind], x[:1], w), all_rows[:1]) < BUDGET


@pytest.mark.parametrize("kind", PROFILES)
@pytest.mark.parametrize("rows,n", [(40, 70), (4, 300)])
def test_cut_into_many_submissions(bench, monkeypatch, rows, n, kind):
    rng = np.random.default_rng(11)
    raw, x = random_rows("Q4_K", n, 256, rng), normal(rng, rows, 256)
    monkeypatch.setattr("spvk.vulkan.commands.SUBMISSION_SECONDS", 1e-5)
    got = product(bench, PROFILES[kind], x, put_matrix(bench, "Q4_K", raw))
    assert_close(got, reference(x, dequantize("Q4_K", raw)), BUDGET)


@pytest.mark.parametrize("name", SMALL_QUANTS)
def test_rounded_activations(bench, name):
    """Against the twin of rounded activations; the rounding itself costs less than 1e-4."""
    rng = np.random.default_rng(17)
    raw, x = random_rows(name, 21, 768, rng), normal(rng, 19, 768)
    got, weights = product(bench, FAST, x, put_matrix(bench, name, raw)), dequantize(name, raw)
    assert_close(got, reference(quantize_rows.reference(x), weights), 1e-11, f"{name} fast")
    assert_close(got, reference(x, weights), 1e-4, f"{name} fast, rounding included")


@pytest.mark.parametrize("name", SMALL_QUANTS)
@pytest.mark.parametrize("byte", [0x00, 0xFF, 0x88])
def test_rounded_sums_that_fill_their_half_word(bench, name, byte):
    """All quants at an end of their range times levels of 127 and -127: nothing runs over."""
    rng = np.random.default_rng(18)
    raw = random_rows(name, 9, 256, rng, integers=True)
    head = np.zeros(raw.shape[1] // (256 // BY_NAME[name].block_elements), bool)
    for at in HALVES[name]:
        head[at:at + 2] = True
    raw[:, ~np.tile(head, 256 // BY_NAME[name].block_elements)] = byte
    x = np.where(np.arange(4)[:, None] % 2, np.float32(-127), np.float32(127)).repeat(256, 1)
    exact = reference(x, dequantize(name, raw))
    for rows in (4, 1):
        assert np.array_equal(product(bench, FAST, x[:rows], put_matrix(bench, name, raw)), exact[:rows])


@pytest.mark.parametrize("rows,n,k", [(1, 5, 256), (2, 16, 256), (5, 33, 768), (8, 64, 256), (17, 65, 512),
                                      (70, 200, 256)])
def test_rounded_ragged_shapes(bench, rows, n, k):
    rng = np.random.default_rng(19)
    raw, x = random_rows("Q4_K", n, k, rng), normal(rng, rows, k)
    got = product(bench, FAST, x, put_matrix(bench, "Q4_K", raw))
    assert_close(got, reference(quantize_rows.reference(x), dequantize("Q4_K", raw)), 1e-11)


def test_rounded_pieces_and_accumulation(bench):
    rng = np.random.default_rng(20)
    for name, k in (("Q4_K", 256), ("Q5_0", 96)):
        raw, y = random_rows(name, 40, k, rng), normal(rng, 3, 40)
        x = normal(rng, 3, k)
        exact = reference(quantize_rows.reference(x), dequantize(name, raw))
        w = put_matrix(bench, name, raw, cuts=(13, 14))
        for rows in (3, 1):
            assert_close(product(bench, FAST, x[:rows], w), exact[:rows], 1e-11)
            got = product(bench, FAST, x[:rows], w, y=y[:rows], accumulate=True)
            assert_close(got, y[:rows] + exact[:rows], 1e-11)


def test_rounded_rows_depend_on_nothing_but_themselves(bench):
    rng = np.random.default_rng(21)
    w, x = put_matrix(bench, "Q4_K", random_rows("Q4_K", 30, 256, rng)), normal(rng, 40, 256)
    all_rows = product(bench, FAST, x, w)
    some = product(bench, FAST, x, w, tokens=7)
    assert np.array_equal(some[:7], all_rows[:7]) and np.isnan(some[7:]).all()
    for rows in (2, 3, 8, 16, 17):
        assert np.array_equal(product(bench, FAST, x[:rows], w), all_rows[:rows]), rows
    assert nmse(product(bench, FAST, x[:1], w), all_rows[:1]) < BUDGET
    x[[3, 9]] = np.nan
    beside = product(bench, FAST, x, w)
    rest = [i for i in range(40) if i not in (3, 9)]
    assert np.array_equal(beside[rest], all_rows[rest]) and np.isnan(beside[[3, 9]]).all()


def test_dispatches_of_a_large_product():
    pieces = ((0, 3000, Buffer("a", 3000 * 576)), (3000, 584, Buffer("b", 584 * 576)))
    w = Matrix("w", "Q4_K", 1024, 3584, 576, pieces)
    x, y = Buffer("x", 4 * 512 * 1024), Buffer("y", 4 * 512 * 3584)
    first, second = matmul(PROFILES["cpu"], x, w, y, Buffer("step", 16), rows=512)
    assert (first.module, first.groups) == ("matmul.q4_k.lanes", (47, 32, 1))
    assert first.flops == 2 * 512 * 3000 * 1024
    assert (second.args["first"], second.args["n"], second.args["stride"]) == (3000, 584, 3584)
    gpu = matmul(PROFILES["scalar"], x, w, y, Buffer("step", 16), rows=512)[0]
    assert (gpu.module, gpu.groups, gpu.split) == ("matmul.q4_k.tiles", (24, 8, 1), 0)


GOOD = Matrix("w", "Q4_K", 256, 4, 144, ((0, 4, Buffer("w", 576)),))


@pytest.mark.parametrize("change,message", [
    (dict(type="Q8_1"), "matmul: w is Q8_1, expected one of F32, F16, BF16"),
    (dict(k=128), r"matmul: k of w \(Q4_K\) is 128, expected a multiple of 256"),
    (dict(type="F16", k=12), r"matmul: k of w \(F16\) is 12, expected a multiple of 8"),
    (dict(row_bytes=140), "matmul: w has rows of 140 bytes, expected 144"),
    (dict(pieces=((0, 4, Buffer("w", 500)),)), "w has 500 bytes for rows 0 to 4, expected at least 576"),
])
def test_unreadable_matrices_are_named(change, message):
    big = Buffer("big", 9999)
    with pytest.raises(ValueError, match=message):
        matmul(PROFILES["cpu"], big, replace(GOOD, **change), big, Buffer("step", 16), rows=1)


def test_short_and_misaligned_buffers_are_named():
    step, big = Buffer("step", 16), Buffer("big", 1 << 16)
    with pytest.raises(ValueError, match="matmul: x has 1024 bytes, expected at least 2048"):
        matmul(PROFILES["cpu"], Buffer("x", 1024), GOOD, big, step, rows=2)
    with pytest.raises(ValueError, match="matmul: y has 8 bytes, expected at least 32"):
        matmul(PROFILES["cpu"], big, GOOD, Buffer("y", 8), step, rows=2)
    with pytest.raises(ValueError, match="matmul: offset of x is 4, expected a multiple of 16"):
        matmul(PROFILES["cpu"], big.range(4, 4096), GOOD, big, step, rows=2)

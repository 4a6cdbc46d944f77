"""Kernels that round their own rows: bit for bit what quantize_rows makes of the rows that they would store."""

import numpy as np
import pytest

from spvk.kernels.attention import attention
from spvk.kernels.gated_norm import gated_norm
from spvk.kernels.profile import Profile
from spvk.kernels.quantize_rows import layout, packed_bytes, quantize_rows
from spvk.kernels.rms_norm import rms_norm
from spvk.kernels.swiglu import swiglu
from spvk.recording import Buffer

EPS = 1e-6
# (profile, rows of the recording, valid ones)
CASES = [
    (Profile("cpu", 8, 8, "fast"), 1, 1),
    (Profile("cpu", 8, 32, "fast"), 1, 1),
    (Profile("cpu", 8, 8, "fast"), 2, 1),
    (Profile("cpu", 8, 8, "fast"), 35, 17),
    (Profile("cpu", 8, 32, "fast"), 16, 16),
    (Profile("dot", 8, 64, "fast"), 5, 3),
    (Profile("dot", 8, 256, "fast"), 2, 2),
]
HALVES = [(Profile("coopmat", 8, 64, "fast"), 5, 3), (Profile("coopmat", 8, 256, "fast"), 2, 2)]


@pytest.fixture(
    params=CASES + [pytest.param(c, marks=pytest.mark.coopmat) for c in HALVES],
    ids=lambda c: f"{c[0].name} of {c[0].local}, {c[2]} of {c[1]} rows",
)
def case(request):
    return request.param


def uneven(rng, *shape):
    """Rows of very different sizes, with a run of zeros."""
    x = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, (shape[0], 1))
    x[:, 32:64] = 0
    return x.astype(np.float32)


def room(bench, profile, rows, k):
    return bench.put(np.full(packed_bytes(profile, rows, k), 0xEE, np.uint8), "packed")


def compare(bench, case, k, kernel, out_rows=None):
    """kernel(step, y, **how) with and without `packed`; returns y as the former left it, uint32 [rows, k]."""
    profile, rows, tokens = case
    rows = out_rows or rows
    step, y, left = bench.step(tokens), bench.empty(rows, k), bench.empty(rows, k)
    fused, apart = room(bench, profile, rows, k), room(bench, profile, rows, k)
    made = kernel(step, left, packed=fused)
    assert made.rounds is left and made.module.endswith(f".{layout(profile, rows)}")
    bench.run(kernel(step, y), quantize_rows(profile, y, apart, step, rows=rows, k=k), made)
    got = bench.get(fused, -1, dtype=np.uint8)
    assert np.array_equal(got, bench.get(apart, -1, dtype=np.uint8)) and len(np.unique(got)) > 20
    return bench.get(y, rows, k, dtype=np.uint32), bench.get(left, rows, k, dtype=np.uint32)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("n", [64, 1056])
def test_rms_norm(bench, case, n, keep):
    profile, rows, _ = case
    rng = np.random.default_rng(51)
    x, weight = bench.put(uneven(rng, rows, n)), bench.put(rng.normal(size=n).astype(np.float32))

    def kernel(step, y, **how):
        how |= {"keep": keep} if how else {}
        return rms_norm(profile, x, weight, y, step, rows=rows, n=n, eps=EPS, **how)

    stored, left = compare(bench, case, n, kernel)
    assert np.array_equal(left, stored) if keep else np.isnan(left.view(np.float32)).all()


def test_rms_norm_of_the_last_row(bench):
    case = Profile("cpu", 8, 8, "fast"), 20, 7
    rng = np.random.default_rng(52)
    x, weight = bench.put(uneven(rng, 20, 96)), bench.put(rng.normal(size=96).astype(np.float32))

    def kernel(step, y, **how):
        return rms_norm(case[0], x, weight, y, step, rows=20, n=96, eps=EPS, last=True, **how)

    stored, left = compare(bench, case, 96, kernel, out_rows=1)
    assert np.array_equal(left, stored)


@pytest.mark.parametrize("n,spare", [(64, 0), (1056, 4)])
def test_swiglu(bench, case, n, spare):
    profile, rows, _ = case
    rng, stride = np.random.default_rng(53), 2 * n + spare
    both = bench.put(uneven(rng, rows, stride))
    up = both.range(4 * n, both.nbytes - 4 * n)

    def kernel(step, y, **how):
        return swiglu(profile, both, up, y, step, rows=rows, n=n, stride=stride, **how)

    _, left = compare(bench, case, n, kernel)
    assert np.isnan(left.view(np.float32)).all()


@pytest.mark.parametrize("heads,size,spare", [(1, 64, 0), (3, 96, 4), (16, 128, 0), (5, 32, 12), (2, 256, 0)])
def test_gated_norm(bench, case, heads, size, spare):
    profile, rows, _ = case
    k = heads * size
    rng, stride = np.random.default_rng(54), k + spare
    x, z = bench.put(uneven(rng, rows, k)), bench.put(uneven(rng, rows, stride))
    weight = bench.put(rng.normal(size=size).astype(np.float32))
    sizes = dict(rows=rows, heads=heads, size=size, eps=EPS, stride=stride)

    def kernel(step, y, **how):
        return gated_norm(profile, x, weight, z, y, step, **sizes, **how)

    _, left = compare(bench, case, k, kernel)
    assert np.isnan(left.view(np.float32)).all()


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("heads,kv_heads,dim", [(1, 1, 64), (9, 3, 64), (8, 2, 256), (15, 1, 32), (4, 4, 96)])
def test_attention_of_one_row(bench, heads, kv_heads, dim, gated):
    case, rng, context = (Profile("cpu", 8, 8, "fast"), 1, 1), np.random.default_rng(56), 150
    shapes = (1, heads, dim), (kv_heads, context, dim), (kv_heads, context, dim), (1, heads, 2 * dim)
    q, k, v, gate = (bench.put(rng.normal(size=s).astype(np.float32)) for s in shapes)
    sizes = dict(rows=1, heads=heads, kv_heads=kv_heads, dim=dim, context=context)
    step = bench.step(1, past=140)

    def kernel(_, y, **how):
        (made,) = attention(case[0], q, k, v, y, step, gate=gate if gated else None, **sizes, **how)
        return made

    _, left = compare(bench, case, heads * dim, kernel)
    assert np.isnan(left.view(np.float32)).all()


def test_attention_that_does_not_round():
    """Rows of several tokens, heads that end within a run of 32."""
    b, profile = Buffer("b", 2**20), Profile("cpu", 8, 8, "fast")
    for rows, dim in ((2, 64), (1, 40)):
        sizes = dict(rows=rows, heads=4, kv_heads=2, dim=dim, context=64)
        (made,) = attention(profile, b, b, b, b, b, packed=b, **sizes)
        assert made.module == "attention.texels" and made.rounds is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_run(bench, bad):
    case, rng = (Profile("cpu", 8, 8, "fast"), 3, 3), np.random.default_rng(55)
    values = uneven(rng, 3, 192)
    values[1, 70] = bad
    both = bench.put(values)

    def kernel(step, y, **how):
        return swiglu(
            case[0], both, both.range(384, both.nbytes - 384), y, step, rows=3, n=96, stride=192, **how
        )

    stored, _ = compare(bench, case, 96, kernel)
    assert np.isfinite(stored.view(np.float32)).sum() == 3 * 96 - 1


def test_no_layout_no_packed_rows():
    b = Buffer("b", 4096)
    for profile in (Profile("cpu", 8, 8), Profile("scalar", 32, 256, "fast")):
        made = swiglu(profile, b, b, b, b, rows=2, n=64, packed=b)
        assert made.module == "swiglu" and made.rounds is None


def test_bad_packed_rows_are_named():
    b, profile = Buffer("b", 4096), Profile("cpu", 8, 8, "fast")
    with pytest.raises(ValueError, match="swiglu: k is 40, expected a multiple of 32"):
        swiglu(profile, b, b, b, b, rows=2, n=40, packed=b)
    with pytest.raises(ValueError, match="rms_norm: packed has 64 bytes, expected at least 1152"):
        rms_norm(profile, b, b, b, b, rows=2, n=64, eps=EPS, packed=b.range(0, 64))
    with pytest.raises(ValueError, match="gated_norm: 1025 heads, expected at most 1024"):
        big = Buffer("big", 2**20)
        gated_norm(profile, big, b, big, big, b, rows=2, heads=1025, size=32, eps=EPS, packed=big)
    with pytest.raises(ValueError, match="gated_norm: offset of packed is 4, expected a multiple of 16"):
        gated_norm(profile, b, b, b, b, b, rows=2, heads=2, size=32, eps=EPS, packed=b.range(4, 2048))

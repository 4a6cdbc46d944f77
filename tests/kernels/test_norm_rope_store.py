from fractions import Fraction

import numpy as np
import pytest

from conftest import assert_close
from spvk.kernels.norm_rope_store import norm_rope_store, reference, rope_phases, turns
from spvk.kernels.profile import Profile
from spvk.recording import Buffer

POSITIONS = np.array([0, 1, 2, 7, 1000, 65537, 262143, 262144, 1048575], np.uint32)


def data(rows, heads, kv_heads, dim, gated, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [(rows, heads, dim * (2 if gated else 1)), (rows, kv_heads, dim), (rows, kv_heads, dim)]
    return [rng.normal(size=s).astype(np.float32) for s in shapes]


class Store:
    """One layer's buffers, and launches of batches into them."""

    def __init__(self, bench, heads, kv_heads, dim, context, rotary, **options):
        self.bench, self.sizes = bench, dict(heads=heads, kv_heads=kv_heads, dim=dim, context=context,
                                             rotary=rotary)
        self.caches = [bench.empty(kv_heads, context, dim) for _ in range(2)]
        self.phases, self.options = rope_phases(rotary, 1e7), options

    def run(self, q, k, v, positions, past=0, tokens=None, profile=None):
        rows, b, s = len(q), self.bench, self.sizes
        out = b.empty(rows, s["heads"], s["dim"])
        b.run(norm_rope_store(profile or b.profile, b.put(q), b.put(k), b.put(v), out, *self.caches,
                              b.put(positions),
                              b.put(self.phases), b.step(rows if tokens is None else tokens, past=past),
                              rows=rows,
                              eps=1e-6, **s, **self.options))
        return b.get(out, rows, s["heads"], s["dim"])

    def cache(self, which):
        s = self.sizes
        return self.bench.get(self.caches[which], s["kv_heads"], s["context"], s["dim"])


@pytest.mark.parametrize("local", [8, 64])
@pytest.mark.parametrize("heads,kv_heads,dim,rotary,gated,pairing,norms", [
    (4, 2, 64, 64, False, "adjacent", False), (3, 1, 72, 20, True, "half", True),
    (4, 1, 256, 64, True, "half", True)])
def test_matches_twin(bench, heads, kv_heads, dim, rotary, gated, pairing, norms, local):
    rng, rows = np.random.default_rng(1), len(POSITIONS)
    weights = [rng.normal(size=dim).astype(np.float32) if norms else None for _ in range(2)]
    options = {n: bench.put(w) for n, w in zip(("q_weight", "k_weight"), weights) if w is not None}
    store = Store(bench, heads, kv_heads, dim, rows + 5, rotary, gated=gated, pairing=pairing, **options)
    q, k, v = data(rows, heads, kv_heads, dim, gated)
    out = store.run(q, k, v, POSITIONS, past=3, profile=Profile("cpu", 8, local))
    ref = [reference(x, POSITIONS, store.phases, 1e-6, w, pairing) for x, w in
           zip((q[..., :dim], k), weights)]
    assert_close(out, ref[0], 1e-13, "queries")
    assert_close(store.cache(0)[:, 3:3 + rows], ref[1].transpose(1, 0, 2), 1e-13, "keys")
    assert np.array_equal(store.cache(1)[:, 3:3 + rows], v.transpose(1, 0, 2))
    for cache in (store.cache(0), store.cache(1)):
        assert np.isnan(cache[:, :3]).all() and np.isnan(cache[:, 3 + rows:]).all()


def test_phases_are_exact_at_any_position(bench):
    """Unit vectors come out as (cos, sin) of the exact angle within 1e-7, at far positions too."""
    rotary = 64
    store = Store(bench, 1, 1, rotary, 2048, rotary)
    far = np.random.default_rng(3).integers(0, 2**20, 1500).astype(np.uint32)
    positions = np.concatenate([POSITIONS, far])
    one = np.zeros((len(positions), 1, rotary), np.float32)
    one[..., :rotary // 2] = 1
    out = store.run(one, one, one, positions).astype(np.float64)[:, 0]
    angle = 2 * np.pi * turns(store.phases, positions)
    error = max(abs(out[:, :32] - np.cos(angle)).max(), abs(out[:, 32:] - np.sin(angle)).max())
    print(f"largest error {error:.2e}")
    assert error <= 1e-7


def test_phases_against_exact_arithmetic():
    """Pair 0 turns by 1 radian a position; pair 32 of 64 by base^-1/2; a factor divides."""
    pi = Fraction(31415926535897932384626433832795028841971693993751, 10**49)
    fixed = rope_phases(128, 10000.0).view(np.uint64)[:, 0]
    assert int(fixed[0]) == round(2**64 / (2 * pi))
    assert int(fixed[32]) == round(2**64 / (2 * pi) / 100)
    assert int(rope_phases(2, 500.0, [8.0]).view(np.uint64)[0, 0]) == round(2**64 / (16 * pi))
    assert np.array_equal(fixed, np.sort(fixed)[::-1])


def test_batches_and_tokens_do_not_matter(bench):
    q, k, v = data(16, 4, 2, 64, False)
    whole, split = (Store(bench, 4, 2, 64, 20, 32) for _ in range(2))
    positions = np.arange(0, 48, 3, dtype=np.uint32)
    out = whole.run(q, k, v, positions)
    first = split.run(q[:7], k[:7], v[:7], positions[:7], tokens=5)
    rest = split.run(q[5:], k[5:], v[5:], positions[5:], past=5)
    assert np.isnan(first[5:]).all() and np.array_equal(np.concatenate([first[:5], rest]), out)
    assert np.array_equal(whole.cache(0)[:, :16], split.cache(0)[:, :16])
    assert np.isnan(split.cache(1)[:, 16:]).all()


def test_slots_beyond_the_context_are_dropped(bench):
    store = Store(bench, 2, 1, 64, 3, 64)
    store.run(*data(4, 2, 1, 64, False), np.arange(4, dtype=np.uint32), past=1)
    assert not np.isnan(store.cache(0)[:, 1:]).any()


@pytest.mark.parametrize("call,message", [
    (lambda: rope_phases(63, 1e4), "rotary is 63, expected an even number"),
    (lambda: rope_phases(64, 1e4, [1.0]), "1 frequency factors, expected 32"),
    (lambda: rope_phases(64, -1.0), "base -1.0 or a frequency factor is not a positive number")])
def test_bad_frequencies(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_bad_sizes(bench):
    small = Buffer("x", 64)
    sizes = dict(rows=1, heads=2, kv_heads=1, dim=64, rotary=64, context=4, eps=0.0)
    with pytest.raises(ValueError, match="norm_rope_store: q_in has 64 bytes, expected at least 512"):
        norm_rope_store(bench.profile, *[small] * 9, **sizes)
    with pytest.raises(ValueError, match="rotary 66 of 64"):
        norm_rope_store(bench.profile, *[small] * 9, **(sizes | {"rotary": 66}))

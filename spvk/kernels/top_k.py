"""The k largest of n values, by a tournament of chunks.

The largest of each chunk first, then k rounds in which the winner's chunk puts up its next.
"""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes, expect_multiple
from .profile import Profile

MOST = 64     # largest k
CHUNKS = 256  # at most; top_k.comp keeps one key of each
NO_ID = 0xFFFFFFFF


def top_k(profile: Profile, x: Buffer, ids: Buffer, values: Buffer, scratch: Buffer, *, n: int,
          k: int) -> list[Dispatch]:
    """ids [k] uint32, values [k] float32: the k largest of x [n] float32, descending, ties by lower index.

    A NaN goes before all numbers and has the id 0xFFFFFFFF. `scratch` has scratch_bytes().
    Raises ValueError unless 1 <= k <= 64 and k <= n, and for a short or unaligned buffer.
    """
    if not 1 <= k <= min(MOST, n):
        raise ValueError(f"top_k: k is {k}, expected 1 to {min(MOST, n)}")
    expect_multiple("top_k", x_offset=(x.offset, 8), scratch_offset=(scratch.offset, 8))
    expect_bytes("top_k", x=(x, 4 * n), ids=(ids, 4 * k), values=(values, 4 * k),
                 scratch=(scratch, scratch_bytes()))
    chunk = 2 * -(-n // (2 * CHUNKS))
    chunks = -(-n // chunk)
    keys = scratch.range(0, 8 * CHUNKS, "keys")
    spec = {"LOCAL": profile.local}
    args = dict(x=x, keys=keys, n=n, chunk=chunk)
    return [Dispatch("chunk_max", (chunks, 1, 1), args, spec, flops=8 * n),
            Dispatch("top_k", (1, 1, 1), dict(args, ids=ids, values=values, chunks=chunks, k=k), spec,
                     flops=8 * k * (chunk + chunks))]


def scratch_bytes() -> int:
    """Bytes of the scratch buffer of top_k and argmax: a key a chunk, and the value argmax has no use for."""
    return 8 * CHUNKS + 8


def reference(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(ids [k], values [k]), ties by lower index; x without NaN."""
    ids = np.argsort(-x.astype(np.float64), kind="stable")[:k]
    return ids.astype(np.uint32), x[ids]

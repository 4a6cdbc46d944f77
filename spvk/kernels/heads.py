"""Checks on head counts and the KV cache that the attention and score kernels share."""

from __future__ import annotations

from .checks import expect_multiple

MAX_DIM = 256        # floats of a head
MAX_INDEX = 2**31    # elements of one buffer: shaders index with 32 bits


def expect_heads(kernel: str, heads: int, kv_heads: int, dim: int, context: int, rows: int = 1) -> None:
    """Raise ValueError unless heads can be grouped, the head dimension fits and indices stay in range."""
    expect_multiple(kernel, heads=(heads, kv_heads), dim=(dim, 8))
    if not 0 < dim <= MAX_DIM:
        raise ValueError(f"{kernel}: dim is {dim}, expected 8 to {MAX_DIM}")
    if context < 1 or max(kv_heads * dim * context, heads * context, 2 * rows * heads * dim) >= MAX_INDEX:
        raise ValueError(f"{kernel}: {kv_heads} KV heads of {dim} by context {context}, {rows} rows of {heads} heads: "
                         f"expected fewer than {MAX_INDEX} elements a buffer")

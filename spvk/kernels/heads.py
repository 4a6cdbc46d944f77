"""Checks on head counts and the KV cache that the attention and score kernels share."""

from __future__ import annotations

from .checks import expect_multiple
from .profile import Profile

MAX_DIM = 256        # floats of a head
MAX_INDEX = 2**31    # elements of one buffer: shaders index with 32 bits


def expect_heads(kernel: str, heads: int, kv_heads: int, dim: int, context: int, rows: int = 1) -> None:
    """Raise ValueError unless heads can be grouped, the head dimension fits and indices stay in range."""
    if min(heads, kv_heads, rows) < 1:
        raise ValueError(f"{kernel}: {heads} heads, {kv_heads} KV heads, {rows} rows: expected at "
                         "least 1 of each")
    expect_multiple(kernel, heads=(heads, kv_heads), dim=(dim, 8))
    if not 0 < dim <= MAX_DIM:
        raise ValueError(f"{kernel}: dim is {dim}, expected 8 to {MAX_DIM}")
    if context < 1 or max(kv_heads * dim * context, heads * context, 2 * rows * heads * dim) >= MAX_INDEX:
        raise ValueError(f"{kernel}: {kv_heads} KV heads of {dim} by context {context}, {rows} rows of "
                         f"{heads} heads: expected fewer than {MAX_INDEX} elements a buffer")


def cache_item(profile: Profile) -> int:
    """Bytes of an element of the KV cache."""
    return 2 if profile.cache == "f16" else 4


def cache_spec(profile: Profile) -> dict[str, int]:
    """The specialisation constant of shaders/include/cache.glsl."""
    return {"HALF": int(profile.cache == "f16")}


def tile_spec(profile: Profile, rows: int, dim: int) -> dict[str, int]:
    """Specialisation constants of shaders/include/qk_tile.glsl for a tile of `rows` query rows.

    A software driver is fastest with one subgroup a workgroup, queries in private memory and rolled loops;
    a GPU wants constant indices.
    """
    cpu = profile.name == "cpu"
    return {"LOCAL": profile.subgroup, "ROWS": rows, "QUADS": dim // 4, "STAGED": int(cpu),
            "CHUNK": 1 if cpu else rows, **cache_spec(profile)}

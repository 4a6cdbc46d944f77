"""Causal attention with grouped query heads, streaming over the KV cache.

The softmax is the online one (Milakov & Gimelshein, arXiv 1805.02867) in the block form of FlashAttention
(Dao et al., arXiv 2205.14135): scores of a block of keys, running maximum and sum, output rescaled from
block to block; no score leaves the workgroup.
"""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch
from .checks import expect_bytes, expect_multiple
from .heads import cache_item, cache_spec, expect_heads, tile_spec
from .profile import Profile
from .quantize_rows import RUN, expect_packed, layout

MAX_ROWS_CPU, MAX_ROWS_GPU = 32, 4  # query rows (heads of a group x tokens) of a tile
TILE_ROWS, MANY_ROWS = 64, 32  # query rows of a tile of attention.tiles and .coop, and from how many on they are taken
COOP_LOCAL, COOP_DEPTH = 128, 64  # threads of a workgroup of attention.coop; columns of keys that it stages at a time
FEW_TILES = 128  # workgroups below which a GPU is not filled: the keys are then split
BLOCK_KEYS = 128  # keys between two visits of the output, unless one tile is more
# On lavapipe (Mesa 22.3.6) loads by address are more than half of the time at 32 rows, so class cpu reads
# through texel views. 64 rows gain about another 10 %, but the driver then compiles for 12 seconds or more of
# processor time (32 rows: 5, 16: 2).
# A float16 cache there: 1.5 times the time of many rows, 0.9 of a single one's. RDNA3 needs no register more for it.
# Cooperative matrices do 74 multiply-adds a cycle on RDNA3 where float32 has 32 at most (docs/PERFORMANCE.md).
# Accumulating in an array that is also indexed by a variable: a third slower than copying it in and out.


def tile_rows(profile: Profile, rows: int, group: int) -> int:
    """Query rows of a tile: exact when they are few (decode), else few sizes, hence few pipelines.

    On RDNA3 four rows need 96 registers; eight need 152, and a row then takes 1.7 times as long.
    """
    n, cpu = rows * group, profile.name == "cpu"
    most = int(profile.choice("attention.rows", str(MAX_ROWS_CPU))) if cpu else MAX_ROWS_GPU
    return min(most, n if n <= 8 else 16 if n <= 16 else most)


def key_splits(profile: Profile, rows: int, heads: int, kv_heads: int, context: int) -> tuple[int, int]:
    """(ranges, keys a range): the keys are shared out where there are too few rows to fill a GPU, as in decode.

    That is Flash-Decoding (Dao et al., 2023). Two processor cores need no such help.
    """
    tiles = -(-rows * heads // kv_heads // tile_rows(profile, rows, heads // kv_heads)) * kv_heads
    block = max(BLOCK_KEYS, 4 * profile.subgroup)
    if profile.name == "cpu" or tiles >= FEW_TILES:
        return 1, context
    span = block * max(1, -(-context * tiles // (FEW_TILES * block)))
    return -(-context // span), span


def split_bytes(profile: Profile, rows: int, heads: int, kv_heads: int, dim: int, context: int) -> int:
    """Bytes of the partial results of split keys: outputs and (maximum, sum) of every range; 0 without a split."""
    splits, _ = key_splits(profile, rows, heads, kv_heads, context)
    return 4 * splits * rows * heads * (dim + 2) if splits > 1 else 0


def fits_coop(profile: Profile, dim: int) -> bool:
    """Are many rows left to cooperative matrices, of float16? Where products are, and the tiles fit shared memory."""
    if profile.name != "coopmat" or profile.precision != "fast" or dim % COOP_DEPTH:
        return False
    rows, stage = TILE_ROWS * (dim // 8 + 1), max(TILE_ROWS * (COOP_DEPTH // 8 + 1), 3 * dim)  # 16 bytes each
    return 16 * (rows + stage + TILE_ROWS * (TILE_ROWS // 4 + 1)) + 4 * TILE_ROWS <= profile.shared


def coop_spec(profile: Profile) -> dict[str, int]:
    """Specialisation constants of attention.coop.comp: a grid of subgroups, about as many down as across."""
    waves = COOP_LOCAL // profile.wave
    down = 2 ** (waves.bit_length() // 2)
    return {"SUBGROUP": profile.wave, **dict(zip("MNK", profile.matrix)), "WAVE_ROWS": TILE_ROWS // down}


def attention(profile: Profile, q: Buffer, k_cache: Buffer, v_cache: Buffer, y: Buffer, step: Buffer, *,
              rows: int, heads: int, kv_heads: int, dim: int, context: int,
              gate: Buffer | None = None, gate_stride: int | None = None,
              parts: Buffer | None = None, packed: Buffer | None = None) -> list[Dispatch]:
    """q [rows, heads, dim], caches [kv_heads, context, dim] -> y [rows, heads * dim].

    All float32, but the caches as profile.cache. Row i (KV slot past + i, which the caches hold already) sees slots 0 .. past + i; scores are scaled by
    1 / sqrt(dim); query head h uses KV head h // (heads / kv_heads). With `gate` [rows, heads, 2 * dim] the
    output is multiplied by the sigmoid of each head's second half; its rows lie `gate_stride` floats apart
    (default: dense). Rows from step.tokens on are untouched. `parts` (split_bytes) is room for the results
    of key ranges; without it the keys are never split. With `packed` class cpu leaves y alone for a single row,
    if `dim` is a multiple of 32, and rounds it there (quantize_rows). Of more rows, the pairs that a word has
    are not always made by one workgroup; on GPUs a row is made by several.
    Raises ValueError when a size does not fit.
    """
    expect_heads("attention", heads, kv_heads, dim, context, rows)
    cache, flat = cache_item(profile) * kv_heads * context * dim, 4 * rows * heads * dim
    expect_bytes("attention", q=(q, flat), k_cache=(k_cache, cache), v_cache=(v_cache, cache), y=(y, flat))
    gate_stride = 2 * heads * dim if gate_stride is None else gate_stride
    if gate is not None:
        expect_multiple("attention", gate_stride=(gate_stride, 4), gate_offset=(gate.offset, 16))
        expect_bytes("attention", gate=(gate, 4 * ((rows - 1) * gate_stride + 2 * heads * dim)))
    gated, flops, all_rows = int(gate is not None), 4 * dim * heads * rows * context, rows * heads // kv_heads
    common = dict(gate=gate or q, step_params=step, heads=heads, context=context, gate_stride=gate_stride // 4)
    args = dict(q=q, k=k_cache, v=v_cache, kv_heads=kv_heads, scale=dim**-0.5, **common)
    tiled = profile.name != "cpu" and profile.choice("attention.tile", "tiles") == "tiles"
    coop = fits_coop(profile, dim)
    if all_rows >= MANY_ROWS and (tiled or coop):
        groups = (-(-all_rows // TILE_ROWS), kv_heads, 1)
        spec = {"QUADS": dim // 4, "GATED": gated, **cache_spec(profile)}
        stem, own = ("attention.coop", coop_spec(profile)) if coop else ("attention.tiles", {})
        return [Dispatch(stem, groups, dict(y=y, **args), spec | own, flops=flops)]
    splits, span = key_splits(profile, rows, heads, kv_heads, context) if parts is not None else (1, context)
    tile = tile_rows(profile, rows, heads // kv_heads)
    spec = tile_spec(profile, tile, dim) | {"TILES": max(1, BLOCK_KEYS // (4 * profile.subgroup))}
    groups = (-(-all_rows // tile), kv_heads, splits)
    if splits == 1:
        stem = "attention.texels" if profile.name == "cpu" else "attention"
        args |= dict(y=y, stats=y, span=span)
        if packed and layout(profile, rows) == "vector" and dim % RUN == 0:
            expect_packed("attention", profile, packed, rows, heads * dim)
            args |= dict(packed=packed)
            return [Dispatch("attention.vector", groups, args, spec | {"GATED": gated}, flops=flops, rounds=y)]
        return [Dispatch(stem, groups, args, spec | {"GATED": gated}, flops=flops)]
    expect_bytes("attention", parts=(parts, split_bytes(profile, rows, heads, kv_heads, dim, context)))
    outputs = parts.range(0, splits * flat, "attention parts")
    stats = parts.range(splits * flat, 8 * splits * rows * heads, "attention stats")
    args |= dict(y=outputs, stats=stats, span=span)
    merge = dict(parts=outputs, stats=stats, y=y, span=span, **common)
    merge_spec = {"LOCAL": profile.subgroup, "QUADS": dim // 4, "GATED": gated}
    return [
        Dispatch("attention", groups, args, spec | {"SPLIT": 1}, flops=flops),
        Dispatch("attention_merge", (rows, heads, 1), merge, merge_spec, flops=splits * flat),
    ]


def reference(q: np.ndarray, k_cache: np.ndarray, v_cache: np.ndarray, past: int,
              gate: np.ndarray | None = None) -> np.ndarray:
    """The same in float64, row by row: q [rows, heads, dim] -> [rows, heads * dim]."""
    q, k, v = (x.astype(np.float64) for x in (q, k_cache, v_cache))
    rows, heads, dim = q.shape
    out = np.empty_like(q)
    for i in range(rows):
        for h in range(heads):
            g, n = h // (heads // k.shape[0]), past + i + 1
            score = k[g, :n] @ q[i, h] / np.sqrt(dim)
            p = np.exp(score - score.max())
            out[i, h] = p / p.sum() @ v[g, :n]
    if gate is not None:
        out /= 1 + np.exp(-gate.astype(np.float64).reshape(rows, heads, 2, dim)[:, :, 1])
    return out.reshape(rows, -1)

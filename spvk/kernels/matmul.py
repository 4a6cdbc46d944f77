"""Matrix product with fused dequantisation: y = x W^T, or y += x W^T.

`lanes` (class cpu): register tiles, a lane owns columns, x is spread by shuffles; `pairs` (packed rows): the
same in integers, two rows to a 32-bit multiplication. `tiles` (GPUs): tiles in shared memory, dequantised
there. `coop` (class coopmat, packed rows): cooperative matrices of float16, summed in float32. `dot` (class
dot, packed rows): the tiles in bytes, summed as integers as far as a scale reaches. Sums over 8 elements are
trees or the driver's, the rest runs along k in order, so a row's result depends neither on the batch nor on
the other rows.

Measured on lavapipe: `lanes` and `pairs` read through texel views, which Mesa 22 gathers twelve times faster
than by address, where it loops over the lanes (exact product twice as fast, one row three to four times);
subgroupBroadcast costs it as much as such a load, a shuffle by a constant next to nothing. Mesa 25 gains 5 %
from 16 x 8 over 16 x 4. `pairs` gains 3 to 8 % from 32 x 8, which compiles twice as long.
"""

from __future__ import annotations

import numpy as np

from ..recording import Buffer, Dispatch, Matrix
from ..shaders import typed
from .checks import expect_bytes
from .matvec import matvec
from .profile import Profile
from .quantize_rows import packed_bytes, reads_packed
from .weights import expect_aligned, expect_matrix, piece_args

TILE_ROWS, TILE_COLUMNS = 64, 128  # of matmul.tiles.comp and matmul.dot.comp; coop has as many columns
COOP_LOCAL, COOP_GROUPS = 128, 32  # threads of a workgroup of matmul.coop.comp; workgroups that fill a GPU
Variant = tuple[str, tuple[int, int, int], dict[str, int]]  # source, workgroups, constants


def matmul(profile: Profile, x: Buffer, w: Matrix, y: Buffer, step: Buffer, *, rows: int,
           accumulate: bool = False, packed: Buffer | None = None) -> list[Dispatch]:
    """x [rows, w.k] float32, w [w.rows, w.k] -> y [rows, w.rows] float32; the first step.tokens rows.

    One dispatch for each piece of w; with `accumulate` the product is added to y. A batch of one row is
    left to matvec, and computed whatever step.tokens is. `packed` is x rounded by quantize_rows, for the
    variants that read it (quantize_rows.reads_packed).
    Raises ValueError when a buffer is too small, or when shaders cannot read w (type, row length).
    """
    expect_matrix("matmul", w)
    expect_bytes("matmul", x=(x, 4 * rows * w.k), y=(y, 4 * rows * w.rows))
    expect_aligned("matmul", x=x)
    if packed:
        expect_bytes("matmul", packed=(packed, packed_bytes(profile, rows, w.k)))
        expect_aligned("matmul", packed=packed)
    if rows == 1:
        return matvec(profile, x, w, y, accumulate=accumulate, packed=packed)
    if not reads_packed(profile, rows, w.type):
        packed = None
    variant = choose(profile, packed)
    source = dict(packed=packed) if packed else dict(x=x)
    out = []
    for first, n, buffer in w.pieces:
        stem, groups, spec = variant(profile, w.type, rows, n)
        args = dict(y=y, step_params=step, stride=w.rows, **source, **piece_args(w, first, n, buffer))
        out.append(Dispatch(typed(stem, w.type), groups, args, spec | {"ACCUMULATE": int(accumulate)},
                            flops=2 * rows * n * w.k, split=int(groups[1] > groups[0]),
                            columns=(first, first + n)))
    return out


def choose(profile: Profile, packed: Buffer | None):
    """The variant for a device class; those that read packed rows where there are any."""
    if packed:
        return {"cpu": pairs, "coopmat": coop, "dot": dot}[profile.name]
    return lanes if profile.name == "cpu" else tiles


def lanes(profile: Profile, weight_type: str, rows: int, n: int) -> Variant:
    """Tiles of up to 16 rows by 8 columns a lane, for float32 of 32 by 4.

    Weights in four bytes cost as many loads as x, so their tile is nearer to a square.
    """
    chosen = "32x4" if weight_type == "F32" else profile.choice("matmul.tile", "16x8")
    most_rows, most_wide = map(int, chosen.split("x"))
    tile = next(t for t in (2, 4, 8, 16, 32) if t >= min(rows, most_rows))
    wide = next(t for t in (2, 4, 8) if t * profile.local >= min(n, most_wide * profile.local))
    groups = (-(-n // (wide * profile.local)), -(-rows // tile), 1)
    return "matmul.lanes", groups, {"LOCAL": profile.local, "ROWS": tile, "WIDE": wide}


def pairs(profile: Profile, weight_type: str, rows: int, n: int) -> Variant:
    """The same of packed rows: tiles of up to 16 rows by 8 columns a lane."""
    tile = next(t for t in (2, 4, 8, 16) if t >= min(rows, 16))
    wide = next(t for t in (2, 4, 8) if t * profile.local >= min(n, 8 * profile.local))
    groups = (-(-n // (wide * profile.local)), -(-rows // tile), 1)
    return "matmul.pairs", groups, {"LOCAL": profile.local, "ROWS": tile, "WIDE": wide}


def tiles(profile: Profile, weight_type: str, rows: int, n: int) -> Variant:
    """Workgroups of 256 threads for 64 rows by 128 columns."""
    return "matmul.tiles", (-(-n // TILE_COLUMNS), -(-rows // TILE_ROWS), 1), {}


def dot(profile: Profile, weight_type: str, rows: int, n: int) -> Variant:
    """The same, of bytes."""
    return "matmul.dot", (-(-n // TILE_COLUMNS), -(-rows // TILE_ROWS), 1), {}


def coop(profile: Profile, weight_type: str, rows: int, n: int) -> Variant:
    """Workgroups of 128 threads for 32, 64 or 128 rows by 128 columns, cut evenly between their subgroups.

    More rows a workgroup dequantise less often: as many as leave workgroups enough.
    """
    fits = [t for t in (32, 64, 128) if 160 * (TILE_COLUMNS + t) + 4 * t <= profile.shared]
    most, columns = next((t for t in fits if t >= rows), fits[-1]), -(-n // TILE_COLUMNS)
    tile = next((t for t in reversed(fits) if t <= most and columns * -(-rows // t) >= COOP_GROUPS), fits[0])
    waves = COOP_LOCAL // profile.wave
    down = min((2**i for i in range(waves.bit_length()) if tile // 2**i >= max(profile.matrix[0], 16)),
               key=lambda d: tile // d + TILE_COLUMNS * d // waves)
    spec = {"SUBGROUP": profile.wave, **dict(zip("MNK", profile.matrix)), "ROWS": tile,
            "WAVE_ROWS": tile // down, "WAVE_COLUMNS": TILE_COLUMNS * down // waves}
    return "matmul.coop", (-(-n // TILE_COLUMNS), -(-rows // tile), 1), spec


def reference(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The same in float64: x [rows, k], dequantised weights [n, k] -> [rows, n]."""
    return x.astype(np.float64) @ weights.astype(np.float64).T

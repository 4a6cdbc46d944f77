"""Q4_K and Q6_K in NumPy: the block layouts of ggml-quants.c, which the gguf package reads but does not write."""

from __future__ import annotations

import numpy as np

BLOCK = 256


def quantise(x: np.ndarray, kind: str) -> np.ndarray:
    """float32 [rows, k] with k a multiple of 256 -> uint8 [rows, bytes of a row] of `kind`, Q4_K or Q6_K."""
    blocks = np.ascontiguousarray(x, np.float32).reshape(-1, BLOCK)
    return {"Q4_K": q4_k, "Q6_K": q6_k}[kind](blocks).reshape(len(x), -1)


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b, 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(a.shape, b.shape), np.float32), where=b != 0)


def q4_k(blocks: np.ndarray) -> np.ndarray:
    """weight = d * scale * quant - dmin * minimum, per 32 weights; scales and minimums have 6 bits."""
    x = blocks.reshape(-1, 8, 32)
    step, low = best_steps(x)
    d, dmin = step.max(-1, keepdims=True) / 63, low.max(-1, keepdims=True) / 63
    d, dmin = d.astype(np.float16), dmin.astype(np.float16)
    scale = np.rint(divide(step, d.astype(np.float32))).clip(0, 63).astype(np.uint8)
    minimum = np.rint(divide(low, dmin.astype(np.float32))).clip(0, 63).astype(np.uint8)
    step, low = d.astype(np.float32) * scale, dmin.astype(np.float32) * minimum
    quants = np.rint(divide(x + low[..., None], step[..., None])).clip(0, 15).astype(np.uint8)
    quants = quants.reshape(-1, 4, 2, 32)
    packed = quants[:, :, 0] | quants[:, :, 1] << 4
    s, m = (scale[:, :4], scale[:, 4:]), (minimum[:, :4], minimum[:, 4:])
    bits = [s[0] | s[1] >> 4 << 6, m[0] | m[1] >> 4 << 6, s[1] & 15 | (m[1] & 15) << 4]
    return np.hstack([d.view(np.uint8), dmin.view(np.uint8), *bits, packed.reshape(len(x), -1)])


def best_steps(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(step, -minimum) >= 0 of 4-bit grids: of a few grids within the range, the one of least squared error."""
    low, high = -np.minimum(x.min(-1), 0), x.max(-1)
    best = np.full(low.shape, np.inf, np.float32)
    chosen = np.zeros((2, *low.shape), np.float32)
    for top in np.arange(14.0, 16.6, 0.1):
        step = (high + low) / np.float32(top)
        q = np.rint(divide(x + low[..., None], step[..., None])).clip(0, 15)
        # Least squares for step and minimum, given the quants.
        mean_q, mean_x = q.mean(-1), x.mean(-1)
        slope = divide((q * x).mean(-1) - mean_q * mean_x, (q * q).mean(-1) - mean_q**2)
        minimum = np.maximum(slope * mean_q - mean_x, 0)
        slope = np.where(minimum > 0, slope, divide((q * x).sum(-1), (q * q).sum(-1)))
        error = ((slope[..., None] * q - minimum[..., None] - x) ** 2).sum(-1)
        better = (error < best) & (slope >= 0)
        best = np.where(better, error, best)
        chosen = np.where(better, [slope, minimum], chosen)
    return chosen[0].astype(np.float32), chosen[1].astype(np.float32)


def q6_k(blocks: np.ndarray) -> np.ndarray:
    """weight = d * scale * (quant - 32), per 16 weights; scales are int8."""
    x = blocks.reshape(-1, 16, 16)
    extreme = np.take_along_axis(x, np.abs(x).argmax(-1, keepdims=True), -1)[..., 0]
    step = extreme / -32  # the largest weight becomes quant 0
    top = np.take_along_axis(step, np.abs(step).argmax(-1, keepdims=True), -1)
    d = (top / -128).astype(np.float16)
    scale = np.rint(divide(step, d.astype(np.float32))).clip(-128, 127)
    step = d.astype(np.float32) * scale
    quants = (np.rint(divide(x, step[..., None])).clip(-32, 31) + 32).astype(np.uint8)
    quants = quants.reshape(-1, 2, 4, 32)  # halves of 128 weights, four rows of 32 in each
    low, high = quants & 15, quants >> 4
    ql = np.concatenate([low[:, :, 0] | low[:, :, 2] << 4, low[:, :, 1] | low[:, :, 3] << 4], -1)
    qh = high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6
    n = len(x)
    return np.hstack(
        [ql.reshape(n, -1), qh.reshape(n, -1), scale.astype(np.int8).view(np.uint8), d.view(np.uint8)]
    )

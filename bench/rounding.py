"""What rounding activations costs a product, candidate by candidate: squared error beside the exact product.

    python bench/rounding.py

NumPy alone. `normal` activations, and `outliers`: one in 256 is twenty times larger, as in trained models.
Speeds are in docs/PERFORMANCE.md.
"""

from __future__ import annotations

from typing import Callable

import numpy as np
from tables import markdown

from spvk.kernels.quantize_rows import reference, reference_half

ROWS, K, COLUMNS = 256, 1024, 512


def levels(x: np.ndarray, run: int, most: int = 127) -> np.ndarray:
    """Rounded to whole numbers from -most to most, with a scale for each `run` of a row."""
    runs = x.reshape(len(x), -1, run)
    scale = np.abs(runs).max(-1, keepdims=True) / most
    return (np.rint(runs / scale) * scale).reshape(x.shape)


def without_outliers(x: np.ndarray) -> np.ndarray:
    """Values above six stay as they are, the others are rounded with a scale for each 32."""
    large = np.abs(x) > 6
    return np.where(large, x, levels(np.where(large, 0, x), 32))


def two_halves(x: np.ndarray) -> np.ndarray:
    """Rounded to bytes, and what that leaves to bytes again."""
    high = levels(x, 32)
    return high + levels(x - high, 32)


CANDIDATES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "bytes, a scale for 256": lambda x: levels(x, 256),
    "bytes, a scale for 32": lambda x: levels(x, 32),
    "the same, the best of eight scales (`fast` of class cpu and dot)": reference,
    "the same, values above 6 in float32": without_outliers,
    "511 levels, a scale for 32": lambda x: levels(x, 32, 255),
    "float16, a power of two for a row (`fast` of class coopmat)": reference_half,
    "two bytes, a scale for 32": two_halves,
    "float32 (`exact`)": lambda x: x,
}


def nmse(x: np.ndarray, w: np.ndarray, rounded: np.ndarray) -> float:
    """Squared error of rounded · wᵀ, by the square of the exact product; float32 sums where nothing is rounded."""
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    got = x @ w.T if rounded is x else rounded.astype(np.float64) @ w.astype(np.float64).T
    return float(((got - exact) ** 2).sum() / (exact**2).sum())


def main() -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=(COLUMNS, K)).astype(np.float32)
    normal = rng.normal(size=(ROWS, K)).astype(np.float32)
    spiky = normal * np.where(rng.random((ROWS, K)) < 1 / 256, np.float32(20), np.float32(1))
    rows = [("activations", "normal", "outliers")]
    for name, f in CANDIDATES.items():
        rows.append((name, *(f"{nmse(x, w, f(x)):.1e}" for x in (normal, spiky))))
    print("\n".join(markdown(rows)))


if __name__ == "__main__":
    main()

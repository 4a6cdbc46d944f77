"""The heads that retrieve, as `spvk calibrate` stores them: a JSON file for one draft model.

Few heads of a model carry what it looks up (Wu et al., Retrieval Head Mechanistically Explains Long-Context
Factuality, arXiv 2404.15574); the maximum over all heads drowns them where others have their own peaks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spvk.errors import SpvkError
from spvk.specprefill.rates import fingerprint

VERSION = 1


def calibration_path(folder: Path, draft: str) -> Path:
    """Where the calibration of the model file `draft` is kept in the cache directory."""
    return folder / f"heads-{fingerprint(draft)[:32]}.json"


def heads_for(wanted: str, folder: Path, draft: str, shape: tuple[int, int]) -> NDArray[np.bool_] | None:
    """The heads that count, bool `shape` [attention layers, heads], by the setting `heads`; None: all.

    Raises SpvkError naming file and field for a file that is no calibration, or another model's.
    """
    if wanted == "all":
        return None
    path = calibration_path(folder, draft) if wanted == "auto" else Path(wanted)
    if wanted == "auto" and not os.path.exists(path):  # also where the name is too long
        return None
    return read_heads(path, draft, shape)


def read_heads(path: Path, draft: str, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """The mask in a calibration file, checked against the model file `draft`."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise SpvkError(f"--heads {path}: {error.strerror}, expected a file of spvk calibrate") from None
    except (ValueError, RecursionError):
        raise SpvkError(f"--heads {path}: not JSON, expected a file of spvk calibrate") from None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise SpvkError(f"--heads {path}: found something else, expected a file of spvk calibrate")
    found, expected = str(data.get("draft_sha256"))[:16], fingerprint(draft)[:16]
    if found != expected:
        raise SpvkError(
            f"--heads {path}: draft_sha256: found {found!a}..., expected {expected!a}... of {draft}: "
            "a calibration of another model"
        )
    return mask_of(data.get("chosen"), shape, f"--heads {path}: chosen")


def mask_of(chosen: Any, shape: tuple[int, int], where: str) -> NDArray[np.bool_]:
    """Pairs [attention layer, head] as a mask; SpvkError naming `where` and the pair that cannot be."""
    if not isinstance(chosen, list) or not chosen:
        raise SpvkError(f"{where}: found no list of heads, expected [layer, head] pairs")
    mask = np.zeros(shape, dtype=bool)
    for i, pair in enumerate(chosen):
        if not _is_head(pair, shape):
            expected = f"[layer, head] below {list(shape)}"
            raise SpvkError(f"{where}: entry {i}: found {json.dumps(pair)[:60]}, expected {expected}")
        mask[tuple(pair)] = True
    return mask


def _is_head(pair: Any, shape: Sequence[int]) -> bool:
    return (
        isinstance(pair, list)
        and len(pair) == len(shape)
        and all(type(x) is int and 0 <= x < most for x, most in zip(pair, shape))
    )

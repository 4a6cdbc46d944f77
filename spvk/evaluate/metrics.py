"""Right or wrong, how nearly, and how sure: exact match, F1, Wilson intervals, divergence."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from typing import Sequence

import numpy as np
from numpy.typing import ArrayLike

Z95 = 1.959963984540054  # the normal distribution's 97.5th percentile
PUNCTUATION = str.maketrans("", "", string.punctuation)


def wilson(right: int, total: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval for `right` of `total` >= 1 (Wilson 1927); 95 % by default."""
    share, zz = right / total, z * z / total
    middle = share + zz / 2
    half = z * math.sqrt(share * (1 - share) / total + zz / (4 * total))
    low, high = (middle - half) / (1 + zz), (middle + half) / (1 + zz)
    return (0.0 if right == 0 else low), (1.0 if right == total else high)


def normalise(text: str) -> str:
    """Lower case, without punctuation, English articles and needless space, as SQuAD's evaluation has it."""
    bare = text.lower().translate(PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def exact_match(got: str, answers: Sequence[str]) -> bool:
    """Whether the answer is one of those accepted, both normalised."""
    return normalise(got) in {normalise(a) for a in answers}


def f1(got: str, answers: Sequence[str]) -> float:
    """Best F1 of the normalised words over the accepted answers, 0 to 1."""
    return max(_f1(normalise(got).split(), normalise(a).split()) for a in answers)


def _f1(got: list[str], wanted: list[str]) -> float:
    if not got or not wanted:
        return float(got == wanted)
    common = sum((Counter(got) & Counter(wanted)).values())
    return 2 * common / (len(got) + len(wanted))


def contained(got: str, answers: Sequence[str], all_needed: bool) -> float:
    """Share of the answers that stand in `got` (case ignored); unless all are needed, 1 where any does."""
    found = [a.lower() in got.lower() for a in answers]
    return sum(found) / len(found) if all_needed else float(any(found))


def stated(got: str, answers: Sequence[str], all_needed: bool) -> bool:
    """Whether an answer (unless all are needed, any) stands in `got` as whole words, case ignored."""
    found = (re.search(rf"(?<!\w){re.escape(a)}(?!\w)", got, re.IGNORECASE) is not None for a in answers)
    return all(found) if all_needed else any(found)


def divergence(dense: ArrayLike, sparse: ArrayLike) -> float:
    """KL(dense || sparse) in nats of two next-token distributions, from their logits [vocabulary]."""
    p, q = log_softmax(dense), log_softmax(sparse)
    return max(0.0, float(np.sum(np.exp(p) * (p - q))))


def log_softmax(logits: ArrayLike) -> np.ndarray:
    x = np.asarray(logits, dtype=np.float64)
    x = x - x.max()
    return x - math.log(np.exp(x).sum())

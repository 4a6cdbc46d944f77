"""Prefill whose first layers read every token, and whose others read the kept ones alone.

For hybrids: what Gated DeltaNet's first layers have in their states are then all tokens, at the cost of these
layers. Each batch runs through them; the kept rows wait until a batch of them is full for the layers above.
"""

from __future__ import annotations

from typing import Callable, Sequence

import numpy as np

from .errors import SpvkError
from .model import Model
from .models.builder import Gaps
from .session import Session, check_tokens


def require_gaps(model: Model, gaps: Gaps) -> None:
    """Raise SpvkError where this model has no such layers."""
    c = model.config
    if gaps.dense_layers > (first := c.attention_layers[0]):
        expected = f"at most {first}, the layers of {model.path} before its first that attends"
        raise SpvkError(f"--dense-layers: found {gaps.dense_layers}, expected {expected}")
    if gaps.decay != "off" and len(c.attention_layers) == c.layers:
        why = f"as all layers of {model.path} attend"
        raise SpvkError(f"--gap-decay: found {gaps.decay}, expected off, {why}")


def prefill_kept(
    session: Session,
    tokens: Sequence[int],
    kept: Sequence[int],
    positions: Sequence[int] | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> int:
    """Read all tokens through the session's dense layers, the kept ones alone through the others.

    tokens: integers [n]; kept: indices of them [k], strictly increasing; positions: integers [k] of the kept
    ones (default: kept). Returns the greedy token after the last kept one; the dense layers' states, which
    know no positions, are those after all n. `progress` and the session's captures are of the kept tokens in
    the layers above. Raises SpvkError naming the first bad token or position, ValueError for bad indices.
    """
    tokens, _ = check_tokens(tokens, None, session.model.vocabulary)
    kept = check_kept(kept, len(tokens))
    positions = kept if positions is None else positions
    _, positions = check_tokens(tokens[kept], positions, session.model.vocabulary)
    session.require_room(len(kept))
    session.prompt = session.past + len(kept)
    waiting = Waiting(session, positions, progress)
    for at in range(0, len(tokens), session.batch):
        piece = tokens[at : at + session.batch]
        session.inputs["tokens"][: len(piece)] = piece
        session.launch(len(piece), 0, False, "dense")
        low, high = np.searchsorted(kept, (at, at + len(piece)))
        waiting.add(kept[low:high] - at)
    waiting.flush(last=True)  # never empty: rows are flushed only where more follow
    return session.next_token()


class Waiting:
    """The kept rows that wait in the buffer `kept` for the layers above."""

    def __init__(self, session: Session, positions: np.ndarray, progress: Callable[[int], None]) -> None:
        self.session, self.positions, self.progress = session, positions, progress
        self.count = self.done = 0

    def add(self, rows: np.ndarray) -> None:
        """Rows of the batch in `x`, copied; full batches go on first."""
        batch = self.session.batch
        while len(rows):
            if self.count == batch:
                self.flush(last=False)
            some, rows = np.split(rows, [batch - self.count])
            self.session.inputs["index"][: len(some)] = some
            self.session.launch(len(some), self.count, False, "gather")
            self.count += len(some)

    def flush(self, last: bool) -> None:
        """Run the layers above on what waits."""
        positions = self.positions[self.done : self.done + self.count]
        self.session.read_rows(positions, self.count, last, "kept")
        self.done, self.count = self.done + self.count, 0
        self.progress(self.done)


def check_kept(kept: Sequence[int], n: int) -> np.ndarray:
    """Indices as int64 [k]. Raises ValueError unless one or more increase, from 0 up to n - 1."""
    kept = np.asarray(kept)
    if kept.ndim != 1 or not kept.size or kept.dtype.kind not in "iu":
        raise ValueError(f"kept: found {kept.dtype} {list(kept.shape)}, expected one or more indices")
    kept = kept.astype(np.int64)
    if kept[0] < 0 or kept[-1] >= n or (np.diff(kept) <= 0).any():
        raise ValueError(f"kept: expected increasing indices of {n} tokens")
    return kept

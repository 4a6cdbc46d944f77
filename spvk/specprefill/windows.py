"""Windows of a prompt that the draft scores one at a time."""

from __future__ import annotations

from typing import NamedTuple

from spvk.errors import SpvkError


class Window(NamedTuple):
    """Prompt tokens `[start, end)` are scored together; the scores of `[take_start, take_end)` are used.

    All four are positions in the whole prompt.
    """

    start: int
    end: int
    take_start: int
    take_end: int


def windows(n: int, window: int | None, stride: int | None = None) -> list[Window]:
    """Windows over `n` tokens: `[pos, pos + window)` at `stride` (half a window, at least 1).

    Each gives the scores of its first `stride` tokens and the last one all of its own, so the takes
    tile `[0, n)`. No window follows one that reaches the end. `window` None or >= `n`: one window.
    Raises SpvkError for `n` < 1, `window` < 1, or a `stride` outside `[1, window]`, which would leave gaps.
    """
    if n < 1:
        raise SpvkError(f"prompt: found {n} tokens, expected at least 1")
    if window is not None and window < 1:
        raise SpvkError(f"window: found {window}, expected at least 1 token")
    if stride is not None and not 1 <= stride <= (window or n):
        raise SpvkError(f"window stride: found {stride}, expected 1 to {window or n} tokens")
    if window is None or window >= n:
        return [Window(0, n, 0, n)]
    step = stride or max(1, window // 2)
    result = []
    for pos in range(0, n, step):
        if pos + window >= n:
            result.append(Window(pos, n, pos, n))
            break
        result.append(Window(pos, pos + window, pos, pos + step))
    return result

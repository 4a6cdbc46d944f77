"""Where a prompt has what its question needs, in tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from ..specprefill.text import sentence_starts

Span = tuple[int, int]
MARKUP = re.compile(rb"<\|[^|]*\|>")
CHUNK = 32  # tokens: the fixed chunks of version 3.1 and of the paper


def spans_of_texts(pieces: Sequence[bytes], texts: Iterable[str]) -> list[Span]:
    """Token spans [start, end) of each text, from the bytes of every token [n]; half a token counts.

    Raises ValueError for a text that does not stand there exactly once.
    """
    whole = b"".join(pieces)
    ends = np.cumsum([len(piece) for piece in pieces])
    spans = []
    for text in texts:
        data = text.encode()
        if whole.count(data) != 1:
            raise ValueError(f"{text!r} stands {whole.count(data)} times in the prompt")
        at = whole.index(data)
        first = int(np.searchsorted(ends, at, "right"))
        last = int(np.searchsorted(ends, at + len(data), "left"))
        spans.append((first, last + 1))
    return spans


def sentence_around(pieces: Sequence[bytes], span: Span) -> Span:
    """The sentences [start, end) that the tokens of `span` stand in."""
    edges = np.r_[0, sentence_starts(pieces), len(pieces)]
    first = edges[np.searchsorted(edges, span[0], "right") - 1]
    last = edges[np.searchsorted(edges, span[1], "left")]
    return int(first), int(last)


def question_of(pieces: Sequence[bytes], asked: str | None) -> Span:
    """From where the prompt last says `asked` (None: from its last sentence) to its end, in tokens.

    The markup that opens the answer's turn (`<|…|>`) is no sentence.
    """
    n = start = len(pieces)
    if asked is None:
        while start and not MARKUP.sub(b"", b"".join(pieces[start:])).strip():
            start = sentence_around(pieces, (start - 1, start))[0]
        return start, n
    at = b"".join(pieces).rindex(asked.encode())
    ends = np.cumsum([len(piece) for piece in pieces])
    return int(np.searchsorted(ends, at, "right")), n


def is_cut(spans: Iterable[Span], chunk: int = CHUNK) -> bool:
    """Whether an edge of fixed chunks falls inside one of the spans."""
    return any(start // chunk != (end - 1) // chunk for start, end in spans)

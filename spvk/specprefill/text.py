"""What can be told of a text without a model: where sentences begin, and whether it is code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CODE_SHARE = 0.3
"""A text is code when lines that look like code hold at least this share of its visible characters."""

_SENTENCE_END = re.compile(rb"""([.!?]["')\]]?|[\r\n])\s*\Z""")

_INDENT = re.compile(rb"[\r\n][ \t]+\Z")

_CODE_LINE = re.compile(
    r"""^\s*(
      (def|class|import|from|return|if|elif|else|for|while|try|except|with|switch|case|func|fn|function|let
        |const|var|struct|enum|interface|impl|public|private|protected|static|void|package|using|namespace)\b
        .*[:;{}(),=]\s*$                              # a keyword, and the line ends as code does
      |(import|package|from|using)\s+[\w.:*{}/"'<>]+(\s+import\s+[\w.*,\s]+)?;?\s*$
      |[#]\s*(include|define|ifdef|ifndef|endif|pragma)\b
      |(//|/\*|\*/)
      |[@$\w.\[\]\*]+\s*(:=|[-+*/|&^%]?=)(?!=)\s*\S     # an assignment
      |[\w.]+\([^()]*\)\s*[;{:]?\s*$                   # a call that is the whole line
      |return\b\s*[\w.\[\]'"(){}+*/-]*;?\s*$
      |"[^"]*"\s*:\s*\S                                 # a key of JSON
      |.*[;{}]\s*$                                    # ends with a bracket or a semicolon
      |[)\]}]+[;,]?\s*$
    )""",
    re.VERBOSE,
)


class Kind(NamedTuple):
    """`code_share`: share of the visible characters, 0 to 1, in lines that look like code."""

    name: str
    """`code` or `prose`."""
    code_share: float


def kind_of(text: str) -> Kind:
    """Whether `text` is code: by its lines (keywords, assignments, calls, brackets) and fenced blocks.

    Characters are weighed, not lines, so that a paragraph on one line counts as what it is.
    """
    code = total = 0
    fenced = False
    for line in text.splitlines():
        weight = len("".join(line.split()))
        fence = line.lstrip().startswith("```")
        total += weight
        code += weight if fenced or fence or _CODE_LINE.match(line) else 0
        fenced ^= fence
    share = code / total if total else 0.0
    return Kind("code" if share >= CODE_SHARE else "prose", share)


def sentence_starts(pieces: Sequence[bytes]) -> NDArray[np.int64]:
    """Indices of the tokens that begin a sentence or a line, int64, sorted, without 0.

    `pieces` are the bytes of each token. A sentence ends with a token ending in `.`, `!` or `?` (a quote or
    bracket may follow) or in a line break; white space belongs to the sentence before it. Abbreviations that
    are tokens ending in a full stop end one too: a boundary more does little harm.
    """
    ended = [bool(_SENTENCE_END.search(piece)) for piece in pieces]
    blank = [not piece.strip() for piece in pieces]
    starts, after = [], False
    for i in range(len(pieces)):
        if after and not blank[i]:
            starts.append(i)
        after = ended[i] or (after and blank[i])
    return np.array(starts, dtype=np.int64)


def indented_of(starts: NDArray[np.int64], pieces: Sequence[bytes]) -> NDArray[np.int64]:
    """Those of `starts` (see sentence_starts) that begin a line with white space, int64, sorted."""
    return np.array([s for s in starts.tolist() if _INDENT.search(_before(s, pieces))], dtype=np.int64)


def _before(start: int, pieces: Sequence[bytes]) -> bytes:
    """The white space before what token `start` has to say, and the last token before it that has something."""
    first = start - 1
    while first > 0 and not pieces[first].strip():
        first -= 1
    piece = pieces[start]
    return b"".join(pieces[first:start]) + piece[: len(piece) - len(piece.lstrip())]

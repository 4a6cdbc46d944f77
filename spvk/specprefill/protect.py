"""Tokens that are always kept, with the reason, and the proof that they were.

The structure of a chat is read from its token ids: the markers `<|im_start|>` and `<|im_end|>`, Llama 3's headers or a
token for each role are found as tokens, and what lies between them by the bytes that the tokens stand for, so that
nothing is tokenised again and markup counts whether a vocabulary has a token for it or spells it in several.
ChatML-like templates (Qwen, SmolLM2), Llama 3's and those with role tokens (Phi-3, the packaged pair) are understood; a
prompt without these markers has no messages, and only its control tokens, BOS and the caller's ranges are protected. A user who types the markers is taken at their word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from spvk.errors import SpvkError
from spvk.specprefill.chatml import ANSWER, CALL, CONTROL_TYPE, Chat, Message, evidence_of_tools
from spvk.specprefill.edges import no_indices
from spvk.specprefill.rules import shown
from spvk.specprefill.selection import Selection, spans_of
from spvk.specprefill.settings import Settings
from spvk.specprefill.text import Kind, indented_of, kind_of, sentence_starts

REASONS = ("caller", "last_user", "system", "tools", "tool_call", "tool_result", "control", "bos")
"""Why a token is protected; where several hold, the later one is given."""

SHORT_TURN = 8  # a last user turn is protected whole up to this part (1/8) of the prompt


class Vocabulary(Protocol):
    """What is needed of a tokenizer."""

    tokens: list[str]
    types: list[int]
    bos_id: int | None

    def token_bytes(self, token: int) -> bytes: ...


class Span(NamedTuple):
    """Prompt tokens `[start, end)` and the reason, one of REASONS."""

    start: int
    end: int
    reason: str


@dataclass(frozen=True, eq=False)
class Structure:
    """What a prompt is made of, besides its scores."""

    labels: NDArray[np.int8]
    """int8 [n]: 0 for a token that may be dropped, else 1 + the index of its reason in REASONS."""
    messages: NDArray[np.int64] = field(default_factory=no_indices)
    """Token indices where a message, a tool call or a tool result begins or ends: chunks stop there."""
    sentences: NDArray[np.int64] = field(default_factory=no_indices)
    """Token indices where a sentence or a line begins."""
    indented: NDArray[np.int64] = field(default_factory=no_indices)
    """Those of `sentences` whose line is indented."""
    kind: Kind = Kind("prose", 0.0)
    tools: str | None = None
    """Where the prompt shows tools, in words; None: nowhere."""

    @property
    def protected(self) -> NDArray[np.bool_]:
        """bool [n]."""
        return self.labels > 0

    @property
    def spans(self) -> list[Span]:
        """The protected tokens as runs of one reason, by position."""
        runs = [Span(start, end, reason) for i, reason in enumerate(REASONS)
                for start, end in spans_of(np.flatnonzero(self.labels == i + 1))]
        return sorted(runs)

    @property
    def counts(self) -> dict[str, int]:
        """Protected tokens by reason, of those reasons that occur."""
        tally = np.bincount(self.labels, minlength=len(REASONS) + 1)[1:]
        return {reason: int(count) for reason, count in zip(REASONS, tally) if count}


def read_structure(
    tokens: Sequence[int], vocabulary: Vocabulary, settings: Settings, *, ranges: Iterable[Any] = (),
    tools_given: bool = False,
) -> Structure:
    """The structure of a prompt from its token ids [n].

    `ranges` are the caller's [start, end) pairs of positions; `tools_given` says that the template was given
    tools. With `protect` off only the ranges are protected and nothing bounds a chunk, unless `tool_guard` is
    `protect` and there are tools. Raises SpvkError for bad ranges.
    """
    chat = Chat.of(tokens, vocabulary)
    named = [Span(start, end, "caller") for start, end in check_ranges(ranges, len(tokens))]
    tools = evidence_of_tools(chat, tools_given)
    on = settings.protect == "on" or (settings.tool_guard == "protect" and tools is not None)
    spans = named + (_chat_spans(chat, vocabulary, settings.last_user) if on else [])
    messages = chat.boundaries if on else no_indices()
    labels = _labels(spans, len(tokens))
    sentences = sentence_starts(chat.pieces)
    indented = indented_of(sentences, chat.pieces)
    return Structure(labels, messages, sentences, indented, kind_of(chat.text), tools)


def check_ranges(ranges: Iterable[Any], n: int) -> list[tuple[int, int]]:
    """The caller's ranges, sorted. SpvkError names the first that is no pair, out of range or overlaps."""
    found = []
    for i, given in enumerate(ranges):
        start, end = _pair(given, f"protect[{i}]", n)
        for a, b in found:
            if start < b and a < end:
                raise SpvkError(f"protect[{i}]: found [{start}, {end}), expected no overlap with [{a}, {b})")
        found.append((start, end))
    return sorted(found)


def _pair(given: Any, label: str, n: int) -> tuple[int, int]:
    expected = f"[start, end) with 0 <= start < end <= {n}"
    try:
        start, end = given
        whole = all(isinstance(x, (int, np.integer)) and not isinstance(x, bool) for x in (start, end))
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise SpvkError(f"{label}: found {shown(given)}, expected {expected}")
    if not 0 <= start < end <= n:
        raise SpvkError(f"{label}: found [{start}, {end}), expected {expected}")
    return int(start), int(end)


def _labels(spans: Iterable[Span], n: int) -> NDArray[np.int8]:
    labels = np.zeros(n, dtype=np.int8)
    for start, end, reason in sorted(spans, key=lambda span: REASONS.index(span.reason)):
        labels[start:end] = 1 + REASONS.index(reason)
    return labels


def _chat_spans(chat: Chat, vocabulary: Vocabulary, last_user: int) -> list[Span]:
    """Everything that the chat's structure protects; spans may overlap."""
    tokens, spans = chat.tokens, []
    if tokens and tokens[0] == vocabulary.bos_id:
        spans.append(Span(0, 1, "bos"))
    spans += [Span(i, i + 1, "control") for i, t in enumerate(tokens) if vocabulary.types[t] == CONTROL_TYPE]
    for message in chat.messages:
        spans += _message_spans(chat, message)
    return spans + _last_user(chat, last_user)


def _message_spans(chat: Chat, m: Message) -> list[Span]:
    header = "tool_result" if m.is_tool else "control"
    spans = [Span(m.start, m.body, header), Span(m.stop, m.end, "control")]
    if m.is_open and m.role == "assistant":  # the start of the answer, from the template or to be continued
        spans.append(Span(m.start, m.end, "control"))
    if m.is_system:
        spans.append(Span(m.body, m.stop, "system"))
        spans += [Span(*s, "tools") for s in chat.tool_list(m)]
    if m.role == "assistant":
        spans += [Span(*s, "tool_call") for s in chat.enclosed(m, CALL)]
        spans += [Span(*s, "control") for s in chat.marks(m, (b"<think>", b"</think>"))]
    if m.role == "user" or m.is_tool:
        spans += [Span(*s, "tool_result") for s in chat.marks(m, ANSWER)]
    return spans


def _last_user(chat: Chat, most: int) -> list[Span]:
    """The last user turn: whole when short, else its last tokens, where a long text's question stands."""
    turns = [m for m in chat.messages if m.role == "user" and not chat.is_tool_answer(m)]
    if not turns:
        return []
    m = turns[-1]
    whole = m.stop - m.body <= max(most, len(chat.tokens) // SHORT_TURN)
    return [Span(m.body if whole else m.stop - most, m.stop, "last_user")]


class Loss(NamedTuple):
    """A protected token that a selection dropped."""

    token: int
    reason: str
    lost: int
    protected: int

    def __str__(self) -> str:
        return (f"protected token {self.token} ({self.reason}) was dropped, "
                f"{self.lost} of {self.protected} protected tokens in all")


def verify(selection: Selection, structure: Structure) -> Loss | None:
    """None when every protected token is among the kept; else the first that is not. Reads positions only."""
    lost = np.setdiff1d(np.flatnonzero(structure.protected), selection.positions)
    if lost.size == 0:
        return None
    first = int(lost[0])
    reason = REASONS[structure.labels[first] - 1]
    return Loss(first, reason, int(lost.size), int(structure.protected.sum()))

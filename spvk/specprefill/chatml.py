"""The messages of a prompt, from its token ids: ChatML's, with Llama 3's headers, or with a token for each role."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONTROL_TYPE = 3  # tokenizer.ggml.token_type of a control token
OPEN, CLOSES = "<|im_start|>", ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "</s>")
HEADER = ("<|start_header_id|>", "<|end_header_id|>")  # Llama 3's, around the role
ROLES = {f"<|{role}|>": role for role in ("system", "developer", "user", "assistant", "tool")}  # a token each
CALL = (b"<tool_call>", b"</tool_call>")
ANSWER = (b"<tool_response>", b"</tool_response>")
LIST = (b"<tools>", b"</tools>")
HEADER_TOKENS = 32  # of a role, even where each byte is a token
KEYWORD_TOKENS = 256
"""Tokens at the start of the prompt that are searched for KEYWORDS."""
KEYWORDS = re.compile(
    r"""</?tools?>|<tool_call>|<function=|tool_calls?\b|function_calls?\b|"type":\s*"function"
    |\bavailable\s+(tools|functions)\b|\baccess\s+to\s+(\w+\s+){0,4}(tools|functions)\b""",
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True)
class Message:
    """Token indices of one message: `start` the opening marker, `[body, stop)` its text, `stop` the closing
    marker, `end` the start of whatever follows (white space after the closing marker belongs to it)."""

    role: str
    start: int
    body: int
    stop: int
    end: int
    is_open: bool
    """The last message, without its closing marker."""

    @property
    def is_system(self) -> bool:
        return self.role in ("system", "developer")

    @property
    def is_tool(self) -> bool:
        return self.role in ("tool", "function", "ipython")


@dataclass(frozen=True, eq=False)
class Chat:
    """A prompt's tokens, the bytes they stand for, and its messages."""

    tokens: list[int]
    pieces: list[bytes]
    messages: list[Message]

    @classmethod
    def of(cls, tokens: Sequence[int], vocabulary: Any) -> Chat:
        """From token ids [n] and a tokenizer (`tokens` and `token_bytes` are used)."""
        ids = [int(t) for t in tokens]
        spelled = {t: vocabulary.token_bytes(t) for t in set(ids)}
        pieces = [spelled[t] for t in ids]
        names = [vocabulary.tokens[t] for t in ids]
        opens = [i for i, name in enumerate(names) if name in (OPEN, HEADER[0]) or name in ROLES]
        limits = [*opens[1:], len(ids)]
        return cls(ids, pieces, [_message(names, pieces, a, b) for a, b in zip(opens, limits)])

    @cached_property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """int64 [n + 1]: where each token's bytes begin in `data`, and its length."""
        return np.cumsum([0, *map(len, self.pieces)])

    @cached_property
    def boundaries(self) -> NDArray[np.int64]:
        """Where messages, tool calls and tool results begin and end, int64, sorted, without duplicates."""
        edges = [i for m in self.messages for i in (m.start, m.end)]
        for m in self.messages:
            edges += [i for pair in (CALL, ANSWER) for span in self.enclosed(m, pair) for i in span]
        return np.unique(np.array(edges, dtype=np.int64))

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The tokens that hold bytes `[start, end)`."""
        first = int(np.searchsorted(self.offsets, start, side="right")) - 1
        return first, int(np.searchsorted(self.offsets, end, side="left"))

    def marks(self, m: Message, texts: Sequence[bytes]) -> list[tuple[int, int]]:
        """Token spans of each occurrence of `texts` in a message, with the line break after it."""
        low, high = int(self.offsets[m.body]), int(self.offsets[m.stop])
        found = re.finditer(b"(?:" + b"|".join(map(re.escape, texts)) + rb")\n?", self.data[low:high])
        return [self.span(low + f.start(), low + f.end()) for f in found]

    def enclosed(self, m: Message, pair: tuple[bytes, bytes]) -> list[tuple[int, int]]:
        """Token spans from each `pair[0]` to its `pair[1]`, both included; to the message's end if none."""
        low, high = int(self.offsets[m.body]), int(self.offsets[m.stop])
        first, last = map(re.escape, pair)
        found = re.finditer(first + rb".*?(?:" + last + rb"|\Z)", self.data[low:high], re.DOTALL)
        return [self.span(low + f.start(), low + f.end()) for f in found]

    def tool_list(self, m: Message) -> list[tuple[int, int]]:
        """Token spans of the tools in a system message, with heading and instructions where Qwen has them."""
        low, high = int(self.offsets[m.body]), int(self.offsets[m.stop])
        text = self.data[low:high]
        start = text.find(b"<tools>")
        if start < 0:
            return []
        heading = re.search(rb"# Tools\s", text[:start])
        close = text.find(b"</tools>", start)
        end = len(text) if close < 0 else close + len(b"</tools>")
        important = text.rfind(b"</IMPORTANT>", end)
        end = end if important < 0 else important + len(b"</IMPORTANT>")
        return [self.span(low + (heading.start() if heading else start), low + end)]

    def is_tool_answer(self, m: Message) -> bool:
        """Whether a user message is only the template's wrapping of tool results."""
        text = b"".join(self.pieces[m.body : m.stop]).strip()
        return text.startswith(ANSWER[0]) and text.endswith(ANSWER[1])


def _message(names: Sequence[str], pieces: Sequence[bytes], start: int, limit: int) -> Message:
    """The message that opens at `start`; the next one opens at `limit`, or the prompt ends there."""
    closes = [i for i in range(start, limit) if names[i] in CLOSES]
    stop = closes[0] if closes else limit
    end = stop + 1 if closes else limit
    while end < limit and not pieces[end].strip():
        end += 1
    role, body = _head(names, pieces, start, stop)
    return Message(role, start, body, stop, end, not closes and limit == len(names))


def _head(names: Sequence[str], pieces: Sequence[bytes], start: int, stop: int) -> tuple[str, int]:
    """The role of the message that opens at `start` and closes at `stop`, and where its text begins.

    A role is a token of its own, stands between markers, or is a word and a line break. Without these the marker
    is part of some text.
    """
    head = range(start + 1, min(stop, start + 1 + HEADER_TOKENS))
    if names[start] == OPEN:
        body = next((i + 1 for i in head if b"\n" in pieces[i]), start + 1)
        return _role(pieces[start + 1 : body]), body
    if names[start] in ROLES:
        role, body = ROLES[names[start]], start + 1
    elif body := next((i + 1 for i in head if names[i] == HEADER[1]), 0):
        role = _role(pieces[start + 1 : body - 1])
    else:
        return "", start + 1
    while body in head and not pieces[body].strip():
        body += 1
    return role, body


def _role(word: Sequence[bytes]) -> str:
    return b"".join(word).split(b"\n")[0].strip().decode("utf-8", "replace")


def evidence_of_tools(chat: Chat, given: bool) -> str | None:
    """Where a prompt shows tools: the template, a message, or words at its start; None where nowhere."""
    if given:
        return "tools given to the template"
    for i, m in enumerate(chat.messages):
        if m.is_system and chat.tool_list(m):
            return "tools in the system message"
        if m.is_tool or (m.role == "user" and chat.marks(m, ANSWER)):
            return f"a tool result in message {i}"
        if m.role == "assistant" and chat.enclosed(m, CALL):
            return f"a tool call in message {i}"
    head = b"".join(chat.pieces[:KEYWORD_TOKENS]).decode("utf-8", "replace")
    word = KEYWORDS.search(head)
    return f"{' '.join(word[0].split())!r} in the first {KEYWORD_TOKENS} tokens" if word else None

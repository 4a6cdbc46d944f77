"""Prompts and their answers from JSONL: token ids, or text by the names that LongBench and RULER use."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable

from ..errors import SpvkError
from ..gguf.mismatch import plain

CELL_FIELDS = ("task", "dataset", "len", "facts", "depth")
"""Fields that sort prompts into cells of the table, where a line has them."""


@dataclass(frozen=True)
class Question:
    """A prompt and what a right answer is: a line of the file, or generated."""

    where: str
    """File and line, for errors."""
    id: str
    cell: tuple[tuple[str, Any], ...]
    tokens: list[int] | None = None
    text: str | None = None
    answer_ids: list[int] | None = None
    answers: tuple[str, ...] = ()
    all_needed: bool = False
    """Whether an answer must hold all of `answers` (RULER) or any of them (LongBench)."""
    value_pos: int | None = None
    needed_pos: tuple[int, ...] = ()
    """Tokens of the prompt without which nobody can answer, besides the answer's own."""
    needed: tuple[str, ...] = ()
    """Texts of the prompt without which nobody can answer; generated prompts know them."""
    asked: str | None = None
    """The text that asks, towards the prompt's end; generated prompts know it."""

    @property
    def gold(self) -> range | None:
        """The prompt's tokens that hold the answer: all of it where its ids stand there, else the first."""
        if self.value_pos is None:
            return None
        ids = self.answer_ids or []
        there = self.tokens[self.value_pos : self.value_pos + len(ids)] == ids
        return range(self.value_pos, self.value_pos + (len(ids) if ids and there else 1))


def read_prompts(path: str) -> tuple[list[Question], str]:
    """Every question of a JSONL file (blank lines are passed over), and the file's SHA-256.

    Raises SpvkError naming file, line and field for whatever cannot be used.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SpvkError(f"--prompts {plain(path)}: {error.strerror}, expected a JSONL file") from None
    # On bytes: splitting text would also split at separators that JSON strings may hold.
    questions = [
        read_line(line, f"{plain(path)} line {number}", number)
        for number, line in enumerate(data.split(b"\n"), 1)
        if line.strip()
    ]
    if not questions:
        raise SpvkError(f"--prompts {plain(path)}: found no prompts, expected one JSON object a line")
    seen: dict[str, str] = {}
    for q in questions:
        if q.id in seen:
            raise SpvkError(
                f"{q.where}: id: found {plain(q.id)} again, expected another than {seen[q.id]} has"
            )
        seen[q.id] = q.where
    return questions, hashlib.sha256(data).hexdigest()


def read_line(line: bytes, where: str, number: int) -> Question:
    """One line as a question; SpvkError naming `where`."""
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", None) or getattr(error, "reason", None) or "out of bounds"
        raise SpvkError(f"{where}: not JSON ({reason}), expected an object") from None
    if not isinstance(row, dict):
        raise SpvkError(f"{where}: found {kind(row)}, expected an object")
    for name in ("id", "_id", *CELL_FIELDS, "prompt", "context", "input", "answer", "answers", "outputs"):
        if re.search("[\ud800-\udfff]", json.dumps(row.get(name), ensure_ascii=False)):
            raise SpvkError(f"{where}: {name}: found half of a surrogate pair, expected text")
    tokens = ids_of(row, "tokens", where) if "tokens" in row else None
    text = None if tokens is not None else text_of(row, where)
    answer_ids, answers, all_needed = answers_of(row, where)
    return Question(
        where,
        str(row.get("id", row.get("_id", number))),
        cell_of(row, where),
        tokens,
        text,
        answer_ids,
        answers,
        all_needed,
        *positions_in(row, tokens, where),
    )


def text_of(row: dict, where: str) -> str:
    """`prompt`, or `context` and `input` (LongBench's question; RULER's whole prompt), as one text."""
    names = ("prompt",) if "prompt" in row else ("context", "input")
    parts = []
    for name in names:
        value = row.get(name, "")
        if not isinstance(value, str):
            raise SpvkError(f"{where}: {name}: found {kind(value)}, expected text")
        parts.append(value.strip("\n"))
    text = "\n\n".join(part for part in parts if part.strip())
    if not text:
        raise SpvkError(f"{where}: no prompt, expected tokens, prompt, context or input")
    return text


def answers_of(row: dict, where: str) -> tuple[list[int] | None, tuple[str, ...], bool]:
    """Token ids or texts, from the first of `answer`, `answers`, `outputs`, and whether all are needed."""
    name = next((n for n in ("answer", "answers", "outputs") if n in row), None)
    if name is None:
        raise SpvkError(f"{where}: no answer, expected answer, answers or outputs")
    value = row[name]
    if name == "answer" and isinstance(value, list):
        return ids_of(row, name, where), (), False
    texts = [value] if isinstance(value, (str, int, float)) and not isinstance(value, bool) else value
    if not isinstance(texts, list) or not texts:
        raise SpvkError(f"{where}: {name}: found {kind(value)}, expected a text or a list of texts")
    for text in texts:
        if isinstance(text, bool) or not isinstance(text, (str, int, float)) or not str(text).strip():
            raise SpvkError(f"{where}: {name}: found {kind(text)}, expected texts that are not empty")
    return None, tuple(map(str, texts)), name == "outputs"


def ids_of(row: dict, name: str, where: str) -> list[int]:
    """A field of token ids, [n] with n >= 1; the vocabulary is checked later."""
    value = row[name]
    if not isinstance(value, list) or not value:
        raise SpvkError(f"{where}: {name}: found {kind(value)}, expected a list of token ids")
    bad = next((v for v in value if type(v) is not int or not 0 <= v < 2**31), None)
    if bad is not None or None in value:
        raise SpvkError(f"{where}: {name}: found {kind(bad)}, expected token ids")
    return value


def positions_in(row: dict, tokens: list[int] | None, where: str) -> tuple[int | None, tuple[int, ...]]:
    """`value_pos`, or None, and the list `needed_pos`, which may be missing."""
    value, others = row.get("value_pos"), row.get("needed_pos")
    others = [] if others is None else others
    if not isinstance(others, list):
        raise SpvkError(f"{where}: needed_pos: found {kind(others)}, expected a list of positions")
    if others and value is None:
        raise SpvkError(f"{where}: needed_pos: found without value_pos, expected both")
    for name, at in (("value_pos", value), *(("needed_pos", p) for p in others)):
        if at is None and name == "value_pos":
            continue
        if tokens is None:
            raise SpvkError(f"{where}: {name}: found with a text, expected a prompt of tokens")
        if type(at) is not int or not 0 <= at < len(tokens):
            raise SpvkError(f"{where}: {name}: found {kind(at)}, expected 0 to {len(tokens) - 1}")
    return value, tuple(others)


def cell_of(row: dict, where: str) -> tuple[tuple[str, Any], ...]:
    cell = tuple((name, row[name]) for name in CELL_FIELDS if row.get(name) is not None)
    for name, value in cell:
        if not isinstance(value, (str, int, float)) or (isinstance(value, float) and not math.isfinite(value)):
            raise SpvkError(f"{where}: {name}: found {kind(value)}, expected a text or a number")
    return cell


def kind(value: Any) -> str:
    """A JSON value in few words."""
    if isinstance(value, (dict, list)):
        return ("an empty " if not value else "a ") + ("list" if isinstance(value, list) else "object")
    return plain(json.dumps(value))


def first_of_each_cell(questions: Iterable[Question], limit: int | None) -> list[Question]:
    """At most `limit` questions of each cell, in the file's order."""
    taken: dict[tuple, int] = {}
    out = []
    for q in questions:
        taken[q.cell] = taken.get(q.cell, 0) + 1
        if limit is None or taken[q.cell] <= limit:
            out.append(q)
    return out

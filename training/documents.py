"""Puzzles and filler as one conversation of token ids, with what training and evaluation need to know of it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from spvk.tokenizer import Tokenizer

from . import data
from .data import Puzzle, Sentence, World
from .tokenizer import ASSISTANT, END, PAD, USER


@dataclass
class Conversation:
    """Token ids, and for each question: (task, first and last+1 position of its answer, value's position or -1),
    in `vias` where the name stands that leads to the answer, or -1, and in `begins` where its sentence begins."""

    tokens: list[int] = field(default_factory=list)
    answers: list[tuple[str, int, int, int]] = field(default_factory=list)
    vias: list[int] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Piece:
    """A sentence's tokens in the document; `value` is the answer's first token among them, `via` the last one of
    the name that leads to it."""

    tokens: list[int]
    owner: int  # the puzzle's number, -1 for filler
    value: int | None
    via: int | None


class Writer:
    """Writes conversations with one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.encode = lambda text: tokenizer.encode(text, add_special=False)
        self.pad = tokenizer.tokens.index(PAD)

    def turn(self, puzzle: Puzzle) -> tuple[list[int], list[int]]:
        """A question up to the assistant's header, and its answer with the end token.

        Answers start with a space: their tokens are then those that stand in the text.
        """
        return (
            self.encode(f"{puzzle.question}{ASSISTANT}"),
            self.encode(f" {puzzle.answer}{END}"),
        )

    def conversation(
        self, world: World, puzzles: list[Puzzle], asked: list[int], length: int
    ) -> Conversation | None:
        """A document of about `length` tokens less the turns, and the questions `asked`, in this order.

        None where the puzzles alone are longer than `length`.
        """
        turns = [self.turn(puzzles[i]) for i in asked]
        head = self.encode(USER)
        room = length - len(head) - sum(len(q) + len(a) + len(head) for q, a in turns)
        pieces = self.document(world, puzzles, room)
        if pieces is None:
            return None
        out, where, vias, begins = Conversation(list(head)), {}, {}, {}
        for piece in pieces:
            if piece.value is not None:
                where[piece.owner] = len(out.tokens) + piece.value
            if piece.via is not None:
                vias[piece.owner] = len(out.tokens) + piece.via
                begins[piece.owner] = len(out.tokens)
            out.tokens += piece.tokens
        for n, (i, (question, answer)) in enumerate(zip(asked, turns)):
            out.tokens += (head if n else []) + question
            start = len(out.tokens)
            out.tokens += answer
            out.answers.append((puzzles[i].task, start, len(out.tokens), where.get(i, -1)))
            out.vias.append(vias.get(i, -1))
            out.begins.append(begins.get(i, -1))
        return out

    def document(self, world: World, puzzles: list[Puzzle], room: int) -> list[Piece] | None:
        """The puzzles' sentences among filler, at most `room` tokens, None where that cannot be."""
        left = int(room * 0.98) - sum(len(self.encode(" " + s.text)) for p in puzzles for s in p.sentences)
        fillers: list[Sentence] = []  # breaks take a token here and there: hence the 2 %
        while left > 0:
            fillers.append(data.filler(world))
            left -= len(self.encode(" " + fillers[-1].text))
        if left < 0 and fillers:
            fillers.pop()
        pieces = self.pieces(world.rng, arrange(world.rng, puzzles, fillers))
        return pieces if sum(len(p.tokens) for p in pieces) <= room else None

    def pieces(self, rng: random.Random, sentences: list[tuple[int, Sentence]]) -> list[Piece]:
        """Encoded sentences; paragraphs begin at some fillers and around code."""
        out, fresh = [], True
        for i, (owner, s) in enumerate(sentences):
            following = sentences[i + 1] if i + 1 < len(sentences) else None
            code = s.text.endswith("\n")
            ends = following is None or code or following[1].text.endswith("\n")
            ends = ends or (following[0] < 0 and rng.random() < 0.1)
            before = "" if fresh else " "
            text = before + s.text + (("\n" if code else "\n\n") if ends else "")
            value = None if s.at is None else len(self.encode(before + s.text[: s.at].rstrip(" ")))
            via = None if s.via is None else len(self.encode(before + s.text[: s.via])) - 1
            out.append(Piece(self.encode(text), owner, value, via))
            fresh = ends
        return out


def arrange(rng: random.Random, puzzles: list[Puzzle], fillers: list[Sentence]) -> list[tuple[int, Sentence]]:
    """(owner, sentence) in the document's order: shuffled, but each puzzle's sentences in their own order."""
    owners = [i for i, p in enumerate(puzzles) for _ in p.sentences] + [-1] * len(fillers)
    rng.shuffle(owners)
    rest = [iter(p.sentences) for p in puzzles] + [iter(fillers)]
    return [(i, next(rest[i])) for i in owners]


def training_conversation(
    writer: Writer, world: World, length: int, mix: dict[str, int] = data.MIX
) -> Conversation:
    """Groups of puzzles and as many of their questions as the length has room for, at most 40."""
    rng = world.rng
    share = rng.uniform(0.5, 1.0) if length <= 512 else rng.uniform(0.15, 0.8)
    wanted, puzzles = max(1, min(40, int(share * length / 36))), []
    while len(puzzles) < wanted:
        puzzles += data.group(world, mix)
    while True:
        asked = list(range(len(puzzles)))
        rng.shuffle(asked)
        made = writer.conversation(world, puzzles, asked[:wanted], length)
        if made is not None and len(made.tokens) <= length:
            return made
        if len(puzzles) == 1:
            puzzles = data.facts(world, 1)
        else:
            puzzles.pop(rng.randrange(len(puzzles)))
            wanted = min(wanted, max(1, len(puzzles)))


@dataclass(frozen=True)
class Batch:
    """tokens int64 [B, T]; answer bool [B, T], which tokens are answers; rows and keys int64 [B, R], where
    attention has to look from and to, -1 filled; first [B, R], where to in the first layer that attends, where
    another follows; questions: (task, row of the batch, first, last+1)."""

    tokens: np.ndarray
    answer: np.ndarray
    rows: np.ndarray
    keys: np.ndarray
    first: np.ndarray
    questions: list[tuple[str, int, int, int]]


def batch(writer: Writer, world: World, length: int, size: int, mix: dict[str, int] = data.MIX) -> Batch:
    """`size` conversations of `length` tokens, padded at the end."""
    made = [training_conversation(writer, world, length, mix) for _ in range(size)]
    tokens = np.full((size, length), writer.pad, np.int64)
    answer = np.zeros((size, length), bool)
    looks: list[list[tuple[int, int, int]]] = [[] for _ in made]
    questions = []
    for b, c in enumerate(made):
        tokens[b, : len(c.tokens)] = c.tokens
        for (task, start, stop, value), via in zip(c.answers, c.vias):
            answer[b, start:stop] = True
            questions.append((task, b, start, stop))
            if value >= 0:
                for j in range(stop - start - 1):  # an answer's first token may say nothing ("the"): via for all
                    looks[b].append((start - 1 + j, value + j, via if via >= 0 else value + j))
    widest = max(1, max(map(len, looks)))
    table = np.full((3, size, widest), -1, np.int64)
    for b, triples in enumerate(looks):
        if triples:
            table[:, b, : len(triples)] = np.array(triples).T
    return Batch(tokens, answer, *table, questions)

"""Held-out questions for `spvk eval`: `python -m training.prompts out.jsonl --vocabulary spvk/embedded/target.gguf`.

Names, values and sentence templates are those that training never draws. A line has the conversation's tokens up
to the answer, the answer's tokens, and where in the prompt stands the answer (where it does) and what leads to it.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path

from spvk.errors import SpvkError
from spvk.outputs import require_writable, write_file

from . import data, documents
from . import tokenizer as bpe
from .data import Puzzle, World

TASKS = ("fact", "update", "chain", "count", "list", "function", "not stated")
LEAST = 128  # tokens: eight facts and a question fit
CELLS = (("fact", 1), ("fact", 8), *((task, 1) for task in TASKS[1:]))


def puzzles(world: World, task: str, n: int) -> list[Puzzle]:
    """The puzzles of one prompt; the first one is asked."""
    if task == "fact":
        return data.competing(world, n)
    if task == "update":
        return [data.update(world, world.rng.randint(2, 5))]
    if task == "chain":
        return data.chain(world, 2)
    make = {
        "count": data.count,
        "list": data.lookup,
        "function": data.function,
        "not stated": data.not_stated,
    }
    return [make[task](world)]


def prompts(writer: documents.Writer, length: int, each: int, seed: int) -> Iterator[dict]:
    """`each` lines of every cell, about `length` tokens long."""
    for task, n in CELLS:
        world = World(random.Random(f"{seed} {task} {n} {length}"), held_out=True)
        for i in range(each):
            made = None
            while made is None:
                made = writer.conversation(world, puzzles(world, task, n), [0], length)
            _, start, stop, value = made.answers[0]
            line = {"id": f"{task}-{n}-{length}-{i}", "task": task, "len": length, "facts": n}
            line |= {"tokens": made.tokens[:start], "answer": made.tokens[start : stop - 1]}
            line |= {"value_pos": value} if value >= 0 else {}
            # The first step of a chain; of a function, behind its "def", its name, and what it returns.
            first = [made.begins[0] + len(writer.encode("def"))] if task == "function" else []
            yield line | ({"needed_pos": [*first, made.vias[0]]} if made.vias[0] >= 0 else {})


def read_lengths(text: str) -> list[int]:
    try:
        lengths = [int(n) for n in text.split(",")]
    except ValueError:
        lengths = []
    if not lengths or min(lengths) < LEAST:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected numbers from {LEAST}, as in 2048,4096")
    return lengths


def main(arguments: list[str] | None = None) -> None:
    p = argparse.ArgumentParser(
        prog="training.prompts", description="Write held-out questions for spvk eval."
    )
    p.add_argument("out", type=Path)
    p.add_argument("--vocabulary", type=Path, required=True)
    p.add_argument(
        "--lengths", type=read_lengths, default="2048", help="tokens a prompt, separated by commas"
    )
    p.add_argument("--each", type=int, default=200, help="prompts a cell")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args(arguments)
    try:
        require_writable(str(a.out), [str(a.vocabulary)])
        writer = documents.Writer(bpe.make_tokenizer(bpe.load(a.vocabulary)))
    except (ValueError, SpvkError) as error:
        p.exit(2, f"{p.prog}: {error}\n")
    lines = (json.dumps(line) + "\n" for n in a.lengths for line in prompts(writer, n, a.each, a.seed))
    write_file(str(a.out), "".join(lines).encode())


if __name__ == "__main__":
    main()

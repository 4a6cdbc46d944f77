"""Generated prompts at a length and a depth, the same for the same seed and tokenizer."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import count, islice
from typing import Any

from ..errors import SpvkError
from ..gguf.mismatch import plain
from .prompts import Question
from .tasks import TASKS, Example

PADDING = "and then for a while nothing much happened there at all so that everybody went home".split()


@dataclass(frozen=True)
class Recipe:
    """Which prompts to make: `count` for each task, length and depth."""

    tasks: tuple[str, ...]
    lengths: tuple[int, ...]
    """Tokens of the whole prompt, the chat template's included."""
    depths: tuple[float, ...]
    """Where the first needed text stands, 0 (the beginning) to 1."""
    count: int
    seed: int = 0

    @property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of all fields: with the tokenizer it decides every prompt."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()

    def questions(self, tokens_of: Callable[[str], int]) -> list[Question]:
        """All prompts, task by task; `tokens_of` gives the length of a text as the model will read it."""
        return [
            question(name, length, depth, i, self.seed, tokens_of)
            for name in self.tasks
            for length in self.lengths
            for depth in self.depths
            for i in range(self.count)
        ]


def source(prompts: str | None, tasks: str | None, given: dict[str, Any], seed: int) -> str | Recipe:
    """The JSONL file, or the recipe: exactly one is asked for. `given` has the options of the recipe by flag,
    None where they are not given. Raises SpvkError naming the option."""
    if (prompts is None) == (tasks is None):
        found = "none" if prompts is None else "both"
        raise SpvkError(f"prompts: found {found}, expected one of --prompts and --task")
    if prompts is not None:
        if flag := next((flag for flag, value in given.items() if value is not None), None):
            raise SpvkError(f"{flag}: found with --prompts, expected it with --task")
        return prompts
    usual = {"--length": "1000", "--depth": "0.1,0.5,0.9", "--count": 10}
    values = {flag: usual[flag] if value is None else value for flag, value in given.items()}
    return read_recipe(tasks, values["--length"], values["--depth"], values["--count"], seed)


def read_recipe(tasks: str, lengths: str, depths: str, count: int, seed: int) -> Recipe:
    """A recipe from the command line's lists. Raises SpvkError naming the option."""
    return Recipe(
        tuple(listed("--task", tasks, task_name, f"different ones of {', '.join(TASKS)}")),
        tuple(listed("--length", lengths, length_of, "different whole numbers of tokens above 0")),
        tuple(listed("--depth", depths, depth_of, "different numbers from 0 to 1")),
        count,
        seed,
    )


def listed(flag: str, text: str, read: Callable[[str], object], expected: str) -> list:
    """Values with commas between, each once."""
    values: list = []
    for part in text.split(","):
        try:
            value = read(part.strip())
        except (ValueError, KeyError):
            value = None
        if value is None or value in values:
            raise SpvkError(f"{flag}: found {plain(part)!r}, expected {expected}")
        values.append(value)
    return values


def task_name(text: str) -> str:
    TASKS[text]
    return text


def length_of(text: str) -> int | None:
    return n if 0 < (n := int(text)) < 2**31 else None


def depth_of(text: str) -> float | None:
    return x if 0 <= (x := float(text)) <= 1 else None


def question(
    name: str, length: int, depth: float, index: int, seed: int, tokens_of: Callable[[str], int]
) -> Question:
    """One prompt of at most `length` tokens, and less than a few below. SpvkError where it cannot be so short."""
    label = f"{name}-{length}-{depth:g}-{index}"
    draw = random.Random(f"{seed}/{label}")
    example = TASKS[name](draw)
    lures_at = sorted(draw.random() for _ in example.lures)
    text = fit(example, depth, lures_at, length, tokens_of, label)
    return Question(
        f"generated prompt {label}",
        label,
        (("task", name), ("len", length), ("depth", depth)),
        text=text,
        answers=example.answers,
        all_needed=example.all_needed,
        needed=example.needed,
        asked=example.question,
    )


def fit(
    example: Example,
    depth: float,
    lures_at: Sequence[float],
    length: int,
    tokens_of: Callable[[str], int],
    label: str,
) -> str:
    """The text with as much filler as `length` tokens allow, then as many words of padding."""
    filler: list[str] = []

    def text(units: int, words: int = 0) -> str:
        filler.extend(islice(example.filler, max(0, units - len(filler))))
        return compose(example, filler[:units], depth, lures_at, PADDING[:words])

    least = tokens_of(text(0))
    if least > length:
        raise SpvkError(f"--length: found {length}, expected at least {least} for prompt {label}")
    units = last_that(lambda k: tokens_of(text(k)) <= length)
    return text(units, last_that(lambda w: w <= len(PADDING) and tokens_of(text(units, w)) <= length))


def last_that(holds: Callable[[int], bool]) -> int:
    """The largest whole number for which `holds` does, which is true up to some number from 0 on."""
    high = next(2**i for i in count() if not holds(2**i))
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def compose(
    example: Example, filler: Sequence[str], depth: float, lures_at: Sequence[float], padding: Sequence[str]
) -> str:
    """Intro, filler with needed texts and lures in their places, question.

    The first needed text stands at `depth`, the others evenly between there and the end; `lures_at` are the
    depths of the lures.
    """
    total = len(example.needed)
    needed_at = [depth + (1 - depth) * i / total for i in range(total)]
    placed = zip((*needed_at, *lures_at), (*example.needed, *example.lures))
    units = list(filler)
    for before, (at, text) in enumerate(sorted(placed, key=lambda p: p[0])):
        units.insert(round(at * len(filler)) + before, text)
    if padding:
        units.insert(0, example.remark.format(" ".join(padding).capitalize()))
    return "\n\n".join((example.intro, example.separator.join(units), example.question))

"""What generated prompts ask: each task draws the sentences that are needed, lures of their form, and a question.

After RULER (Hsieh et al., arXiv 2404.06654: needles among keys, variable tracking), the pass key of Mohtashami
and Jaggi (arXiv 2305.16300), Kamradt's needle in a haystack (its depth), and LongEval's lines (Li et al. 2023).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, pairwise

PEOPLE = (
    "Amara Boris Chidi Dalia Emeka Freya Goran Hanna Ivo Junko Kwame Leila Marek Nadia Otto Priya".split()
)
TOWNS = "Alford Brome Corran Delph Ennis Farrow Gorton Hythe Ilford Jarrow Kelso Luton Morpeth Norham".split()
TREES = "alder birch cedar elm fir hazel larch maple oak pine rowan spruce willow yew".split()
THINGS = (
    "anchor barrel candle drum engine flute globe hammer kettle ladder mirror needle saddle wagon".split()
)
WHO = (
    "the baker",
    "a young sailor",
    "the old teacher",
    "her neighbour",
    "the ferryman",
    "a tall stranger",
    "the miller",
    "my uncle",
    "the clerk",
    "a travelling singer",
    "the gardener",
    "the night watchman",
)
DID = ("mended", "painted", "carried", "sold", "counted", "polished", "described", "hid", "found", "borrowed")
WHAT = (
    "a wooden chair",
    "the broken gate",
    "two baskets of apples",
    "an old map",
    "the church bell",
    "a letter from abroad",
    "the heavy curtains",
    "a pair of boots",
    "some rope",
    "the blue boat",
    "a jar of honey",
    "the kitchen clock",
)
WHERE = (
    "by the river",
    "behind the station",
    "near the market",
    "on the hill",
    "in the harbour",
    "at the edge of the wood",
    "under the bridge",
    "across the square",
    "beside the mill",
)
WHEN = ("Before dawn", "Late in the evening", "That winter", "On the way home", "After the rain",
        "Once again", "During the fair", "Without a word")  # fmt: skip
WORDS = ("one", "two", "three", "four", "five", "six")
NUMBER_ALONE = "Answer with the number alone."


@dataclass(frozen=True)
class Example:
    """A task's text before it is brought to a length."""

    intro: str
    needed: tuple[str, ...]
    """Texts, in order, without which the question cannot be answered."""
    lures: tuple[str, ...]
    """Texts of the same form that answer other questions, in order."""
    question: str
    answers: tuple[str, ...]
    filler: Iterator[str]
    """Endless text that has nothing to do with the question."""
    all_needed: bool = False
    """Whether a right answer holds all of `answers`, or any."""
    separator: str = " "
    remark: str = "{}."
    """How a few words of padding are written here."""


def sentences(draw: random.Random) -> Iterator[str]:
    """Plain sentences, each drawn anew."""
    while True:
        who, did, what, where = (draw.choice(part) for part in (WHO, DID, WHAT, WHERE))
        form = draw.randrange(3)
        if form == 0:
            yield f"{who.capitalize()} {did} {what} {where}."
        elif form == 1:
            yield f"{draw.choice(WHEN)}, {who} {did} {what}."
        else:
            yield f"{draw.choice(WHEN)}, {who} stood {where} and {did} {what} for {draw.choice(WHO)}."


def number(draw: random.Random) -> str:
    return str(draw.randrange(10_000, 100_000))


def numbers(draw: random.Random, count: int) -> list[str]:
    """`count` different numbers of five digits."""
    return [str(n) for n in draw.sample(range(10_000, 100_000), count)]


def passkey(draw: random.Random) -> Example:
    """One number in plain text."""
    key = number(draw)
    return Example(
        "There is important information hidden in a lot of irrelevant text. Find it and memorise it.",
        (f"The pass key is {key}.",),
        (),
        f"What is the pass key? {NUMBER_ALONE}",
        (key,),
        sentences(draw),
    )


def keys(draw: random.Random) -> Example:
    """RULER's multi-key needle: one of six numbers, by its key."""
    names = [f"{tree}-{thing}" for tree, thing in zip(draw.sample(TREES, 6), draw.sample(THINGS, 6))]
    values = numbers(draw, 6)
    facts = [f"The magic number for {name} is {value}." for name, value in zip(names, values)]
    return Example(
        "Some magic numbers are hidden in the following text. Memorise them.",
        (facts[0],),
        tuple(facts[1:]),
        f"What is the magic number for {names[0]}? {NUMBER_ALONE}",
        (values[0],),
        sentences(draw),
    )


def chains(draw: random.Random) -> Example:
    """RULER's variable tracking: a value handed on over three hops, beside another chain."""
    names = ["".join(draw.choices("BCDFGHJKLMNPQRSTVWXZ", k=5)) for _ in range(8)]
    value, other = numbers(draw, 2)

    def chain(first: str, variables: list[str]) -> tuple[str, ...]:
        hops = (f"VAR {b} = VAR {a}." for a, b in pairwise(variables))
        return (f"VAR {variables[0]} = {first}.", *hops)

    return Example(
        "Track the chains of variable assignment hidden in the following text.",
        chain(value, names[:4]),
        chain(other, names[4:]),
        f"Find all variables that are assigned the value {value}, directly or over others. "
        "Answer with their names alone.",
        tuple(names[:4]),
        sentences(draw),
        all_needed=True,
    )


def counting(draw: random.Random) -> Example:
    """How often one person is said to have done a thing that others do too."""
    who, *others = draw.sample(PEOPLE, 4)
    towns = draw.sample(TOWNS, 8)
    times = draw.randrange(2, 6)
    return Example(
        "Read the following text. Afterwards you will be asked to count.",
        tuple(f"{who} bought a lantern in {town}." for town in towns[:times]),
        tuple(f"{other} bought a lantern in {town}." for other, town in zip(others, towns[times:])),
        f"How many lanterns did {who} buy? {NUMBER_ALONE}",
        (str(times), WORDS[times - 1]),
        sentences(draw),
    )


def lookup(draw: random.Random) -> Example:
    """LongEval's lines: one entry of a list whose other entries are of its form."""
    pairs = [f"{tree}-{thing}" for tree in TREES for thing in THINGS]
    draw.shuffle(pairs)
    name, value = f"{pairs[0]}-{draw.randrange(100)}", number(draw)

    def entries() -> Iterator[str]:
        for turn in count():  # numbers of their own for each turn: no entry comes twice
            for pair in pairs[turn == 0 :]:
                yield f"Entry {pair}-{100 * turn + draw.randrange(100)}: register {number(draw)}."

    return Example(
        "Here is a list of entries, each with a register.",
        (f"Entry {name}: register {value}.",),
        (),
        f"What is the register of entry {name}? {NUMBER_ALONE}",
        (value,),
        entries(),
        separator="\n",
    )


def code(draw: random.Random) -> Example:
    """One definition of a module."""
    names = [f"{tree}_{thing}_code" for tree, thing in zip(draw.sample(TREES, 5), draw.sample(THINGS, 5))]
    values = numbers(draw, 5)
    definitions = [f"def {name}():\n    return {value}" for name, value in zip(names, values)]

    def functions() -> Iterator[str]:
        for sentence in sentences(draw):
            name = f"{draw.choice(DID)}_{draw.choice(TREES)}_{draw.randrange(1000)}"
            sign, n = draw.choice("+-*%"), draw.randrange(2, 100)
            yield f'def {name}(value):\n    """{sentence}"""\n    return value {sign} {n}'

    return Example(
        "Here is a Python module.",
        (definitions[0],),
        tuple(definitions[1:]),
        f"What number does {names[0]}() return? {NUMBER_ALONE}",
        (values[0],),
        functions(),
        separator="\n\n",
        remark="# {}.",
    )


TASKS: dict[str, Callable[[random.Random], Example]] = {
    "passkey": passkey, "keys": keys, "chains": chains, "count": counting, "lookup": lookup, "code": code,
}  # fmt: skip

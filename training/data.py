"""Generated text with questions: documents of filler sentences with puzzles' sentences among them.

A puzzle is some sentences, a question and its answer. Everything follows from the random generator that is
passed in. Names and values are split by a checksum: a fifth is never used in training, but for evaluation. Small
classes of words (days, colours, animals) are not split, and not asked for in evaluation.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from . import templates as t
from . import words as w

NOT_STATED = "not stated"


@dataclass(frozen=True)
class Sentence:
    """One sentence; `at` is where in `text` the puzzle's answer stands, `via` where the name ends that leads from
    the question to it (of a chain, of what a function returns); None where they do not."""

    text: str
    at: int | None = None
    via: int | None = None


@dataclass(frozen=True)
class Puzzle:
    """Sentences in the order in which they have to stand, and what is asked about them."""

    task: str
    sentences: tuple[Sentence, ...]
    question: str
    answer: str


def is_held_out(text: str) -> bool:
    return zlib.crc32(text.encode()) % 5 == 0


class World:
    """Draws entities, values and sentences. held_out: None draws from everything, else from that side alone."""

    def __init__(self, rng: random.Random, held_out: bool | None) -> None:
        self.rng, self.held_out = rng, held_out
        unseen = bool(held_out)
        self.statements = t.HELD_OUT_STATEMENTS if unseen else t.STATEMENTS
        self.updates = t.HELD_OUT_UPDATES if unseen else t.UPDATES

    def draw(self, make) -> str:
        """What `make` gives, drawn until it lies on this world's side of the split."""
        while True:
            text = make()
            if self.held_out is None or is_held_out(text) == self.held_out:
                return text

    def pick(self, pool: Sequence[str]) -> str:
        return self.draw(lambda: self.rng.choice(pool))

    def joined(self, *pools: Sequence[str], gap: str = " ") -> str:
        return self.draw(lambda: gap.join(self.rng.choice(pool) for pool in pools))

    def number(self) -> str:
        return self.draw(lambda: str(self.rng.randrange(10, 10 ** self.rng.choice((2, 3)))))

    # Entities, and the values that attributes take.

    def person(self) -> str:
        first = self.joined(w.NAME_STARTS, w.NAME_ENDS, gap="")
        return (
            first
            if self.rng.random() < 0.5
            else first + " " + self.joined(w.NAME_STARTS, w.SURNAME_ENDS, gap="")
        )

    def town(self) -> str:
        return self.joined(w.NAME_STARTS, w.TOWN_ENDS, gap="")

    def thing(self) -> str:
        return "the " + self.joined(w.COLOURS + w.ADJECTIVES, w.OBJECTS)

    def place(self) -> str:
        return "the " + self.joined(w.COLOURS + w.ADJECTIVES, w.PLACES)

    def ship(self) -> str:
        return "the " + self.joined([x.title() for x in w.COLOURS + w.WORDS], w.SHIP_ENDS)

    def company(self) -> str:
        return self.joined(w.NAME_STARTS, w.SURNAME_ENDS, gap="") + self.rng.choice(
            (" Works", " and Sons", " Press")
        )

    def code(self) -> str:
        length = self.rng.choice((1, 2, 2, 3))
        return self.joined(*[w.WORDS] * length)

    def amount(self) -> str:
        return self.number() + " " + self.rng.choice(w.UNITS)

    def odd_word(self) -> str:
        """A word that does not matter: without a meaning, or with one that it has in filler too."""
        if self.rng.random() < 0.5:
            return self.rng.choice(w.ODD_STEMS)
        return self.rng.choice(w.NAME_STARTS).lower() + self.rng.choice(w.NAME_ENDS)

    def date(self) -> str:
        return self.rng.choice(w.MONTHS) + " " + self.draw(lambda: str(self.rng.randint(1, 28)))

    def dish(self) -> str:
        return self.joined(w.FLAVOURS, w.DISHES)

    def subject(self) -> tuple[str, dict[str, str]]:
        """A kind of entity and its attributes: for evaluation those alone whose values can be new."""
        kind = self.rng.choice(tuple(ATTRIBUTES))
        chosen = {a: v for a, v in ATTRIBUTES[kind].items() if not (self.held_out and v in POOLS)}
        return kind, chosen

    def entities(self, kind: str, n: int) -> list[str]:
        """`n` different entities of one kind."""
        out: list[str] = []
        while len(out) < n:
            name = getattr(self, kind)()
            if name not in out:
                out.append(name)
        return out


ATTRIBUTES = {  # by kind of entity: the attribute's noun, and the method of World that draws a value
    "person": {
        "home town": "town", "favourite colour": "colour", "pet": "animal", "job": "job", "birthday": "date",
        "favourite dish": "dish", "badge number": "number", "password": "code", "instrument": "instrument",
    },
    "thing": {
        "owner": "person", "colour": "colour", "price": "amount", "weight": "amount", "code": "code",
        "label": "code", "maker": "person", "number": "number",
    },
    "place": {
        "keeper": "person", "sign": "code", "colour": "colour", "password": "code", "opening day": "day",
        "number": "number", "distance": "amount",
    },
    "town": {"mayor": "person", "market day": "day", "sister town": "town", "postcode": "number", "motto": "code"},
    "ship": {"captain": "person", "cargo": "cargo", "home port": "town", "length": "amount", "signal": "code"},
}  # fmt: skip
POOLS = {
    "colour": w.COLOURS,
    "animal": w.ANIMALS,
    "job": w.JOBS,
    "instrument": w.INSTRUMENTS,
    "cargo": w.CARGO,
    "day": w.DAYS,
}


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def fill(template: str, value: str | None = None, **names: str) -> Sentence:
    """A sentence with its names in place; `at` is where {v} went."""
    capitals = {k.upper(): capital(v) for k, v in names.items()}
    before, mark, after = template.partition("{v}")
    before = before.format(**names, **capitals)
    if not mark:
        return Sentence(before)
    return Sentence(before + value + after.format(**names, **capitals), len(before))


def value_of(world: World, kind: str) -> str:
    return world.rng.choice(POOLS[kind]) if kind in POOLS else getattr(world, kind)()


# -- puzzles -----------------------------------------------------------------------------------------------


def competing(world: World, n: int) -> list[Puzzle]:
    """The same attribute of `n` entities of one kind."""
    kind, attributes = world.subject()
    attribute = world.rng.choice(tuple(attributes))
    return [fact(world, e, attribute, attributes[attribute]) for e in world.entities(kind, n)]


def facts(world: World, n: int) -> list[Puzzle]:
    """`n` facts: mostly `competing`, else several attributes of few entities."""
    rng = world.rng
    if n == 1 or rng.random() < 0.7:
        return competing(world, n)
    kind, attributes = world.subject()
    pairs = [(e, a) for e in world.entities(kind, -(-n // 3)) for a in attributes]
    return [fact(world, e, a, attributes[a]) for e, a in rng.sample(pairs, min(n, len(pairs)))]


def framed(world: World, said: Sentence) -> Sentence:
    """In training every third statement has something around it."""
    if world.held_out or world.rng.random() < 0.67:
        return said
    before, _, after = world.rng.choice(t.FRAMES).partition("{s}")
    before, after = (part.format(**filler_names(world)) for part in (before, after))
    return Sentence(before + said.text + after, len(before) + said.at)


def fact(world: World, entity: str, attribute: str, kind: str) -> Puzzle:
    value = value_of(world, kind)
    sentence = framed(world, fill(world.rng.choice(world.statements), value, e=entity, a=attribute, x=world.odd_word()))
    question = world.rng.choice(t.QUESTIONS).format(e=entity, a=attribute)
    return Puzzle("fact", (sentence,), question, value)


def update(world: World, n: int) -> Puzzle:
    """A value that is stated and then changed: n statements, the last one counts, however it is put."""
    kind, attributes = world.subject()
    entity, attribute = world.entities(kind, 1)[0], world.rng.choice(tuple(attributes))
    drawn = [value_of(world, attributes[attribute]) for _ in range(2 * n)]
    values = list(dict.fromkeys(drawn))[:n]
    later = world.updates if world.held_out else world.updates + world.statements[:SAID_AGAIN]
    chosen = [world.rng.choice(world.statements)] + [world.rng.choice(later) for _ in values[1:]]
    said = [framed(world, fill(c, v, e=entity, a=attribute, x=world.odd_word())) for c, v in zip(chosen, values)]
    sentences = tuple(Sentence(s.text) for s in said[:-1]) + (said[-1],)
    question = world.rng.choice(t.UPDATE_QUESTIONS).format(e=entity, a=attribute)
    return Puzzle("update", sentences, question, values[-1])


def chain(world: World, n: int) -> list[Puzzle]:
    """`n` chains of one kind: an entity, what it is bound to, and what that is bound to."""
    rng = world.rng
    which = rng.randrange(len(t.CHAINS))
    kinds = (("thing", "thing", "place"), ("person", "company", "town"), ("person", "ship", "person"))[which]
    first, second, question = t.CHAINS[which]
    out, starts = [], world.entities(kinds[0], n)
    middles = world.entities(kinds[1], 2 * n)
    for entity, middle in zip(starts, [m for m in middles if m not in starts]):
        value = getattr(world, kinds[2])()
        leads = fill(rng.choice(first), e=entity, m=middle).text
        pair = [Sentence(leads, via=leads.rindex(middle) + len(middle))]
        pair.append(fill(rng.choice(second), value, m=middle))
        rng.shuffle(pair)
        out.append(Puzzle("chain", tuple(pair), rng.choice(question).format(e=entity), value))
    return out


def count(world: World) -> Puzzle:
    """How often one person was in one town, among visits of the same person elsewhere; up to five."""
    rng, n = world.rng, world.rng.randint(1, 5)
    person, (town, other) = world.person(), world.entities("town", 2)
    visits = [town] * n + [other] * rng.randint(0, 2)
    rng.shuffle(visits)
    said = tuple(Sentence(fill(rng.choice(t.COUNTED), v, e=person).text) for v in visits)
    return Puzzle("count", said, rng.choice(t.COUNT_QUESTIONS).format(e=person, v=town), w.COUNTS[n])


def lookup(world: World) -> Puzzle:
    """One item of a list of five."""
    rng, items = world.rng, []
    while len(items) < 5:
        item = world.pick(w.WORDS)
        items += [item] if item not in items else []
    person, i = world.person(), rng.randrange(5)
    said = fill(rng.choice(t.LISTS), ", ".join(items), e=person)
    at = said.at + sum(len(x) + 2 for x in items[:i])
    question = rng.choice(t.LIST_QUESTIONS).format(e=person, n=w.ORDINALS[i])
    return Puzzle("list", (Sentence(said.text, at),), question, items[i])


def function(world: World) -> Puzzle:
    """What a small Python function returns: one of its two constants; its name there leads to it."""
    rng = world.rng
    name = world.joined(w.FUNCTIONS, w.NOUNS, gap="_")
    a, b = rng.sample(w.NOUNS, 2)
    values = [world.number(), world.number()]
    i = rng.randrange(2)
    text = f"def {name}():\n    {a} = {values[0]}\n    {b} = {values[1]}\n    return {(a, b)[i]}\n"
    at = text.index(f"{(a, b)[i]} = ") + len((a, b)[i]) + 3
    said = Sentence(text, at, via=len(text) - 1)
    return Puzzle("function", (said,), rng.choice(t.FUNCTION_QUESTIONS).format(f=name), values[i])


def not_stated(world: World) -> Puzzle:
    """A question about one entity, while the text has the same attribute of another."""
    asked, told = competing(world, 2)
    return Puzzle("not stated", tuple(Sentence(s.text) for s in told.sentences), asked.question, NOT_STATED)


FILLER_POOLS = {
    "j": w.JOBS, "c": w.COLOURS, "g": w.CARGO, "l": w.PLACES, "d": w.DAYS, "m": w.ANIMALS, "s": w.UNITS,
    "i": w.INSTRUMENTS, "y": w.MONTHS, "b": w.ADJECTIVES,
}  # fmt: skip


def filler(world: World) -> Sentence:
    """A sentence that answers nothing. Its words are drawn from everything that answers are drawn from."""
    return Sentence(world.rng.choice(t.FILLERS).format(**filler_names(world)))


def filler_names(world: World) -> dict[str, object]:
    """A word for each placeholder of `templates.FILLERS` and `FRAMES`."""
    rng, pick = world.rng, world.rng.choice
    o, o2 = rng.sample(w.OBJECTS, 2)
    w1, w2 = rng.sample(w.WORDS, 2)
    names = {"P": world.person(), "q": world.person(), "t": world.town(), "u": world.town()}
    names |= {"o": o, "o2": o2, "w": w1, "w2": w2, "k": rng.randrange(10, 1000), "n": pick(w.COUNTS[2:])}
    names |= {"h": f"{pick(w.FLAVOURS)} {pick(w.DISHES)}"} | {
        k: pick(pool) for k, pool in FILLER_POOLS.items()
    }
    return names


SAID_AGAIN = 10  # so many of the plain statements serve as updates too, in training
MIX = {"facts": 6, "update": 5, "chain": 5, "count": 1, "list": 1, "function": 1, "not stated": 1}


def group(world: World, mix: dict[str, int] = MIX) -> list[Puzzle]:
    """Puzzles that belong together, of a task drawn by the weights of `mix`."""
    rng = world.rng
    task = rng.choices(tuple(mix), tuple(mix.values()))[0]
    if task == "facts":
        return facts(world, rng.randint(1, 8))
    if task == "chain":
        return chain(world, rng.randint(1, 3))
    if task == "update":
        return [update(world, rng.randint(2, 5))]
    return [{"count": count, "list": lookup, "function": function, "not stated": not_stated}[task](world)]

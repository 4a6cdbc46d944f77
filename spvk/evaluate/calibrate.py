"""Which heads of a draft retrieve: generated prompts, each head's rank of what they need, held-out validation.

Half of the prompts rank the heads; the other half decide how many of the best serve better than all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__, job
from ..errors import SpvkError
from ..model import Model
from ..models.builder import Capture
from ..outputs import require_cached
from ..session import Session
from ..specprefill import fingerprint, reduce_rows
from ..specprefill.heads import VERSION, calibration_path
from ..vulkan import Device
from .generate import Recipe
from .gold import Span, spans_of_texts
from .prompts import Question
from .run import Steps

PIECE = 16  # tokens whose attention is averaged: a needed sentence is about one piece long
SINK = 4  # tokens at the start that every head looks at, and that every preset guards
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""How many of the best heads are tried; all are tried too."""


@dataclass(frozen=True)
class Probe:
    """One prompt as the draft attended to it."""

    rows: list[NDArray[np.float32]]
    """A [attention layers, heads, keys] for each score row."""
    gold: list[Span]
    """Tokens that the question needs."""
    end: int
    """Where the question begins: what stands from there on is not ranked."""


@dataclass(frozen=True)
class Outcome:
    """How well so many heads found what the validation prompts need."""

    heads: int
    mrr: float
    """Mean reciprocal rank of the needed pieces, 0 to 1."""
    top_fifth: float
    """Share of the prompts whose needed pieces were all in the top fifth."""


def piece_ranks(scores: NDArray, gold: list[Span], end: int) -> NDArray[np.float64]:
    """Rank from 1, float64 [..., gold], of each gold span's best piece among the pieces of other text.

    `scores` is float [..., n]; pieces have PIECE tokens, from SINK to `end`, and count by their mean. Equal
    pieces rank before it: a head that looks nowhere finds nothing.
    """
    starts = np.arange(SINK, end, PIECE)
    sizes = np.diff(np.r_[starts, end])
    means = np.add.reduceat(np.asarray(scores, np.float64)[..., :end], starts, axis=-1) / sizes
    owner = np.zeros(starts.size, dtype=bool)
    pieces = []
    for first, last in gold:
        inside = (starts < last) & (starts + sizes > first)
        owner |= inside
        pieces.append(inside)
    best = np.stack([means[..., inside].max(-1) for inside in pieces], axis=-1)
    return 1.0 + (means[..., ~owner][..., None, :] >= best[..., None]).sum(-1)


def head_scores(probes: Iterator[Probe]) -> NDArray[np.float64]:
    """Mean reciprocal rank of what is needed in each head's own attention, float64 [attention layers, heads]."""
    total, count = 0.0, 0
    for probe in probes:
        mean = np.mean(probe.rows, axis=0, dtype=np.float64)
        total = total + (1.0 / piece_ranks(mean, probe.gold, probe.end)).mean(-1)
        count += 1
    return total / count


def best_heads(scores: NDArray) -> list[tuple[int, int]]:
    """(attention layer, head) from the best score down; the earlier first among equals."""
    order = np.argsort(-scores, axis=None, kind="stable")
    return [tuple(int(x) for x in np.unravel_index(i, scores.shape)) for i in order]


def validate(probes: Iterator[Probe], order: list[tuple[int, int]], shape: tuple[int, int]) -> list[Outcome]:
    """The outcome of so many of the best heads, for each of COUNTS and for all."""
    counts = [c for c in COUNTS if c < len(order)] + [len(order)]
    found: list[list[tuple[float, bool]]] = [[] for _ in counts]
    for probe in probes:
        pieces = -(-(probe.end - SINK) // PIECE)
        for i, count in enumerate(counts):
            mask = np.zeros(shape, dtype=bool)
            mask[tuple(np.transpose(order[:count]))] = True
            ranks = piece_ranks(reduce_rows(probe.rows, probe.end, heads=mask), probe.gold, probe.end)
            found[i].append((float((1 / ranks).mean()), bool((ranks <= pieces / 5).all())))
    return [Outcome(c, *(float(x) for x in np.mean(f, axis=0))) for c, f in zip(counts, found)]


def best_outcome(outcomes: list[Outcome]) -> Outcome:
    """The most prompts whose needed pieces a budget of a fifth would keep; then the rank; then the fewest heads."""
    return max(outcomes, key=lambda o: (o.top_fifth, o.mrr, -o.heads))


def probe(session: Session, q: Question, tokens: list[int], pieces: list[bytes], lookahead: int) -> Probe:
    """Read a prompt and let the draft go on for `lookahead` tokens."""
    session.reset()
    n, rows = len(tokens), []
    token = session.prefill(tokens)
    for i in range(lookahead + 1):
        if i:
            token = session.decode(token, n + i - 1)
        rows.append(session.attention_rows()[:, :, :n])
    ((question, _),) = spans_of_texts(pieces, [q.text.rsplit("\n\n", 1)[1]])
    return Probe(rows, spans_of_texts(pieces, q.needed), question)


def run_calibrate(
    draft: str, recipe: Recipe, *, raw: bool, lookahead: int, batch: int, device: str | None, screen
) -> dict[str, Any]:
    """The calibration of a draft model file as plain values; `screen` is a show.Screen."""
    with Device(device) as dev, Model(dev, draft) as model:
        screen.device(dev.info, dev.reason)
        screen.notices(model)
        length = max(recipe.lengths)
        if length + lookahead > model.config.context_length:
            most = model.config.context_length - lookahead
            raise SpvkError(f"--length: found {length}, expected at most {most} for {draft}")

        def encode(text: str) -> list[int]:
            return list(job.Prompt(text, raw=raw).encode(model))

        questions = recipe.questions(lambda text: len(encode(text)))
        step = Steps(screen, len(questions))

        def probes(part: list[Question]) -> Iterator[Probe]:
            for q in part:
                tokens = encode(q.text)
                yield probe(session, q, tokens, [model.tokenizer.token_bytes(t) for t in tokens], lookahead)
                step()

        with Session(model, length + lookahead, batch, Capture(rows=True)) as session:
            scores = head_scores(probes(questions[0::2]))
            order = best_heads(scores)
            outcomes = validate(probes(questions[1::2]), order, scores.shape)
        blocks = list(model.config.attention_layers)
    best = best_outcome(outcomes)
    return {
        "version": VERSION,
        "spvk": __version__,
        "draft": draft,
        "draft_sha256": fingerprint(draft),
        "settings": {**asdict(recipe), "raw": raw, "lookahead": lookahead},
        "shape": list(scores.shape),
        "blocks": blocks,
        "chosen": [list(head) for head in order[: best.heads]],
        "validation": [asdict(o) for o in outcomes],
        "scores": np.round(scores, 6).tolist(),
    }


def default_output(draft: str) -> str:
    """The file that `--heads auto` reads, in a cache directory that exists. Raises SpvkError where it cannot be made."""
    path = calibration_path(job.cache_dir(), draft)
    require_cached(path)
    return str(path)


def summary(result: dict[str, Any]) -> list[str]:
    """What was found, in a few lines."""
    rows = {o["heads"]: o for o in result["validation"]}
    chosen, total = len(result["chosen"]), result["shape"][0] * result["shape"][1]
    names = [f"blk.{result['blocks'][layer]}/{head}" for layer, head in result["chosen"][:8]]
    more = f" and {chosen - 8} more" if chosen > 8 else ""

    def line(o: dict[str, Any]) -> str:
        return f"mean reciprocal rank {o['mrr']:.3f}, in the top fifth {100 * o['top_fifth']:.0f} %"

    return [
        f"{chosen} of {total} heads: {', '.join(names)}{more}",
        f"held-out prompts: {line(rows[chosen])}",
        f"with all heads:   {line(rows[total])}",
    ]

"""Training: `python -m training.train --name draft --size draft --steps 6000`.

Everything goes to --out (default `build/training`): NAME.csv with the curves, NAME.pt with the checkpoint that
`--resume` goes on from, vocabulary.json. Matrices are trained with Muon (Jordan et al. 2024), the rest with AdamW.
"""

from __future__ import annotations

import argparse
import csv
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spvk.synth import Shape
from spvk.synth_vocabulary import Vocabulary

from . import tokenizer as bpe
from .data import MIX, World
from .documents import Batch, Writer, batch
from .model import INTERVAL, Attention, Decoder, Look
from .weights import state_of

SHAPES = {
    "draft": Shape(256, 4, 4, 2, 64, 512, 4, 4, 64, 16, (3, 3, 2, 0), True),
    "target": Shape(256, 8, 4, 2, 64, 512, 4, 4, 64, 16, (3, 3, 2, 0), True),
    "smoke": Shape(64, 4, 2, 1, 32, 64, 1, 1, 32, 16, (3, 3, 2, 0), True),
}
LENGTHS = (96, 96, 192, 384, 768, 1536, 2048, 4096)
MIXES = ({"facts": 1}, {"facts": 2, "update": 1})  # of the first stages; then data.MIX
CSV_FIELDS = ("step", "tokens", "seconds", "length", "answer_loss", "text_loss", "look_loss", "look_weight",
              "rate", "exact", "fact", "update", "chain", "count", "list", "function", "not stated")  # fmt: skip


def read_mix(text: str) -> dict[str, int]:
    """Weights by task, those that are not named as in data.MIX."""
    try:
        given = {task: int(weight) for task, _, weight in (item.partition("=") for item in text.split(","))}
    except ValueError:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected weights as in facts=4,chain=8") from None
    if unknown := given.keys() - MIX.keys():
        raise argparse.ArgumentTypeError(f"found {min(unknown)!r}, expected one of {', '.join(MIX)}")
    return MIX | given


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="training.train", description="Train one model on generated text.")
    p.add_argument("--name", required=True, help="name of the run's files")
    p.add_argument("--size", choices=tuple(SHAPES), default="draft")
    p.add_argument("--out", type=Path, default=Path("build/training"))
    p.add_argument("--steps", type=int, required=True, help="steps in all; the schedules follow from it")
    p.add_argument("--tokens", type=int, default=4096, help="tokens a step")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--muon", type=float, default=0.01, help="learning rate of the matrices")
    p.add_argument("--adam", type=float, default=2e-3, help="learning rate of all else")
    p.add_argument("--look", type=float, default=0.3, help="first weight of the attention supervision")
    p.add_argument("--look-until", type=float, default=0.4, help="share of the steps after which it is off")
    p.add_argument("--stage", type=int, default=0, help="where in the curriculum to start")
    p.add_argument(
        "--advance", type=float, default=0.6, help="share of right answers to go on to the next length"
    )
    p.add_argument("--patience", type=int, help="steps at one length after which the next comes in any case")
    p.add_argument(
        "--grow-from",
        type=Path,
        help="checkpoint or GGUF file whose layers are taken over; layers above them start as the identity",
    )
    p.add_argument("--mix", type=read_mix, default=MIX, help="weights of the tasks, as in facts=4,chain=8")
    p.add_argument("--resume", action="store_true", help="go on from the run's checkpoint")
    p.add_argument("--save-every", type=int, default=100)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument(
        "--compile", action="store_true", help="compile the recurrent layers: minutes once, then faster"
    )
    return p


def grow(model: Decoder, path: Path) -> None:
    """Take over a model's layers; those above them start as the identity. Raises ValueError where they do not fit."""
    state, own = state_of(path), model.state_dict()
    kept = len({name.split(".")[1] for name in state if name.startswith("blocks.")})
    if any(name not in own or own[name].shape != value.shape for name, value in state.items()):
        wanted = f"at most {len(model.blocks)} layers of width {model.shape.width} and as many tokens"
        raise ValueError(f"{path}: found {kept} layers of other sizes, expected {wanted}")
    model.load_state_dict(state, strict=False)
    for block in model.blocks[kept:]:
        nn.init.zeros_(block.mixer.out)
        nn.init.zeros_(block.ffn_down)


def losses(model: Decoder, made: Batch, look: Look | None, generator: torch.Generator):
    """(answer loss, text loss, bool per answer token): cross entropy of answers and of 15 % of the other tokens."""
    tokens, answer = torch.from_numpy(made.tokens), torch.from_numpy(made.answer)[:, 1:]
    hidden = model(tokens, look)[:, :-1]
    text = ~answer & (torch.rand(answer.shape, generator=generator) < 0.15)
    chosen = answer | text
    logits, wanted = model.logits(hidden[chosen]), tokens[:, 1:][chosen]
    each, answered = F.cross_entropy(logits, wanted, reduction="none"), answer[chosen]
    right = torch.zeros(tokens.shape, dtype=torch.bool)
    right[:, 1:][chosen] = logits.argmax(-1) == wanted
    return each[answered].mean(), each[~answered].mean(), right


def exact_by_task(made: Batch, right: Tensor) -> dict[str, tuple[int, int]]:
    """{task: (questions answered without a wrong token, questions)}."""
    out: dict[str, tuple[int, int]] = {}
    for task, row, start, stop in made.questions:
        good, total = out.get(task, (0, 0))
        out[task] = (good + bool(right[row, start:stop].all()), total + 1)
    return out


class Curves:
    """Means since the last line of the CSV file. Lines after `step`, which a checkpoint goes back to, are cut."""

    def __init__(self, path: Path, step: int) -> None:
        kept = []
        if step and path.exists():
            with path.open() as file:
                kept = [row for row in csv.DictReader(file) if int(row["step"]) <= step]
        self.file = path.open("w", newline="")
        self.writer = csv.DictWriter(self.file, CSV_FIELDS)
        self.writer.writeheader()
        self.writer.writerows(kept)
        self.file.flush()
        self.clear()

    def clear(self) -> None:
        self.values: dict[str, list[float]] = {}
        self.counts: dict[str, list[int]] = {}

    def add(self, exact: dict[str, tuple[int, int]], **values: float) -> None:
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)
        for task, (good, total) in exact.items():
            sums = self.counts.setdefault(task, [0, 0])
            sums[0], sums[1] = sums[0] + good, sums[1] + total

    def write(self, **now: float) -> None:
        row = now | {name: float(np.mean(v)) for name, v in self.values.items()}
        row |= {task: good / total for task, (good, total) in self.counts.items()}
        row["exact"] = sum(g for g, _ in self.counts.values()) / sum(n for _, n in self.counts.values())
        row = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}
        self.writer.writerow(row)
        self.file.flush()
        print(" ".join(f"{k} {v}" for k, v in row.items()), flush=True)
        self.clear()


def vocabulary_of(a: argparse.Namespace) -> Vocabulary:
    """The run's: of its folder, else of the file that it grows from, else a new one. ValueError where they differ."""
    path, given = a.out / "vocabulary.json", None
    if a.grow_from and a.grow_from.is_file() and bpe.is_gguf(a.grow_from):
        given = bpe.load(a.grow_from)
    if not path.exists():
        bpe.save(given or bpe.train_vocabulary(), path)
    found = bpe.load(path)
    if given and given != found:
        raise ValueError(f"{a.grow_from}: its vocabulary differs from {path}, expected the same")
    return found


class Run:
    """One training: model, optimisers, the curriculum's place, and the generators that the data come from."""

    def __init__(self, a: argparse.Namespace) -> None:
        self.a, self.step, self.tokens, self.stage, self.seconds = a, 0, 0, a.stage, 0.0
        self.recent: list[float] = []  # exact match of each step at the present length, since it began
        a.out.mkdir(parents=True, exist_ok=True)
        self.vocabulary = vocabulary_of(a)
        self.writer = Writer(bpe.make_tokenizer(self.vocabulary))
        self.world = World(random.Random(a.seed), held_out=False)
        torch.manual_seed(a.seed)
        self.generator = torch.Generator().manual_seed(a.seed)
        self.model = Decoder(SHAPES[a.size], len(self.vocabulary.tokens))
        if a.grow_from:
            grow(self.model, a.grow_from)
        matrices, rest = split_parameters(self.model)
        self.muon = torch.optim.Muon(matrices, lr=a.muon, weight_decay=0.01)
        self.adam = torch.optim.AdamW(rest, lr=a.adam, betas=(0.9, 0.97), weight_decay=0.0)
        self.checkpoint = a.out / f"{a.name}.pt"
        if a.resume:
            self.restore()
        self.curves = Curves(a.out / f"{a.name}.csv", self.step)

    def state(self) -> dict:
        return {
            "shape": self.a.size,
            "model": self.model.state_dict(),
            "muon": self.muon.state_dict(),
            "adam": self.adam.state_dict(),
            "world": self.world.rng.getstate(),
            "generator": self.generator.get_state(),
            "numbers": (self.step, self.tokens, self.stage, self.recent, self.seconds),
        }

    def save(self) -> None:
        part = self.checkpoint.with_suffix(".part")
        torch.save(self.state(), part)
        part.replace(self.checkpoint)

    def restore(self) -> None:
        if not self.checkpoint.is_file():
            raise ValueError(f"{self.checkpoint}: no checkpoint, expected one to --resume from")
        state = torch.load(self.checkpoint, weights_only=False)
        for name in ("model", "muon", "adam"):
            getattr(self, name).load_state_dict(state[name])
        self.step, self.tokens, self.stage, self.recent, self.seconds = state["numbers"]
        self.world.rng.setstate(state["world"])
        self.generator.set_state(state["generator"])

    def rate(self) -> float:
        """Factor on the learning rates: a short rise, then full, over the last half down to 2 %."""
        left = 1 - self.step / self.a.steps
        return min(1.0, (self.step + 1) / 40, max(0.02, left / 0.5))

    def look_weight(self) -> float:
        until = self.a.look_until * self.a.steps
        return self.a.look * max(0.0, 1 - self.step / until) if until else 0.0

    def length(self) -> int:
        """Mostly the curriculum's present length, else a shorter one; at the end any of the last four."""
        rng, last = self.world.rng, self.stage + 1 == len(LENGTHS)
        if self.stage == 0 or rng.random() < (0.3 if last else 0.7):
            return LENGTHS[self.stage]
        return LENGTHS[rng.randrange(max(0, self.stage - 3), self.stage)]

    def train_step(self) -> None:
        a, length, weight = self.a, self.length(), self.look_weight()
        mix = MIXES[self.stage] if self.stage < len(MIXES) else a.mix
        made = batch(self.writer, self.world, length, max(1, a.tokens // length), mix)
        look = Look(*map(torch.from_numpy, self.looks(made))) if weight else None
        with torch.autocast("cpu", torch.bfloat16):
            answer, text, right = losses(self.model, made, look, self.generator)
        looked = look.loss() if look else torch.zeros(())
        (answer + 0.1 * text + weight * looked).backward()
        self.update()
        exact = exact_by_task(made, right)
        share = sum(g for g, _ in exact.values()) / sum(n for _, n in exact.values())
        self.curves.add(exact, answer_loss=answer.item(), text_loss=text.item(), look_loss=looked.item())
        self.step, self.tokens = self.step + 1, self.tokens + made.tokens.size
        if length == LENGTHS[self.stage]:
            self.advance(share)

    def looks(self, made: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`Look`'s rows, keys and first keys. Where one layer attends, it looks at the answer and at what leads there."""
        if len(self.model.blocks) >= 2 * INTERVAL:
            return made.rows, made.keys, made.first
        both = np.concatenate((made.keys, made.first), axis=1)
        return np.tile(made.rows, 2), both, both

    def update(self) -> None:
        nn.utils.clip_grad_norm_(self.adam.param_groups[0]["params"], 1.0)
        for optimiser, rate in ((self.muon, self.a.muon), (self.adam, self.a.adam)):
            optimiser.param_groups[0]["lr"] = rate * self.rate()
            optimiser.step()
            optimiser.zero_grad()

    def advance(self, share: float) -> None:
        """To the next length where enough questions of the last 10 steps there were answered, or patience ends."""
        self.recent.append(share)
        known = len(self.recent) >= 10 and np.mean(self.recent[-10:]) > self.a.advance
        if (known or len(self.recent) == self.a.patience) and self.stage + 1 < len(LENGTHS):
            self.stage, self.recent = self.stage + 1, []

    def loop(self) -> None:
        began = time.monotonic() - self.seconds
        while self.step < self.a.steps:
            self.train_step()
            self.seconds = time.monotonic() - began
            if self.step % 20 == 0 or self.step == self.a.steps:
                self.curves.write(step=self.step, tokens=self.tokens, seconds=round(self.seconds),
                                  length=LENGTHS[self.stage], rate=self.rate(), look_weight=self.look_weight())  # fmt: skip
            if self.step % self.a.save_every == 0 or self.step == self.a.steps:
                self.save()


def split_parameters(model: Decoder) -> tuple[list[Tensor], list[Tensor]]:
    """(matrices for Muon, all else): the embedding, gates, convolutions and vectors are not orthogonalised."""
    other = ("embedding", "alpha", "beta", "conv")
    named = list(model.named_parameters())
    matrices = [p for n, p in named if p.ndim == 2 and not n.endswith(other)]
    chosen = {id(p) for p in matrices}
    return matrices, [p for _, p in named if id(p) not in chosen]


def main(arguments: list[str] | None = None) -> None:
    p = parser()
    a = p.parse_args(arguments)
    if not 0 <= a.stage < len(LENGTHS):
        p.exit(2, f"{p.prog}: --stage: found {a.stage}, expected 0 to {len(LENGTHS) - 1}\n")
    torch.set_num_threads(a.threads)
    try:
        run = Run(a)
    except ValueError as error:
        p.exit(2, f"{p.prog}: {error}\n")
    if a.compile:
        # Each length by itself: shapes that vary are not compiled, and all layers share one limit.
        torch._dynamo.config.recompile_limit = len(LENGTHS) * len(run.model.blocks)
        for block in run.model.blocks:
            if not isinstance(block.mixer, Attention):
                block.compile(dynamic=False)
    run.loop()


if __name__ == "__main__":
    main()

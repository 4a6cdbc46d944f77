"""Where the time goes: prefill and scoring by module, or by kernel as the prompt grows.

    python bench/lengths.py -m MODEL [-p 512,2048,8192] [-b 512] [--lookahead 8] [-r 1] [--precision exact|fast]
                            [--device NAME|INDEX] [--json FILE|-]

Every dispatch is submitted and waited for on its own, and its time from the host added up. The model reads a
random prompt with its scores captured, as a draft does, then decodes `lookahead` tokens. Dense prefill runs
the same dispatches but those of the score kernels, so one run shows both.

With one length: a table of modules and weight shapes for the prefill, and one for a decode step. With several:
microseconds a token of each kernel at each length, and whose the growth beyond linear is. A number is the
least of -r rounds, after a warm-up. Exit status 2: the model or an option cannot be used.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np
from tables import markdown

from spvk.bench import read_counts
from spvk.errors import SpvkError
from spvk.model import Model
from spvk.models.builder import Capture
from spvk.recording import Dispatch
from spvk.prepare import prepare
from spvk.session import Session
from spvk.vulkan import Commands, Device

SCORE = "score_"  # how the score kernels' names begin


@dataclass
class Cost:
    """What the dispatches of one kind took together."""

    calls: int = 0
    seconds: float = 0.0
    flops: int = 0  # of products alone: they say what they do at a full batch


Costs = dict[str, Cost]  # by module and, for products, shape


class TimedCommands:
    """A recording that runs dispatch by dispatch and adds each one's time to `costs`."""

    def __init__(self, session: TimedSession, recording: list[Dispatch]) -> None:
        self.session = session
        self.parts = [(d, Commands(session.model.device, session.memory, [d])) for d in recording]

    def run(self) -> None:
        for dispatch, commands in self.parts:
            start = perf_counter()
            commands.run()
            cost = self.session.costs[kind(dispatch)]
            cost.seconds += perf_counter() - start
            cost.calls += 1
            cost.flops += dispatch.flops if sizes(dispatch) else 0

    def free(self) -> None:
        for _, commands in self.parts:
            commands.free()


class TimedSession(Session):
    """A session whose runs are timed by kind of dispatch, in `costs`."""

    costs: Costs

    def _commands(self, rows: int, last: bool, part: str) -> TimedCommands:
        key = (rows, last, part)
        if key not in self.commands:
            self.commands[key] = TimedCommands(self, self.recording(*key))
        return self.commands[key]


def sizes(d: Dispatch) -> str:
    """The weight's rows x columns, of a dispatch that reads one."""
    return f"{d.args['n']}x{d.args['k']}" if "row_bytes" in d.args else ""


def kind(d: Dispatch) -> str:
    """Module and sizes."""
    return f"{d.module} {sizes(d)}".strip()


def kernel(name: str) -> str:
    """The kernel of a kind of dispatch."""
    return name.split()[0].split(".")[0]


# -- measuring ---------------------------------------------------------------------------------------------


@dataclass
class Measured:
    """Costs of one length: its prefill with scores, and a decode step (the mean of the lookahead)."""

    length: int
    prefill: Costs = field(default_factory=dict)
    decode: Costs = field(default_factory=dict)


def measure(model: Model, length: int, batch: int, lookahead: int, rounds: int) -> Measured:
    """Read `length` random tokens and decode `lookahead`, `rounds` times after a warm-up."""
    context, capture, out = length + lookahead + 1, Capture(importance=True), Measured(length)
    if context > model.config.context_length:
        limit = f"at most {model.config.context_length}, the context of {model.path}"
        raise SpvkError(f"-p: {length} with its lookahead makes {context} tokens, expected {limit}")
    tokens = np.random.default_rng(0).integers(0, model.vocabulary, length)
    prepare(model, context, batch, capture)
    with TimedSession(model, context, batch, capture) as session:
        session.costs = defaultdict(Cost)
        for piece in {min(batch, length), length % batch or length}:  # drivers compile at the first dispatch
            session.reset()
            session.decode(session.prefill(tokens[:piece]), piece)
        for _ in range(rounds):
            session.reset()
            session.costs = prefill = defaultdict(Cost)
            token = session.prefill(tokens)
            session.costs = decode = defaultdict(Cost)
            for i in range(lookahead):
                token = session.decode(token, length + i)
            out.prefill = least(out.prefill, prefill)
            out.decode = least(out.decode, {name: divide(cost, lookahead) for name, cost in decode.items()})
    return out


def least(old: Costs, new: Costs) -> Costs:
    """The faster of two rounds, kind by kind."""
    return {name: min(old.get(name, cost), cost, key=lambda c: c.seconds) for name, cost in new.items()}


def divide(cost: Cost, by: int) -> Cost:
    return Cost(cost.calls // by, cost.seconds / by, cost.flops // by)


# -- tables ------------------------------------------------------------------------------------------------


def modules_table(title: str, costs: Costs) -> list[str]:
    """One line a kind of dispatch, slowest first, and their sum."""
    total = sum(c.seconds for c in costs.values())
    rows = [(title, "calls", "ms", "%", "GFLOP/s")]
    for name, c in sorted(costs.items(), key=lambda item: -item[1].seconds):
        speed = f"{c.flops / c.seconds / 1e9:.1f}" if c.flops else ""
        rows.append((name, str(c.calls), f"{1e3 * c.seconds:.2f}", f"{100 * c.seconds / total:.1f}", speed))
    calls = sum(c.calls for c in costs.values())
    return markdown([*rows, ("all", str(calls), f"{1e3 * total:.2f}", "100.0", "")])


def by_kernel(costs: Costs) -> dict[str, float]:
    """Seconds of each kernel."""
    out: dict[str, float] = defaultdict(float)
    for name, cost in costs.items():
        out[kernel(name)] += cost.seconds
    return dict(out)


def growth(found: list[Measured]) -> dict[str, float]:
    """Seconds that each kernel takes at the greatest length beyond its rate at the least one."""
    short, long = found[0], found[-1]
    rate = by_kernel(short.prefill)
    return {k: s - rate[k] * long.length / short.length for k, s in by_kernel(long.prefill).items()}


def lengths_table(found: list[Measured]) -> list[str]:
    """Microseconds a token by kernel and length, the sums, and each kernel's part of the growth."""
    kernels = [by_kernel(m.prefill) for m in found]
    more = growth(found)
    rows = [("µs/token", *(str(m.length) for m in found), f"s beyond linear at {found[-1].length}")]

    def row(name: str, wanted) -> tuple[str, ...]:
        sums = (sum(s for k, s in each.items() if wanted(k)) for each in kernels)
        cells = (f"{1e6 * s / m.length:.1f}" for s, m in zip(sums, found))
        return name, *cells, f"{sum(s for k, s in more.items() if wanted(k)):+.3f}"

    for name in sorted(kernels[-1], key=lambda k: -kernels[-1][k]):
        rows.append(row(name, name.__eq__))
    rows.append(row("dense prefill", lambda k: not k.startswith(SCORE)))
    rows.append(row("with scores", lambda k: True))
    steps = [sum(c.seconds for c in m.decode.values()) for m in found]
    rows.append(("ms a lookahead step", *(f"{1e3 * s:.2f}" for s in steps), ""))
    return markdown(rows)


def as_json(found: list[Measured]) -> str:
    def plain(costs: Costs) -> dict:
        return {name: vars(cost) for name, cost in costs.items()}

    rows = [{"length": m.length, "prefill": plain(m.prefill), "decode": plain(m.decode)} for m in found]
    return json.dumps(rows, indent=1)


# -- the program -------------------------------------------------------------------------------------------


def read_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("-m", "--model", required=True, metavar="GGUF")
    add("-p", "--lengths", default="512,2048,8192", metavar="N,…", help="tokens of the prompt")
    add("-b", "--batch", type=int, default=512, metavar="N", help="tokens read at once")
    add("--lookahead", type=int, default=8, metavar="N", help="tokens decoded after the prompt")
    add("-r", "--rounds", type=int, default=1, metavar="N")
    add("--precision", default="exact", choices=("exact", "fast"), help="of products")
    add("--device", metavar="NAME|INDEX")
    add("--json", metavar="FILE|-", help="the costs as JSON too (- is standard output, alone)")
    args = parser.parse_args(argv)
    for flag, value in (("-b", args.batch), ("-r", args.rounds), ("--lookahead", args.lookahead)):
        if value < 1:
            parser.error(f"{flag}: found {value}, expected at least 1")
    return args


def main(argv: list[str] | None = None) -> int:
    args = read_arguments(argv)
    try:
        lengths = sorted(set(read_counts("-p", args.lengths)))
        if not lengths[0]:
            raise SpvkError("-p: found 0, expected lengths from 1 up")
        with Device(args.device) as device, Model(device, args.model, args.precision) as model:
            print(f"device: {device.info.name}, {device.info.driver}", file=sys.stderr)
            found = [measure(model, n, args.batch, args.lookahead, args.rounds) for n in lengths]
        if args.json and args.json != "-":
            Path(args.json).write_text(as_json(found) + "\n")
    except (SpvkError, OSError) as error:
        where = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        print(f"lengths: {where}", file=sys.stderr)
        return 2
    if args.json == "-":
        print(as_json(found))
    elif len(found) > 1:
        print("\n".join(lengths_table(found)))
    else:
        one = found[0]
        print("\n".join(modules_table(f"prefill of {one.length}", one.prefill)), end="\n\n")
        print("\n".join(modules_table(f"a decode step after {one.length}", one.decode)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How fast a pair of models is on this device: dense and sparse runs on random prompts, for mode auto's predictions.

Each run has a process of its own, as a command's has: processors that rested while the models were read take a while
to get going, which a run after others does not meet (two virtual processors: 80 ms of a sparse run of 600).
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from statistics import median
from time import perf_counter
from typing import NamedTuple, Sequence

import numpy as np

from . import engine, job
from .errors import SpvkError
from .outputs import require_cached
from .specprefill import Settings
from .specprefill.rates import rates_path
from .vulkan import Device

# Attention's part shows at lengths that a small model reads in no time: these double up to MOST_TOKENS while
# dense prefill takes less than GROW_MS. A length is read up to ROUNDS times, while that takes less than AGAIN_MS.
GROW_MS, MOST_TOKENS = 2_000.0, 8192
AGAIN_MS, ROUNDS = 6_000.0, 3


class Times(NamedTuple):
    """Milliseconds of one run's phases; scoring: 0 in a dense run."""

    prefill: float
    score: float


def measure_pair(device: str | None, target: str, draft: str, lengths: Sequence[int], screen) -> None:
    """Dense and sparse runs of random prompts: their times are remembered, not what such prompts keep.

    `lengths` (tokens) in any case, and doubled ones as long as they are quick, see GROW_MS. Raises SpvkError where
    one of `lengths` cannot be read.
    """
    longest = min(longest_prompt(path) for path in (target, draft))
    lengths = list(dict.fromkeys(min(n, longest) for n in lengths))
    for n in lengths:
        last = time_length(device, target, draft, n, screen)
    while last < GROW_MS and 2 * n <= min(longest, MOST_TOKENS):
        n *= 2
        try:
            last = time_length(device, target, draft, n, screen)
        except SpvkError:  # too little memory for this length: the others do
            break


def require_pair(target: str, draft: str) -> None:
    """Raise SpvkError, before anything is timed, where the files are no pair or times cannot be kept."""
    for path in (target, draft):
        longest_prompt(path)
    job.require_draft(job.read_config(target)[0], draft)
    require_cached(rates_path(job.cache_dir()))


def longest_prompt(path: str) -> int:
    """Tokens that leave room for lookahead in a model's context. Raises SpvkError where none do."""
    context, lookahead = job.read_config(path)[1].context_length, Settings().lookahead
    if context <= lookahead:
        raise SpvkError(
            f"{path}: context_length: found {context}, expected more than lookahead's {lookahead}"
        )
    return context - lookahead


def time_length(device: str | None, target: str, draft: str, n: int, screen) -> float:
    """A dense and a sparse run of `n` tokens, ROUNDS times or until they took AGAIN_MS; the median dense one (ms)."""
    dense: list[Times] = []
    sparse: list[Times] = []
    start = perf_counter()
    while not dense or (len(dense) < ROUNDS and 1e3 * (perf_counter() - start) < AGAIN_MS):
        for mode, times in (("off", dense), ("always", sparse)):
            times.append(in_process(device, target, draft, n, mode))
    whole = median(t.prefill for t in dense)
    screen.say(f"{n} tokens: prefill {whole:,.0f} ms, scoring {median(t.score for t in sparse):,.0f} ms")
    return whole


def run_once(device: str | None, target: str, draft: str, n: int, mode: str) -> Times:
    """Read `n` random tokens with models that were just opened, and remember what that took."""
    with Device(device) as dev, ExitStack() as stack:
        pair = job.open_pair(stack, dev, target, draft, "auto")
        settings = Settings(mode=mode)
        tokens = np.random.default_rng(n).integers(0, pair[0].vocabulary, n)
        result = engine.prefill(*pair, tokens, settings, predict=1)
        job.RateMemory.of(dev, pair[0], draft, settings).add_times(result)
    return Times(result.timings.prefill_ms, result.timings.score_ms)


def in_process(device: str | None, target: str, draft: str, n: int, mode: str) -> Times:
    """run_once in a process of its own. Raises SpvkError with its line, or where it ends without one."""
    command = [sys.executable, "-m", __name__, json.dumps([device, target, draft, n, mode])]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode == 0:
        return Times(*json.loads(done.stdout))
    if done.returncode == 2 and done.stderr:
        raise SpvkError(done.stderr.splitlines()[-1])
    raise SpvkError(f"tune: a run of {n} tokens ended with status {done.returncode}, expected its times")


def main() -> None:
    try:
        print(json.dumps(run_once(*json.loads(sys.argv[1]))))
    except SpvkError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()

"""The tune command: which variant of each kernel is fastest on this device, and how fast a pair of models is.

Kernels are measured at the 0.8B's shapes; tuning.py keeps the answers. tune_pair.py times a pair of models.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Callable

import numpy as np

from .errors import SpvkError
from .gguf.types import BY_NAME
from .kernels import step
from .kernels.attention import attention
from .kernels.gated_delta import gated_delta, state_bytes
from .kernels.matmul import matmul
from .kernels.matvec import matvec
from .kernels.profile import Profile, profile_for
from .outputs import require_cached
from .recording import Buffer, Matrix, Recording
from .tune_pair import measure_pair, require_pair
from .tuning import choices_for, path_for, save
from .vulkan import Commands, Device, Memory

GAIN = 0.97  # of the default's time that a candidate must not exceed to replace it
ROUNDS, SECONDS = 3, 0.2  # least rounds of a candidate, and what a choice may take beyond them for each


class Scratch:
    """Buffers of one measurement, filled so that no time depends on odd numbers."""

    def __init__(self, device: Device) -> None:
        self.memory, self.rng = Memory(device), np.random.default_rng(0)

    def values(self, count: int, scale: float = 1.0) -> Buffer:
        """`count` normally distributed float32."""
        return self._put((scale * self.rng.standard_normal(count)).astype(np.float32))

    def step(self, tokens: int, past: int = 0) -> Buffer:
        return self._put(step.pack(tokens, past))

    def weights(self, rows: int, k: int) -> Matrix:
        """Q4_K, the type of most weights: random quants and group scales, small block scales."""
        kind = BY_NAME["Q4_K"]
        raw = self.rng.integers(0, 256, (rows * k // kind.block_elements, kind.block_bytes), np.uint8)
        raw[:, :4] = np.array([1e-4, 1e-4], "<f2").view(np.uint8)
        return Matrix("w", "Q4_K", k, rows, kind.row_bytes(k), ((0, rows, self._put(raw)),))

    def _put(self, data: np.ndarray) -> Buffer:
        buffer = Buffer("scratch", data.nbytes)
        self.memory.allocate(buffer)
        self.memory.upload(buffer, data)
        return buffer


Launch = Callable[[Profile, Scratch, int], Recording]  # for this many tokens


def launch_matmul(profile: Profile, s: Scratch, tokens: int) -> Recording:
    w = s.weights(2048, 1024)
    return matmul(profile, s.values(tokens * w.k), w, s.values(tokens * w.rows), s.step(tokens), rows=tokens)


def launch_matvec(profile: Profile, s: Scratch, tokens: int) -> Recording:
    w = s.weights(8192, 1024)
    return matvec(profile, s.values(w.k), w, s.values(w.rows))


def launch_attention(profile: Profile, s: Scratch, tokens: int) -> Recording:
    sizes = dict(heads=8, kv_heads=2, dim=256, context=tokens)
    q, y = s.values(tokens * 2048), s.values(tokens * 2048)
    k, v = s.values(512 * tokens), s.values(512 * tokens)
    return attention(profile, q, k, v, y, s.step(tokens), rows=tokens, **sizes)


def launch_gated_delta(profile: Profile, s: Scratch, tokens: int) -> Recording:
    heads, size = 16, 128
    inner = heads * size
    conv, gates = s.values(3 * tokens * inner), [s.values(tokens * heads) for _ in range(2)]
    state = s.values(state_bytes(heads, size) // 4, 0.01)
    bias, a, y = s.values(heads), s.values(heads, 0.0), s.values(tokens * inner)
    sizes = dict(rows=tokens, key_heads=heads, value_heads=heads, size=size, eps=1e-6)
    return [gated_delta(profile, conv, *gates, bias, a, state, y, s.step(tokens), **sizes)]


LAUNCHES: dict[str, Launch] = {
    "matmul.tile": launch_matmul,
    "matvec.wide": launch_matvec,
    "matvec.lanes": launch_matvec,
    "attention.rows": launch_attention,
    "attention.tile": launch_attention,
    "gated_delta.columns": launch_gated_delta,
}
CPU_TOKENS, GPU_TOKENS = 64, 512  # rows of a kernel's measurement
CPU_LENGTHS, GPU_LENGTHS = (128, 256, 512), (512, 1024, 2048)  # prompts of a pair's


@dataclass(frozen=True)
class Measurement:
    """Milliseconds of every candidate of a choice, by name; `kept` is the one to use."""

    name: str
    ms: dict[str, float]
    default: str
    kept: str


def measure(device: Device, profile: Profile, choice: str, tokens: int) -> Measurement:
    """Time the candidates in turns and keep the fastest, or the default where none is clearly faster."""
    scratch, runs, candidates = Scratch(device), {}, choices_for(profile)[choice]
    try:
        for name in candidates:
            chosen = replace(profile, choices=((choice, name),))
            runs[name] = Commands(device, scratch.memory, LAUNCHES[choice](chosen, scratch, tokens))
        ms = fastest({name: commands.run for name, commands in runs.items()})
    finally:
        for commands in runs.values():
            commands.free()
        scratch.memory.free()
    best = min(ms, key=ms.__getitem__)
    default = candidates[0]
    return Measurement(choice, ms, default, best if ms[best] <= GAIN * ms[default] else default)


def fastest(runs: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Milliseconds of each run, the least of several rounds in turns; the first round warms up."""
    for run in runs.values():
        run()
    ms, start, rounds = dict.fromkeys(runs, float("inf")), perf_counter(), 0
    while rounds < ROUNDS or perf_counter() - start < SECONDS * len(runs):
        for name, run in runs.items():
            before = perf_counter()
            run()
            ms[name] = min(ms[name], 1e3 * (perf_counter() - before))
        rounds += 1
    return ms


def run_tune(target: str | None, draft: str | None, *, device: str | None, screen) -> None:
    """The command. Raises SpvkError unless both models are given or none."""
    if (target is None) != (draft is None):
        missing = "--draft" if draft is None else "--target"
        raise SpvkError(f"{missing}: missing, expected both models or none")
    if target and draft:
        require_pair(target, draft)
    with Device(device) as dev:
        screen.device(dev.info, dev.reason)
        require_cached(path_for(dev))
        profile = profile_for(dev.info)
        cpu, kept = profile.name == "cpu", {}
        for choice in choices_for(profile):
            found = measure(dev, profile, choice, CPU_TOKENS if cpu else GPU_TOKENS)
            kept[choice] = found.kept
            times = ", ".join(f"{name} {ms:.2f} ms" for name, ms in found.ms.items())
            screen.say(f"{choice:20} {found.kept:6} ({times})")
        screen.say(f"kept in {save(dev, kept)}")
    if target and draft:
        measure_pair(device, target, draft, CPU_LENGTHS if cpu else GPU_LENGTHS, screen)

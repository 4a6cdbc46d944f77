"""Recordings: plain lists of dispatches over named buffers. No device is needed to make, print or check one.

The idea is Vello's (linebender/vello, recording.rs): what to run is data; running it is vulkan/'s job.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable, Mapping

from . import shaders

MAX_GROUPS = 65535  # maxComputeWorkGroupCount that every Vulkan device has, for each axis
ALIGNMENT = 256  # bytes; every buffer starts on such a boundary, enough for any vector load


@dataclass(frozen=True, eq=False)
class Buffer:
    """A named piece of device memory: a whole allocation, or a range of its `parent`."""

    name: str
    nbytes: int
    parent: Buffer | None = None
    offset: int = 0  # bytes from the start of the root

    @property
    def root(self) -> Buffer:
        return self.parent.root if self.parent else self

    def overlaps(self, other: Buffer) -> bool:
        """Do the two share a byte?"""
        return (
            self.root is other.root
            and self.offset < other.offset + other.nbytes
            and other.offset < self.offset + self.nbytes
        )

    def range(self, offset: int, nbytes: int, name: str = "") -> Buffer:
        """`nbytes` bytes from `offset`, both relative to this buffer."""
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise ValueError(f"{self.name}: range [{offset}, {offset + nbytes}) of {self.nbytes} bytes")
        return Buffer(name or self.name, nbytes, self, self.offset + offset)


@dataclass(frozen=True)
class Matrix:
    """A weight in device memory as GGUF has it: `rows` rows of `k` elements of a GGML type.

    `pieces` are whole-row ranges (first row, rows, buffer): one, unless the device's allocation limit
    is smaller than the tensor. `row_bytes` is the stride of a row.
    """

    name: str
    type: str
    k: int
    rows: int
    row_bytes: int
    pieces: tuple[tuple[int, int, Buffer], ...]


PipelineKey = tuple[str, tuple[tuple[str, int], ...]]


def pipeline_key(module: str, spec: Mapping[str, int]) -> PipelineKey:
    """A module and its specialisation constants, sorted."""
    return module, tuple(sorted(spec.items()))


@dataclass(frozen=True)
class Dispatch:
    """One launch of a module. `args` has a Buffer or a number for each of its push constants and views."""

    module: str
    groups: tuple[int, int, int]
    args: Mapping[str, Buffer | int | float]
    spec: Mapping[str, int] = field(default_factory=dict)
    flops: int = 0  # at full batch and context: what a submission is cut by
    split: int = 0  # the axis along which the launch may be cut in several
    columns: tuple[int, int] | None = None  # [start, end) of every row of `y`, where no more is touched
    rounds: Buffer | None = None  # whose rows `packed` gets rounded, whether or not they are stored there too

    def __post_init__(self) -> None:
        if any(not 1 <= g <= MAX_GROUPS for g in self.groups):
            raise ValueError(
                f"{self.module}: workgroups {self.groups}, expected 1 to {MAX_GROUPS} on each axis"
            )

    @property
    def pipeline(self) -> PipelineKey:
        """What is compiled for it."""
        return pipeline_key(self.module, self.spec)

    def touched(self) -> Iterable[tuple[Buffer, str]]:
        """(buffer, access) of every buffer argument; access is r, w or rw."""
        module = shaders.manifest()[self.module]
        for f in module.push:
            if f.access:
                yield self.args[f.name], f.access
        for name in module.views:
            yield self.args[name], "r"

    def __str__(self) -> str:
        args = " ".join(f"{k}={v.name if isinstance(v, Buffer) else v}" for k, v in self.args.items())
        spec = "".join(f" {k}:{v}" for k, v in self.spec.items())
        return f"{self.module}{spec} {'x'.join(map(str, self.groups))} {args}"


Recording = list[Dispatch]


class Hazards:
    """Which byte ranges have been read and written since the last barrier."""

    def __init__(self) -> None:
        self.seen: dict[Buffer, list[tuple[Buffer, str, Dispatch]]] = {}

    def conflicts(self, d: Dispatch) -> bool:
        """True where `d` reads what was written, or writes what was read or written."""
        for buffer, access in d.touched():
            for other, a, before in self.seen.get(buffer.root, ()):
                if (
                    ("w" in access or "w" in a)
                    and buffer.overlaps(other)
                    and not apart(d, before, buffer, other)
                ):
                    return True
        return False

    def add(self, d: Dispatch) -> None:
        for buffer, access in d.touched():
            self.seen.setdefault(buffer.root, []).append((buffer, access, d))


def apart(a: Dispatch, b: Dispatch, of_a: Buffer, of_b: Buffer) -> bool:
    """Do the two touch other columns of the same rows?"""
    if not (a.columns and b.columns and of_a is of_b is a.args.get("y") is b.args.get("y")):
        return False
    return a.columns[1] <= b.columns[0] or b.columns[1] <= a.columns[0]


def barriers(recording: Recording) -> list[bool]:
    """For each dispatch: must a memory barrier stand before it? Independent neighbours may overlap."""
    hazards, needed = Hazards(), []
    for d in recording:
        needed.append(hazards.conflicts(d))
        if needed[-1]:
            hazards = Hazards()
        hazards.add(d)
    return needed


def cut(recording: Recording, flops: float) -> list[tuple[list[tuple[Dispatch, int, int]], int]]:
    """Cut a recording into submissions of at most about `flops` each.

    Returns [(parts, cost)], a part being (dispatch, first workgroup on its split axis, how many): a
    dispatch larger than the bound is cut along that axis, so no submission outlasts a driver's watchdog.
    """
    out, parts, cost = [], [], 0.0
    for d in recording:
        count = d.groups[d.split]
        pieces = min(count, max(1, -(-d.flops // max(1, int(flops)))))
        for i in range(pieces):
            first, last = count * i // pieces, count * (i + 1) // pieces
            share = d.flops * (last - first) / count
            if parts and cost + share > flops:
                out.append((parts, int(cost)))
                parts, cost = [], 0.0
            parts.append((d, first, last - first))
            cost += share
    if parts:
        out.append((parts, int(cost)))
    return out


def describe(recording: Recording) -> str:
    """The recording as text, a line a dispatch, a bar where a barrier stands."""
    return "\n".join(f"{'|' if b else ' '} {d}" for d, b in zip(recording, barriers(recording)))

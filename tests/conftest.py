"""Shared fixtures: one Vulkan device for the whole suite, and a harness that runs kernels on it."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import numpy as np
import pytest

from spvk import job
from spvk.cli import main
from spvk.kernels import step as step_params
from spvk.kernels.profile import Profile, profile_for
from spvk.recording import Buffer, Recording
from spvk.vulkan import Commands, Device, Memory

# The same examples on every run, and no time limit on slow machines: a red suite then means a change.
hypothesis.settings.register_profile("spvk", derandomize=True, deadline=None)
hypothesis.settings.load_profile("spvk")

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="session")
def device():
    with Device() as d:
        yield d


@pytest.fixture(scope="session")
def profile(device) -> Profile:
    return profile_for(device.info.subgroup[1])


class Bench:
    """Buffers and runs for kernel tests: fresh outputs are filled with NaN, so unwritten values show."""

    def __init__(self, device: Device, profile: Profile) -> None:
        self.memory, self.device, self.profile = Memory(device), device, profile

    def put(self, array: np.ndarray, name: str = "in") -> Buffer:
        """A buffer with this array's bytes."""
        array = np.ascontiguousarray(array)
        buffer = Buffer(name, array.nbytes)
        self.memory.allocate(buffer)
        self.memory.upload(buffer, array)
        return buffer

    def empty(self, *shape: int, name: str = "out") -> Buffer:
        """A float32 buffer of this shape, all NaN."""
        return self.put(np.full(shape, np.nan, np.float32), name)

    def step(self, tokens: int, **numbers: int) -> Buffer:
        return self.put(step_params.pack(tokens, **numbers), "step")

    def run(self, *recording) -> None:
        """Run dispatches in order (lists of them are flattened)."""
        flat: Recording = [
            d for item in recording for d in (item if isinstance(item, (list, tuple)) else [item])
        ]
        commands = Commands(self.device, self.memory, flat)
        commands.run()
        commands.free()

    def get(self, buffer: Buffer, *shape: int, dtype=np.float32) -> np.ndarray:
        return self.memory.download(buffer, dtype).reshape(shape)


@pytest.fixture
def bench(device, profile):
    b = Bench(device, profile)
    yield b
    b.memory.free()


@pytest.fixture
def spvk(capsys, monkeypatch, tmp_path_factory):
    """Run the command; returns (exit status, standard output, standard error).

    What its runs took is remembered in a folder of its own, for this test alone.
    """
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr(job, "cache_dir", lambda: cache)

    def run(*args):
        try:
            main([str(a) for a in args])
            status = 0
        except SystemExit as stop:
            status = stop.code
        out, err = capsys.readouterr()
        return status, out, err

    return run


def nmse(got: np.ndarray, exact: np.ndarray) -> float:
    """Normalised mean squared error: sum((got - exact)^2) / sum(exact^2), in float64."""
    got, exact = np.asarray(got, np.float64), np.asarray(exact, np.float64)
    return float(((got - exact) ** 2).sum() / (exact**2).sum())


def assert_close(got: np.ndarray, exact: np.ndarray, budget: float, what: str = "") -> None:
    """Assert NMSE within `budget`; prints the share of the budget used. NaN never passes."""
    error = nmse(got, exact)
    print(f"{what or 'nmse'}: {error:.2e}, {100 * error / budget:.2g} % of the budget {budget:.0e}")
    assert error <= budget, f"{what}: NMSE {error:.3e}, budget {budget:.0e}"

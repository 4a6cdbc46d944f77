"""Shared fixtures: one Vulkan device for the whole suite, and what runs kernels and commands on it."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import numpy as np
import pytest

from harness import Bench, nmse
from models import DRAFT, TARGET, prompts
from spvk import engine, job
from spvk.cli import main
from spvk.kernels.profile import Profile, profile_for
from spvk.model import Model
from spvk.specprefill import Settings
from spvk.vulkan import Device

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
    return profile_for(device.info)


@pytest.fixture(scope="module")
def pair(device):
    """The trained pair: target and draft."""
    with Model(device, TARGET) as target, Model(device, DRAFT) as draft:
        yield target, draft


@pytest.fixture(scope="module")
def prompt() -> dict:
    """A question about one fact, 256 tokens."""
    return prompts(256, 1, 1)[0]


@pytest.fixture(scope="module")
def dense(pair, prompt) -> list[int]:
    """The target's answer after all tokens."""
    return engine.prefill(*pair, prompt["tokens"], Settings(mode="off"), predict=2).tokens


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


def assert_close(got: np.ndarray, exact: np.ndarray, budget: float, what: str = "") -> None:
    """Assert NMSE within `budget`; prints the share of the budget used. NaN never passes."""
    error = nmse(got, exact)
    print(f"{what or 'nmse'}: {error:.2e}, {100 * error / budget:.2g} % of the budget {budget:.0e}")
    assert error <= budget, f"{what}: NMSE {error:.3e}, budget {budget:.0e}"

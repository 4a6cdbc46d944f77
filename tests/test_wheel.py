"""The wheel is complete: built, unpacked elsewhere, and used from another folder."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from models import TINY, exact

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Runs `python -m spvk` with only the installed wheel (and the dependencies) on the path."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.check_call([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)])
    subprocess.check_call(
        [*pip, "install", "--no-deps", "--target", str(folder / "site"), *map(str, folder.glob("spvk-*.whl"))]
    )

    def run(*args):
        return subprocess.run(
            [sys.executable, *args],
            capture_output=True,
            text=True,
            cwd=folder,
            timeout=300,
            env={**os.environ, "PYTHONPATH": str(folder / "site")},
        )

    return run


def test_it_is_the_wheel_that_runs(installed):
    done = installed("-c", "import spvk, spvk.shaders as s; print(spvk.__file__); print(len(s.manifest()))")
    path, count = done.stdout.split()
    assert path.endswith("site/spvk/__init__.py") and int(count) == len(
        list((ROOT / "spvk" / "spirv").glob("*.spv"))
    )


def test_two_calls_from_another_folder(installed, tmp_path):
    np.save(tmp_path / "t.npy", exact(TINY)["n7/tokens"])
    first = installed("-m", "spvk", "inspect", str(TINY))
    assert first.returncode == 0 and "qwen35" in first.stdout
    second = installed(
        "-m", "spvk", "dump", str(TINY), "--tokens", str(tmp_path / "t.npy"), "-o", str(tmp_path / "o.npz")
    )
    assert second.returncode == 0, second.stderr
    assert np.load(tmp_path / "o.npz")["greedy"][0] == exact(TINY)["n7/greedy"][0]


def test_the_page_of_a_run_comes_with_its_style_and_script(installed):
    done = installed(
        "-c",
        "from importlib.resources import files; f = files('spvk') / 'templates';"
        "print(*sorted(p.name for p in f.iterdir()))",
    )
    assert done.stdout.split() == ["explain.css", "explain.html", "explain.js"], done.stderr


def test_the_demo_runs_from_the_wheel(installed):
    done = installed("-m", "spvk", "demo")
    assert done.returncode == 0 and "time to first token" in done.stdout, done.stderr

"""The kernels' microbenchmarks (bench/): what they report, and that a wrong kernel reports nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(folder, *options):
    """(exit status, standard output, the benchmarks of the JSON file)."""
    out = folder / "out.json"
    command = [sys.executable, "-m", "pytest", "-q", "bench", "--benchmark-only", f"--benchmark-json={out}"]
    search = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*command, *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": search},
    )
    found = json.loads(out.read_text())["benchmarks"] if out.exists() else []
    return done.returncode, done.stdout, found


def test_a_product_reports_its_rates_beside_the_peak(tmp_path):
    status, text, (found,) = run(tmp_path, "-k", "matvec and 0.8b and ffn_down", "--types", "Q8_0")
    assert status == 0, text
    info, seconds = found["extra_info"], found["stats"]["min"]
    n, k = 1024, 3584
    moved = n * k // 32 * 34 + 4 * (n + k)  # blocks of 32 elements in 34 bytes, float32 vectors
    assert info["module"].startswith("matvec.q8_0.")
    assert abs(info["gflops"] * seconds * 1e9 - 2 * n * k) < 1
    assert n * k // 32 * 34 < info["gbs"] * seconds * 1e9 < 1.01 * moved + 4 * n  # y may count twice
    ideal = max(info["gflops"] / info["peak_gflops"], info["gbs"] / info["peak_gbs"])
    assert abs(info["peak"] - ideal) < 1e-9 * ideal
    assert "| matvec[0.8b-Q8_0-ffn_down] | matvec.q8_0." in text


def test_a_wrong_kernel_reports_nothing(tmp_path):
    (tmp_path / "other_twin.py").write_text(
        "import spvk.kernels.swiglu as s\n"
        "right = s.reference\n"
        "s.reference = lambda gate, up: right(gate, up) * 1.001\n"
    )
    status, text, found = run(tmp_path, "-k", "swiglu and 0.8b and not rounded", "-p", "other_twin")
    assert status == 1 and found == []
    assert "swiglu: NMSE 9.98e-07, budget 1e-11; not timed" in text and "GFLOP/s" not in text


def test_unknown_types_are_named(tmp_path):
    command = [sys.executable, "-m", "pytest", "bench", "--types", "Q4_K,Q4_9"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 4 and "--types: found Q4_9, expected some of F32,F16" in done.stderr

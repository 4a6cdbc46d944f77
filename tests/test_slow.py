"""The checks that need large files: `SPVK_FIXTURES=FOLDER make test-slow`.

FOLDER holds, each beside its .npz of exact outputs: full-0.8b.gguf, full-4b.gguf, tiny-target-Q4_K_M.gguf,
tiny-target-mixed.gguf, smollm2-135m-q4_1.gguf.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from models import DRAFT, FIXTURES, TARGET
from spvk import engine
from spvk.model import Model
from spvk.specprefill import Settings
from test_fidelity import check_case

pytestmark = pytest.mark.slow
FOLDER = Path(os.environ.get("SPVK_FIXTURES", "."))
CASES = {
    "tiny-target-Q4_K_M": 1e-8,
    "tiny-target-mixed": 1e-8,
    "smollm2-135m-q4_1": 1e-8,
    "full-0.8b": 1e-6,
    "full-4b": 1e-6,
}


@pytest.mark.parametrize("stem,budget", CASES.items())
def test_matches_the_exact_outputs(device, stem, budget):
    with np.load(FOLDER / f"{stem}.npz") as z, Model(device, FOLDER / f"{stem}.gguf") as model:
        for case in sorted({k.split("/")[0] for k in z.files}):
            names = [k for k in z.files if k.startswith(case + "/") and "llamacpp" not in k]
            print(stem, case)
            # The full sizes have a budget of 1e-6, a hundred times the squared error: ten times the error of a row.
            check_case(model, {k.split("/")[1]: z[k] for k in names}, budget, 1e-5 * (budget / 1e-8) ** 0.5)


@pytest.mark.parametrize("select", ["dense", "chunk", "mass"])
def test_trained_pair_answers_cell_by_cell(device, select):
    """Exact match over all prompts. Dense: at least 24 of 25 in every cell; sparse is reported."""
    settings = Settings(mode="off") if select == "dense" else Settings(mode="always", select=select, keep=0.2)
    cells: dict[tuple[int, int], list[bool]] = {}
    kept: dict[tuple[int, int], list[float]] = {}
    with Model(device, TARGET) as target, Model(device, DRAFT) as draft:
        for p in map(json.loads, (FIXTURES / "trained" / "prompts.jsonl").read_text().splitlines()):
            result = engine.prefill(target, draft, p["tokens"], settings, predict=2)
            cells.setdefault((p["len"], p["facts"]), []).append(result.tokens == p["answer"])
            kept.setdefault((p["len"], p["facts"]), []).append(result.selection.kept_fraction)
    for (length, facts), right in cells.items():
        print(
            f"{select} {length} tokens {facts} facts: {sum(right)}/{len(right)}, kept {np.mean(kept[length, facts]):.3f}"
        )
    if select == "dense":
        assert all(sum(right) >= 24 and len(right) == 25 for right in cells.values())

"""Whole models against exact outputs: every case of the fixtures that the repository carries.

Budgets are the project's promise: NMSE of logits and hidden states 1e-8, attention rows within 1e-5, the
same greedy tokens. The full-size models are in test_slow.py.
"""

import numpy as np
import pytest

from conftest import assert_close, nmse
from models import DRAFT, MIXED, TARGET, TINY, cases, exact
from spvk import engine
from spvk.model import Model


@pytest.fixture(scope="module")
def models(device):
    opened = {}
    yield (
        lambda path: (
            opened.setdefault(path, None) or opened.update({path: Model(device, path)}) or opened[path]
        )
    )
    for m in opened.values():
        m.close()


def check_case(model, want: dict[str, np.ndarray], budget: float = 1e-8, rows_budget: float = 1e-5) -> None:
    """Assert everything that the exact case holds. `want` has its arrays by name."""
    lookahead = len(want["greedy"]) - 1 if "greedy" in want else 0
    got = engine.dump(model, want["tokens"], want["positions"], lookahead=lookahead)
    assert_close(got["logits"][0], want["logits"], budget, "logits")
    if "hidden" in want:
        assert_close(got["hidden"], want["hidden"], budget, "hidden")
    for i in range(lookahead + 1):
        rows = want["attn_rows" if i == 0 else f"attn_rows_step{i}"]
        error = np.abs(got[f"attn_rows_step{i}"] - rows).max()
        print(f"attention rows of step {i}: {error:.2e}, {100 * error / rows_budget:.2g} % of the budget")
        assert error <= rows_budget, f"attention rows of step {i}: {error:.2e}"
    if "greedy" in want:
        assert got["greedy"].tolist() == want["greedy"].tolist()
        assert np.abs(got["importance"] - want["importance"]).max() <= rows_budget


def case_of(path, case):
    prefix = case + "/"
    return {
        k[len(prefix) :]: v for k, v in exact(path).items() if k.startswith(prefix) and "/llamacpp/" not in k
    }


@pytest.mark.parametrize(
    "path,case",
    [(p, c) for p in (TINY, MIXED, DRAFT, TARGET) for c in cases(p)],
    ids=lambda x: getattr(x, "stem", x),
)
def test_matches_the_exact_outputs(models, path, case):
    check_case(models(path), case_of(path, case))


@pytest.mark.parametrize("case", cases(TINY))
def test_nearer_to_exact_than_llama_cpp(models, case):
    want = case_of(TINY, case)
    ours = nmse(engine.dump(models(TINY), want["tokens"], want["positions"])["logits"][0], want["logits"])
    theirs = nmse(exact(TINY)[f"{case}/llamacpp/logits"][0], want["logits"])
    assert ours < theirs / 1000


@pytest.mark.parametrize("path", [TINY, TARGET], ids=lambda p: p.stem)
def test_batch_size_does_not_matter(models, path):
    tokens = exact(path)["n257/tokens"]
    got = {b: engine.dump(models(path), tokens, batch=b, lookahead=2) for b in (1, 7, 64, 512)}
    for b in (1, 7, 64):
        assert_close(got[b]["logits"], got[512]["logits"], 1e-9, f"batch {b}")
        assert_close(got[b]["importance"], got[512]["importance"], 1e-9, f"importance at batch {b}")
        assert got[b]["greedy"].tolist() == got[512]["greedy"].tolist()


@pytest.mark.parametrize("path", [TINY, TARGET], ids=lambda p: p.stem)
def test_keeping_everything_is_bit_identical_to_dense(models, path):
    tokens = exact(path)["n257/tokens"]
    dense = engine.dump(models(path), tokens)
    sparse = engine.dump(models(path), tokens, np.arange(len(tokens)))
    for name in dense:
        assert np.array_equal(dense[name], sparse[name]), name


def test_the_same_run_twice_is_bit_identical(models):
    tokens = exact(TINY)["n257/tokens"]
    first, second = (engine.dump(models(TINY), tokens, lookahead=3) for _ in range(2))
    assert all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("path", [DRAFT, TARGET], ids=lambda p: p.stem)
def test_fast_precision_is_twice_as_near_to_exact_as_llama_cpp(device, path):
    """On trained weights, over all cases; llama.cpp rounds activations too, and its KV cache to float16."""
    ours = theirs = 0.0
    with Model(device, path, "fast") as model:
        for case in cases(path):
            want = case_of(path, case)
            got = engine.dump(model, want["tokens"], want["positions"])
            ours += nmse(got["logits"][0], want["logits"])
            theirs += nmse(exact(path)[f"{case}/llamacpp/logits"][0], want["logits"])
            assert_close(got["hidden"], want["hidden"], 3e-3, f"{case} hidden")
    print(f"{ours / theirs:.2f} of llama.cpp's error")
    assert ours < theirs / 2


@pytest.mark.parametrize("path", [TINY, TARGET], ids=lambda p: p.stem)
def test_fast_precision_keeps_its_promises(device, path):
    """Keeping everything is bit-identical to dense, and how the prompt is cut does not matter."""
    tokens = exact(path)["n257/tokens"]
    with Model(device, path, "fast") as model:
        dense = engine.dump(model, tokens, lookahead=1)
        sparse = engine.dump(model, tokens, np.arange(len(tokens)), lookahead=1)
        assert all(np.array_equal(dense[name], sparse[name]) for name in dense)
        for batch in (7, 64):
            assert_close(
                engine.dump(model, tokens, batch=batch)["logits"], dense["logits"][:1], 1e-9, f"batch {batch}"
            )

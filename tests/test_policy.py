"""The policy in the engine and in the command: protection, positions, presets, records."""

import hashlib
import json
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from models import DRAFT, TARGET, TINY, broken_draft, exact
from spvk import engine, job
from spvk.errors import SpvkError
from spvk.model import Model
from spvk.cli.policy import default_of, flag_of
from spvk.session import Session
from spvk.specprefill import Rates, Settings, read_structure, reduce_rows
from spvk.specprefill.cost import Rate
from test_cli import refused

CHUNK = {"select": "chunk", "keep": 0.2}
AUTO = {"preset": "auto"}


def structure_of(pair, prompt, settings, ranges=()):
    return read_structure(prompt["tokens"], pair[0].tokenizer, settings, ranges=ranges)


# -- what is decided with numbers ---------------------------------------------------------------------------


def test_break_even_by_measured_rates(pair, prompt):
    settings = Settings(preset="auto", keep=0.25)
    slow = Rates(target=Rate(0.0, 1.0, 0.0), draft=Rate(0.0, 0.75, 0.0))
    got = engine.prefill(*pair, prompt["tokens"], settings, predict=1, rates=slow)
    assert got.decision.status == "skipped_break_even"
    assert got.decision.reason == "sparse would take 256 ms, dense 256 ms"
    far = replace(slow, longest=63)  # 256 tokens are more than four times that
    got = engine.prefill(*pair, prompt["tokens"], settings, predict=1, rates=far)
    assert got.decision.status == "active" and got.decision.numbers["predicted_dense_ms"] == 256
    fast = replace(slow, draft=Rate(0.0, 0.25, 0.0))
    got = engine.prefill(*pair, prompt["tokens"], settings, predict=1, rates=fast)
    numbers = got.decision.numbers
    assert got.decision.status == "active" and numbers["predicted_dense_ms"] == 256
    assert numbers["predicted_kept_tokens"] == got.selection.kept_tokens
    assert numbers["predicted_sparse_ms"] == 64 + got.selection.kept_tokens


def test_a_prompt_beyond_the_draft_s_context(pair, prompt, dense, monkeypatch):
    monkeypatch.setattr(pair[1], "config", replace(pair[1].config, context_length=200))
    got = engine.prefill(*pair, prompt["tokens"], Settings(preset="auto"), predict=2)
    assert got.decision.status == "fell_back_dense" and got.tokens == dense
    assert "256 tokens and 8 to follow, expected at most 200" in got.decision.reason
    with pytest.raises(SpvkError, match="expected at most 200"):
        engine.prefill(*pair, prompt["tokens"], Settings(mode="always"), predict=2)
    windowed = engine.prefill(*pair, prompt["tokens"], Settings(mode="always", window=128), predict=2)
    assert windowed.decision.status in ("active", "kept_all")


def test_a_cap_below_the_protected_tokens(pair, prompt, dense):
    """The cap is the caller's, how much is protected is the prompt's: mode auto reads everything."""
    for mode in ("auto", "always"):
        settings = Settings(mode=mode, select="chunk", max_keep=50)
        structure = structure_of(pair, prompt, settings, [(30, 100)])
        if mode == "always":
            with pytest.raises(SpvkError, match="max_keep: found 50, expected at least 76"):
                engine.prefill(*pair, prompt["tokens"], settings, predict=2, structure=structure)
        else:
            got = engine.prefill(*pair, prompt["tokens"], settings, predict=2, structure=structure)
            assert got.decision.status == "fell_back_dense" and got.tokens == dense
            assert "max_keep: found 50, expected at least 76" in got.decision.reason


# -- what is kept, and where it stands ---------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["v3", "paper", "auto"])
def test_protected_ranges_survive(pair, prompt, preset):
    settings = Settings(preset=preset, mode="always", select="chunk", keep=0.05)
    ranges = [(7, 9), (100, 140), (255, 256)]
    wanted = np.concatenate([np.arange(*r) for r in ranges])
    free = engine.prefill(*pair, prompt["tokens"], settings, predict=1)
    got = engine.prefill(
        *pair, prompt["tokens"], settings, predict=1, structure=structure_of(pair, prompt, settings, ranges)
    )
    assert not np.isin(wanted, free.selection.positions).all()
    assert np.isin(wanted, got.selection.positions).all() and got.decision.status == "active"
    assert got.decision.numbers["protected"]["caller"] == wanted.size


def test_renumbered_positions_are_others(pair, prompt, monkeypatch):
    """The last logits are those of kept tokens and answer at 0 to K, or at their own positions and N."""
    last = []

    class Watched(Session):
        def close(self):
            last.append(self.logits())
            super().close()

    monkeypatch.setattr(engine, "Session", Watched)
    run = {}
    for where in ("original", "renumber"):
        got = engine.prefill(*pair, prompt["tokens"], Settings(**CHUNK, positions=where), predict=3)
        run[where] = got, last[-1]
    kept = run["original"][0].selection.positions
    assert run["renumber"][0].selection.positions.tolist() == kept.tolist()
    for where, places in (("original", np.r_[kept, 256, 257]), ("renumber", np.arange(len(kept) + 2))):
        got, logits = run[where]
        tokens = np.r_[np.array(prompt["tokens"])[kept], got.tokens[:2]]
        want = engine.dump(pair[0], tokens, places)["logits"][0]
        assert np.abs(logits - want).max() < 1e-4
    assert np.abs(run["original"][1] - run["renumber"][1]).max() > 1e-2


@pytest.mark.parametrize("options", [CHUNK, {"select": "mass", "mass": 0.5}, {"preset": "paper"}, AUTO])
def test_the_selection_is_the_same_at_any_batch_size_and_every_time(device, pair, prompt, options):
    settings = Settings(**options)
    structure = structure_of(pair, prompt, settings)

    def select(draft, batch):
        run = engine.prefill(
            pair[0], draft, prompt["tokens"], settings, predict=1, batch=batch, structure=structure
        )
        assert run.decision.status == "active"
        return run.selection

    first = select(pair[1], 512)
    assert first.sha256 == hashlib.sha256(first.positions.astype("<i4").tobytes()).hexdigest()
    others = [select(pair[1], batch) for batch in (1, 7, 64, 255, 256, 512)]
    with Model(device, DRAFT) as again:
        others.append(select(again, 512))
    for other in others:
        assert other.positions.tolist() == first.positions.tolist() and other.sha256 == first.sha256


def test_the_paper_reduces_the_rows_head_by_head(pair, prompt):
    settings = Settings(preset="paper")
    everything = engine.dump(pair[1], prompt["tokens"], lookahead=7)
    rows = [everything[f"attn_rows_step{i}"] for i in range(8)]
    want = reduce_rows(rows, 256, softmax="prompt", width=13)
    got = engine.score(pair[1], prompt["tokens"], settings)
    assert np.allclose(got, want, rtol=0, atol=1e-7)
    assert np.abs(got - engine.score(pair[1], prompt["tokens"], Settings(lookahead=7))).max() > 1e-3


# -- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def prefill(spvk, device, monkeypatch, tmp_path):
    """Run `spvk prefill` with the pair on the suite's device; returns (report, standard error)."""
    monkeypatch.setattr(job, "Device", lambda wanted: nullcontext(device))
    monkeypatch.setattr(job, "cache_dir", lambda: tmp_path / "cache")
    np.save(tmp_path / "tokens.npy", exact(DRAFT)["n257/tokens"])

    def run(*args, target=TARGET, draft=DRAFT, source=("--tokens", tmp_path / "tokens.npy")):
        status, out, err = spvk(
            "prefill", "-m", target, "-md", draft, *source, "-n", "1", "--json", "-", *args
        )
        assert status == 0, err
        return json.loads(out), err

    return run


def test_the_terminal_says_why(prefill):
    report, err = prefill("--mode", "auto", "--min-tokens", "300")
    assert report["status"] == "skipped_min_tokens" and report["settings"]["mode"] == "auto"
    assert report["reason"] == "257 tokens, sparse prefill begins at 300"
    assert report["numbers"] == {"prompt_tokens": 257, "min_tokens": 300}
    lines = [" ".join(line.split()) for line in err.splitlines()]
    assert "kept 257 tokens, 100.0 %, in 1 span (skipped_min_tokens)" in lines
    assert "decision 257 tokens, sparse prefill begins at 300" in lines
    assert not any(line.startswith(("score", "select")) for line in lines)


def test_tools_in_the_prompt(prefill):
    text = "<tool_call> what is the code of the red door ? " * 8
    pair = {"target": TINY, "draft": TINY, "source": ("--raw", "-p", text)}
    report, _ = prefill("--mode", "auto", "--min-tokens", "0", **pair)
    assert report["status"] == "skipped_tool_guard"
    assert report["numbers"]["evidence"] == "'<tool_call>' in the first 256 tokens"
    report, _ = prefill(
        "--mode", "auto", "--min-tokens", "0", "--tool-guard", "off", "--min-confidence", "0", **pair
    )
    assert report["status"] in ("active", "kept_all")


def test_runs_are_remembered_and_predicted_by(prefill, tmp_path):
    auto = ("--preset", "auto", "--min-confidence", "0")
    report, err = prefill(*auto, "--batch", "64")  # another batch: not remembered
    assert report["status"] == "active" and not (tmp_path / "cache").exists()
    report, err = prefill(*auto)
    assert report["status"] == "active" and "predicted_dense_ms" not in report["numbers"]
    assert "as predicted" not in err
    records = json.loads((tmp_path / "cache" / "rates.json").read_text())["records"]
    (prefilled,) = next(rows for key, rows in records.items() if key.endswith("/prefill"))
    (scored,) = next(rows for key, rows in records.items() if key.endswith("/score"))
    times = report["timings"]
    assert prefilled == [
        1,
        report["kept_tokens"],
        report["kept_tokens"] ** 2,
        pytest.approx(times["prefill_ms"], abs=1e-3),
    ]
    assert scored == [9, 257, 257**2, pytest.approx(times["score_ms"] + times["select_ms"], abs=2e-3)]
    report, err = prefill(*auto, "--break-even-safety", "1000")
    assert report["status"] == "skipped_break_even" and "as predicted" in err
    assert report["numbers"]["predicted_score_ms"] == pytest.approx(scored[3], rel=1e-3)
    report, err = prefill(*auto, "--break-even", "0")
    assert report["status"] == "active" and report["numbers"]["predicted_dense_ms"] > 0


def test_a_broken_draft_in_mode_auto(prefill, tmp_path):
    broken = broken_draft(tmp_path / "broken.gguf")
    report, err = prefill("--mode", "auto", draft=broken)
    whole, _ = prefill("--mode", "off")
    assert report["status"] == "fell_back_dense" and "layer 1 (blk.1)" in report["reason"]
    assert report["tokens"] == whole["tokens"] and report["selection_sha256"] == whole["selection_sha256"]
    assert f"decision             {report['reason']}" in err


def test_a_decision_that_needs_no_draft_loads_none(prefill, monkeypatch, tmp_path):
    monkeypatch.setattr(job, "open_draft", lambda *_: pytest.fail("the draft was loaded"))
    report, err = prefill("--min-tokens", "1000")
    assert report["status"] == "skipped_min_tokens" and report["settings"]["mode"] == "auto"
    assert report["draft"] == str(DRAFT) and report["timings"]["score_ms"] == 0
    assert report["tokens"] == prefill("--mode", "off")[0]["tokens"]
    with pytest.raises(AssertionError, match="its vocabulary differs"):  # it is looked at all the same
        prefill("--min-tokens", "1000", draft=TINY)


def test_protected_ranges_and_presets(prefill, monkeypatch):
    monkeypatch.setenv("SP_PRESET", "auto")
    report, _ = prefill("--mode", "always", "--keep", "0.05", "--protect", "100:140", "--protect", "7:9")
    assert report["settings"]["edges"] == "snapped" and report["settings"]["protect"] == "on"
    assert [span for span in report["protected_spans"] if span[2] == "caller"] == [
        [7, 9, "caller"],
        [100, 140, "caller"],
    ]
    kept = {i for start, end in report["kept_spans"] for i in range(start, end)}
    assert kept >= {7, 8, *range(100, 140)} and len(kept) < 100
    report, _ = prefill("--preset", "paper", "--protect", "off", "--positions", "renumber")
    assert (report["settings"]["pool"], report["settings"]["protect"]) == (13, "off")
    assert report["settings"]["positions"] == "renumber" and report["protected_spans"] == []


BAD = [
    ("--preset", "best", "auto, v3, paper"),
    ("--mode", "sometimes", "always, off, auto"),
    ("--select", "most", "mass, chunk, adaptive"),
    ("--edges", "round", "fixed, pooled, peaks"),
    ("--normalise", "log", "minmax, percentile, zscore"),
    ("--softmax", "some", "all, prompt"),
    ("--positions", "new", "original, renumber"),
    ("--tool-guard", "maybe", "skip, protect, off"),
    ("--keep", "1.01", "a number in (0, 1]"),
    ("--keep", "0", "a number in (0, 1]"),
    ("--keep", "-0.1", "a number in (0, 1]"),
    ("--keep", "nan", "a number in (0, 1]"),
    ("--keep-floor", "0.9", "at most 0.5, the ceiling"),
    ("--keep-ceiling", "0.1", "at least 0.2, the floor"),
    ("--code-floor", "nan", "a number in (0, 1]"),
    ("--min-confidence", "-1", "a number in [0, 1]"),
    ("--chunk", "0", "a whole number from 1"),
    ("--pool", "4", "an odd number from 1"),
    ("--lookahead", "-1", "a whole number from 0"),
    ("--min-tokens", "many", "a whole number from 0"),
    ("--last-user", "1.5", "a whole number from 0"),
    ("--guard-first", "-1", "a whole number from 0"),
    ("--boost-last", "0", "a number in (0, 1000]"),
    ("--spec-throughput", "0", "a number in (0, 1e+09]"),
    ("--break-even", "x", "a whole number from 0"),
    ("--break-even-safety", "0", "a number in (0, 1000]"),
    ("--protect", "all", "START:END (START < END), on or off"),
    ("--protect", "9:9", "START:END (START < END), on or off"),
    ("--protect", "5", "START:END (START < END), on or off"),
]


@pytest.mark.parametrize("flag, value, expected", BAD)
def test_bad_values(spvk, flag, value, expected):
    result = spvk("prefill", "-m", "absent.gguf", "-md", "absent.gguf", "-p", "a", flag, value)
    refused(result, flag, value, expected)


def test_bad_ranges(spvk, device, monkeypatch, tmp_path):
    monkeypatch.setattr(job, "Device", lambda wanted: nullcontext(device))
    np.save(tmp_path / "t.npy", exact(DRAFT)["n257/tokens"])
    run = ("prefill", "-m", TARGET, "-md", DRAFT, "--tokens", tmp_path / "t.npy", "--protect")
    refused(spvk(*run, "0:258"), "protect[0]: found [0, 258)", "end <= 257")
    refused(spvk(*run, "5:9", "--protect", "8:12"), "protect[1]: found [8, 12)", "no overlap with [5, 9)")


def test_the_readme_has_every_option_with_its_variable_and_default():
    lines = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip(" `") for cell in line.split("|")[1:4]] for line in lines if line.startswith("| `--")]
    assert rows == [[flag_of(f.name), f.metadata["variable"] or "", default_of(f)] for f in fields(Settings)]

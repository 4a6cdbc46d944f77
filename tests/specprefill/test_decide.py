"""Every status, on and across its edge, with the numbers behind it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from specprefill.plain import v3
from spvk.errors import SpvkError
from spvk.specprefill import Prediction, Settings, Timings, choose, decide, keep_all, report_dict
from spvk.specprefill.decide import STATUSES, Decision
from spvk.specprefill.protect import Structure
from spvk.specprefill.text import Kind

AUTO = Settings(preset="auto", edges="peaks", chunk=32)  # edges that are easy to foresee
V3 = v3(mode="always")


def scores(n=640, peak=1.0):
    values = np.full(n, 0.1)
    values[n // 2] = peak
    return values


def tools(n=640, evidence="a tool call in message 1"):
    return Structure(np.zeros(n, np.int8), tools=evidence)


def prediction(dense, sparse):
    return Prediction(dense, sparse, sparse / 4, 100)


# --- before scoring ---


def test_disabled():
    got = decide.before(640, Settings(preset="auto", mode="off"))
    assert got == Decision("disabled", "mode is off", {"prompt_tokens": 640})


def test_skipped_min_tokens():
    got = decide.before(255, AUTO)
    numbers = {"prompt_tokens": 255, "min_tokens": 256}
    assert got == Decision("skipped_min_tokens", "255 tokens, sparse prefill begins at 256", numbers)
    assert decide.before(256, AUTO) is None
    assert decide.before(1, Settings(preset="auto", min_tokens=0)) is None


def test_skipped_tool_guard():
    got = decide.before(640, AUTO, tools())
    assert (got.status, got.reason) == ("skipped_tool_guard", "a tool call in message 1; tool guard is skip")
    assert got.numbers == {"prompt_tokens": 640, "evidence": "a tool call in message 1"}
    assert decide.before(640, AUTO, tools(evidence=None)) is None
    for guard in ("protect", "off"):
        assert decide.before(640, Settings(preset="auto", tool_guard=guard), tools()) is None


def test_skipped_break_even_by_prediction():
    got = decide.before(640, AUTO, None, prediction(100.0, 130.0))
    assert (got.status, got.reason) == ("skipped_break_even", "sparse would take 130 ms, dense 100 ms")
    assert got.numbers == {
        "prompt_tokens": 640, "break_even_safety": 1.0, "predicted_dense_ms": 100.0,
        "predicted_sparse_ms": 130.0, "predicted_score_ms": 32.5, "predicted_kept_tokens": 100,
    }  # fmt: skip
    assert decide.before(640, AUTO, None, prediction(100.0, 100.0)).status == "skipped_break_even"
    assert decide.before(640, AUTO, None, prediction(100.0, 99.9)) is None


def test_nothing_measured_declines_nothing():
    assert decide.before(10**6, AUTO, None, None) is None


def test_safety_asks_for_a_margin():
    careful = Settings(preset="auto", break_even_safety=1.2)
    assert decide.before(640, careful, None, prediction(120.0, 99.0)) is None
    got = decide.before(640, careful, None, prediction(120.0, 100.0))
    assert got.reason == "sparse would take 100 ms x 1.2 for safety, dense 120 ms"
    bold = Settings(preset="auto", break_even_safety=0.5)
    assert decide.before(640, bold, None, prediction(120.0, 200.0)) is None


def test_a_break_even_that_was_set_beats_the_prediction():
    settings = Settings(preset="auto", break_even=1000)
    got = decide.before(999, settings, None, prediction(100.0, 1.0))
    assert (got.status, got.reason) == ("skipped_break_even", "999 tokens, break-even was set to 1000")
    assert got.numbers == {"prompt_tokens": 999, "break_even_safety": 1.0, "break_even": 1000}
    assert decide.before(1000, settings, None, prediction(1.0, 100.0)) is None
    safe = Settings(preset="auto", break_even=1000, break_even_safety=1.5)
    assert decide.before(1499, safe).reason == "1499 tokens, break-even was set to 1500"
    assert decide.before(1500, safe) is None
    assert decide.before(640, Settings(preset="auto", break_even=0), None, prediction(1.0, 100.0)) is None


def test_mode_always_skips_nothing():
    assert decide.before(1, V3, tools(), prediction(1.0, 100.0)) is None
    assert decide.before(1, replace(V3, break_even=100)) is None


# --- after ---


def test_active():
    got = decide.after(choose(scores(), AUTO), AUTO, Structure(np.zeros(640, np.int8)), prediction(9.0, 3.0))
    assert got.is_sparse and (got.status, got.reason) == ("active", "kept 134 of 640 tokens (20.9 %)")
    assert got.numbers == {
        "prompt_tokens": 640, "kept_tokens": 134, "keep": 0.2, "chunks": 20, "spread": pytest.approx(0.05),
        "confidence": 0.9, "min_confidence": 0.2, "protected": {}, "kind": "prose", "code_share": 0.0,
        "predicted_dense_ms": 9.0, "predicted_sparse_ms": 3.0, "predicted_score_ms": 0.75,
        "predicted_kept_tokens": 100,
    }  # fmt: skip


def test_mode_always_says_active_with_few_numbers():
    settings = v3(mode="always", select="chunk")
    got = decide.after(choose(scores(peak=9.0), settings), settings)
    assert got.status == "active" and got.numbers == {"prompt_tokens": 640, "kept_tokens": 194}


def test_kept_all():
    settings = Settings(preset="auto", keep=1.0)
    got = decide.after(choose(np.ones(640), settings), settings)
    assert (got.status, got.reason, got.is_sparse) == ("kept_all", "all 640 tokens were kept", False)
    everything = Structure(np.full(640, 3, np.int8))
    assert decide.after(choose(scores(), AUTO, everything), AUTO, everything).status == "kept_all"


@pytest.mark.parametrize("peak, trusted", [(0.1, False), (0.1249, False), (0.126, True)])
def test_flat_scores_fall_back(peak, trusted):
    got = decide.after(choose(scores(peak=peak), AUTO), AUTO)
    assert got.status == ("active" if trusted else "fell_back_dense")
    assert got.numbers["confidence"] == pytest.approx(1 - 0.1 / peak)
    if not trusted:
        shown = f"{1 - 0.1 / peak:.3f}"
        assert got.reason == f"flat scores: confidence {shown}, expected at least 0.2"
    trusting = Settings(preset="auto", min_confidence=0)
    assert decide.after(choose(scores(peak=peak), trusting), trusting).status == "active"
    always = Settings(preset="auto", mode="always")
    assert decide.after(choose(scores(peak=peak), always), always).status == "active"


@pytest.mark.parametrize("settings", [AUTO, V3], ids=["auto", "v3"])
def test_a_lost_protected_token_falls_back_in_every_mode(settings):
    structure = Structure(np.repeat([0, 3, 0], [10, 5, 625]).astype(np.int8))
    careless = choose(scores(peak=9.0), v3(select="chunk", keep=0.05))
    got = decide.after(careless, settings, structure)
    assert got.status == "fell_back_dense"
    assert got.reason == "protected token 10 (system) was dropped, 5 of 5 protected tokens in all"
    assert got.numbers["lost"] == {"token": 10, "reason": "system", "lost": 5, "protected": 5}
    assert got.numbers["protected"] == {"system": 5}


def test_failed_scoring_falls_back():
    error = SpvkError("blk.3: found NaN,\nexpected finite")
    got = decide.failed(error, 640)
    reason = "scoring failed: blk.3: found NaN, expected finite"
    assert got == Decision("fell_back_dense", reason, {"prompt_tokens": 640})
    assert decide.failed(MemoryError(), 1).reason == "scoring failed: MemoryError"


def test_the_tests_above_reach_every_status():
    flat, one = choose(np.ones(640), AUTO), Settings(preset="auto", keep=1.0)
    reached = [
        decide.after(choose(scores(), AUTO), AUTO),
        decide.after(choose(scores(), one), one),
        decide.before(640, v3(mode="off")),
        decide.before(5, AUTO),
        decide.before(640, AUTO, tools()),
        decide.before(640, AUTO, None, prediction(1.0, 2.0)),
        decide.after(flat, AUTO),
    ]
    assert tuple(d.status for d in reached) == STATUSES
    for d in reached:
        assert d.reason and "\n" not in d.reason
        assert json.loads(json.dumps(d.as_dict())) == d.as_dict()


# --- the report ---


def test_the_report_has_the_decision_and_the_protected_spans():
    structure = Structure(np.repeat([7, 3, 0], [2, 3, 635]).astype(np.int8), kind=Kind("code", 0.5))
    decision = decide.before(640, AUTO, None, prediction(1.0, 2.0))
    names = {"text": "a", "target": "t", "draft": "d", "device": "gpu"}
    got = report_dict(keep_all(640, AUTO), AUTO, Timings(), tokens=[1], **names, decision=decision,
                      structure=structure)  # fmt: skip
    assert json.loads(json.dumps(got)) == got
    assert got["status"] == "skipped_break_even" and got["kept_tokens"] == 640
    assert got["reason"] == decision.reason and got["numbers"] == decision.numbers
    assert got["protected_spans"] == [[0, 2, "control"], [2, 5, "system"]]
    assert got["settings"]["preset"] == "auto"

"""The report: its keys, statuses and times."""

from __future__ import annotations

import json

import numpy as np
import pytest

from specprefill.plain import v3
from spvk.specprefill import Timings, keep_all, report_dict, select, status_of

TIMES = Timings(load_ms=1000.0, score_ms=20.25, select_ms=0.5, prefill_ms=100.0004, decode_ms=40.0)


def report(selection, settings, **changes):
    fields = {"tokens": [], "text": "", "target": "t.gguf", "draft": "d.gguf", "device": "gpu"} | changes
    return report_dict(selection, settings, TIMES, **fields)


def test_ttft_has_scoring_in_it_and_loading_not():
    assert TIMES.ttft_ms == 20.25 + 0.5 + 100.0004
    assert TIMES.as_dict() == {
        "load_ms": 1000.0,
        "score_ms": 20.25,
        "select_ms": 0.5,
        "prefill_ms": 100.0,
        "decode_ms": 40.0,
        "ttft_ms": 120.75,
    }
    assert Timings().ttft_ms == 0.0


def test_the_whole_report_survives_json():
    settings = v3(select="chunk", keep=0.5)
    selection = select(np.repeat([1.0, 9.0, 2.0, 3.0], 32), settings)
    got = report(
        selection, settings, tokens=np.array([5, 7], np.int32), text="é", target={"file": "t"}, draft=None
    )
    assert json.loads(json.dumps(got)) == got == {
        "status": "active",
        "prompt_tokens": 128,
        "kept_tokens": 68,
        "kept_fraction": 68 / 128,
        "kept_spans": [[0, 4], [32, 64], [96, 128]],
        "selection_sha256": selection.sha256,
        "tokens": [5, 7],
        "text": "é",
        "timings": TIMES.as_dict(),
        "settings": settings.as_dict(),
        "target": {"file": "t"},
        "draft": None,
        "device": "gpu",
        "precision": "exact",
        "cache_type": "f32",
    }
    assert list(got)[:6] == [
        "status", "prompt_tokens", "kept_tokens", "kept_fraction", "kept_spans", "selection_sha256"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "n, settings, status",
    [
        (320, v3(), "active"),
        (5, v3(), "kept_all"),
        (320, v3(select="chunk", keep=1.0), "kept_all"),
        (320, v3(mode="off"), "disabled"),
        (5, v3(mode="off"), "disabled"),
    ],
)
def test_statuses(n, settings, status):
    selection = keep_all(n, settings) if settings.mode == "off" else select(np.ones(n), settings)
    assert status_of(selection, settings) == report(selection, settings)["status"] == status

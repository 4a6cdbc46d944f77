"""What is done before the clock runs: every pipeline compiled and launched, and nothing left behind."""

import numpy as np
import pytest

from models import DRAFT, TARGET, prompts
from spvk import prepare as module
from spvk.model import Model
from spvk.models.builder import Capture, Gaps
from spvk.prepare import prepare
from spvk.session import Session
from spvk.vulkan import Commands, Device

CONTEXT, BATCH = 300, 96


@pytest.fixture
def model():
    """On a device of its own, which has compiled nothing yet."""
    with Device() as device, Model(device, TARGET) as model:
        yield model


@pytest.fixture
def launched(monkeypatch) -> list:
    """The dispatches of every recording that is run."""
    found, run = [], Commands.run
    monkeypatch.setattr(Commands, "run", lambda self: found.extend(self.recording) or run(self))
    return found


@pytest.mark.parametrize("gaps", [Gaps(), Gaps(1, "typical")])
def test_no_pipeline_is_new_to_a_session_that_was_prepared_for(model, launched, gaps):
    capture = Capture(importance=True, rows=True, hidden=True)
    prepare(model, CONTEXT, BATCH, capture, gaps)
    ready = {d.pipeline for d in launched}
    assert ready == set(model.device.pipelines) == model.device.launched
    assert len(launched) == len(ready) and all(d.groups == (1, 1, 1) for d in launched)
    with Session(model, CONTEXT, BATCH, capture, gaps=gaps) as session:
        parts = ("whole", "dense", "gather", "kept") if gaps.dense_layers else ("whole",)
        for rows, last, part in ((r, x, p) for r in (1, 16, 64, BATCH) for x in (True, False) for p in parts):
            assert {d.pipeline for d in session.recording(rows, last, part)} <= ready


def test_what_is_ready_is_not_launched_again(model, launched, monkeypatch):
    prepare(model, CONTEXT, BATCH)
    before = list(launched)
    prepare(model, CONTEXT + 1, BATCH)
    monkeypatch.delattr(module, "Session")  # none is opened
    prepare(model, CONTEXT, BATCH)
    assert launched == before


def test_the_first_run_gives_what_it_gives_unprepared():
    tokens = prompts(256, 1, 1)[0]["tokens"]
    found = []
    for ready in (False, True):
        with Device() as device, Model(device, DRAFT) as draft:
            if ready:
                prepare(draft, CONTEXT, BATCH, Capture(importance=True))
            with Session(draft, CONTEXT, BATCH, Capture(importance=True)) as session:
                session.prefill(tokens)
                found.append((session.logits(), session.importance()))
    for unprepared, prepared in zip(*found):
        np.testing.assert_array_equal(unprepared, prepared)

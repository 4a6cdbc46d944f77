"""Before the clock runs: pipelines are compiled, several at a time, and each is launched once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .model import Model
from .models.builder import Capture, Gaps
from .recording import Dispatch, PipelineKey, Recording
from .session import Session, name_buffers, record, recording_sizes


def prepare(
    model: Model, context: int, batch: int, capture: Capture = Capture(), gaps: Gaps = Gaps()
) -> None:
    """Make ready every kernel that such a session may need, so that its first run costs what the later ones do.

    A pipeline is not always code: some drivers (lavapipe) translate it when it first runs.
    """
    batch = min(batch, context)
    buffers = name_buffers(model, context, batch, capture, gaps)
    recording = [
        d
        for rows, part in parts(batch, gaps)
        for d in record(model, buffers, context, rows, capture, True, gaps, part)
    ]
    fresh = pipelines(recording).keys() - model.device.launched
    if fresh:
        model.device.compile(recording)
        # A short context will do, but no power of two: lavapipe has code of its own for views of such sizes.
        with Session(model, min(context, batch + 1), batch, capture, gaps=gaps) as session:
            launch_once(session, fresh)


def parts(batch: int, gaps: Gaps) -> Iterable[tuple[int, str]]:
    """(rows, part) of the recordings that have all of a session's pipelines between them."""
    names = ("whole", "gather") if gaps.dense_layers else ("whole",)  # the others have the whole's
    return ((rows, part) for rows in sorted(recording_sizes(batch)) for part in names)


def pipelines(recording: Recording) -> dict[PipelineKey, Dispatch]:
    """A dispatch for each pipeline of a recording."""
    return {d.pipeline: d for d in reversed(recording)}


def launch_once(session: Session, wanted: set[PipelineKey]) -> None:
    """Run one workgroup of each pipeline that is `wanted`, on one token of an otherwise unused session.

    What only a longer context needs (a GPU's merged attention) is not run: its driver has compiled it.
    """
    found: dict[PipelineKey, Dispatch] = {}
    for rows, part in parts(session.batch, session.gaps):
        found |= pipelines(session.recording(rows, True, part))
    once = [replace(d, groups=(1, 1, 1), flops=0) for key, d in found.items() if key in wanted]
    session.run_once(once)
    session.model.device.launched |= wanted

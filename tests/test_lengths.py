"""bench/lengths.py: every dispatch is counted where it belongs, the tables, the growth beyond linear, errors."""

import json

import pytest

import lengths
from models import TINY
from spvk.model import Model
from spvk.models.builder import Capture
from spvk.session import Session


def cost(seconds, calls=1, flops=0):
    return lengths.Cost(calls, seconds, flops)


@pytest.fixture(scope="module")
def model(device):
    with Model(device, TINY) as m:
        yield m


def test_every_dispatch_is_counted(model):
    """100 tokens in batches of 40: two without the output head, one with it and the scores."""
    found = lengths.measure(model, 100, 40, 2, 1)
    with Session(model, 103, 40, Capture(importance=True)) as session:
        wanted = [*2 * session.recording(40, False), *session.recording(40, True)]
        step = session.recording(1, True)
    for costs, recording in ((found.prefill, wanted), (found.decode, step)):
        assert sum(c.calls for c in costs.values()) == len(recording)
        assert sum(c.flops for c in costs.values()) == sum(d.flops for d in recording if lengths.sizes(d))
        assert all(c.seconds > 0 for c in costs.values())
    assert found.prefill["score_accumulate"].calls == 1 and found.length == 100


def test_the_faster_round_counts():
    rounds = {"a": cost(2), "b": cost(1)}, {"a": cost(1), "b": cost(3)}
    assert lengths.least(lengths.least({}, rounds[0]), rounds[1]) == {"a": cost(1), "b": cost(1)}


CURVE = [
    lengths.Measured(
        100, {"matmul.q4_k.lanes 8x8": cost(1e-3), "attention": cost(1e-4), "score_max": cost(1e-5)}
    ),
    lengths.Measured(
        400, {"matmul.q4_k.lanes 8x8": cost(4e-3), "attention": cost(1.6e-3), "score_max": cost(4e-5)}
    ),
]


def test_growth_beyond_linear_is_attentions():
    assert lengths.growth(CURVE) == pytest.approx({"matmul": 0, "attention": 1.2e-3, "score_max": 0})


def test_lengths_table():
    for measured, ms in zip(CURVE, (2e-3, 3e-3)):
        measured.decode = {"matvec.q4_k.lanes 8x8": cost(ms)}
    assert lengths.lengths_table(CURVE) == [
        "| µs/token            |  100 |  400 | s beyond linear at 400 |",
        "| ------------------- | ---: | ---: | ---------------------: |",
        "| matmul              | 10.0 | 10.0 |                 +0.000 |",
        "| attention           |  1.0 |  4.0 |                 +0.001 |",
        "| score_max           |  0.1 |  0.1 |                 +0.000 |",
        "| dense prefill       | 11.0 | 14.0 |                 +0.001 |",
        "| with scores         | 11.1 | 14.1 |                 +0.001 |",
        "| ms a lookahead step | 2.00 | 3.00 |                        |",
    ]


def test_modules_table():
    costs = {"rms_norm": cost(1e-3, 4), "matmul.q4_k.lanes 8x8": cost(3e-3, 2, 6_000_000)}
    assert lengths.modules_table("prefill", costs) == [
        "| prefill               | calls |   ms |     % | GFLOP/s |",
        "| --------------------- | ----: | ---: | ----: | ------: |",
        "| matmul.q4_k.lanes 8x8 |     2 | 3.00 |  75.0 |     2.0 |",
        "| rms_norm              |     4 | 1.00 |  25.0 |         |",
        "| all                   |     6 | 4.00 | 100.0 |         |",
    ]


def test_the_program(capsys, tmp_path):
    out = tmp_path / "costs.json"
    assert lengths.main(["-m", str(TINY), "-p", "8", "--lookahead", "1", "--json", str(out)]) == 0
    text = capsys.readouterr().out
    assert "| prefill of 8 " in text and "| a decode step after 8 " in text
    (row,) = json.loads(out.read_text())
    assert row["length"] == 8 and row["decode"]["score_accumulate"]["calls"] == 1


@pytest.mark.parametrize(
    "options, words",
    [
        (["-m", "/no/such.gguf"], "/no/such.gguf: file: found No such file"),
        (["-m", str(TINY), "-p", "0,8"], "-p: found 0, expected lengths from 1 up"),
        (["-m", str(TINY), "-p", "9" * 9], "-p: 999999999 with its lookahead makes 1000000008 tokens, expected"),
        (["-m", str(TINY), "-p", "8", "-b", "0"], "-b: found 0, expected at least 1"),
        (["-m", str(TINY), "-p", "8", "-r", "0"], "-r: found 0, expected at least 1"),
    ],
)
def test_what_goes_wrong_is_one_line(capsys, options, words):
    try:
        status = lengths.main(options)
    except SystemExit as stop:
        status = stop.code
    assert status == 2 and words in capsys.readouterr().err.splitlines()[-1]

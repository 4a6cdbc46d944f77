"""bench/cost_model.py: rounds and medians, whose records predict, the table, errors. No assertion about speed."""

import json

import pytest

import cost_model
from models import DRAFT, TARGET

DENSE_MS = {64: [40.0, 10.0, 30.0], 128: [80.0, 90.0, 100.0]}
SPARSE_MS = {64: [31.0, 45.0, 50.0], 128: [60.0, 20.0, 50.0]}


class FakePair(cost_model.Pair):
    """Commands that answer at once, and append to the records as the real ones do."""

    def __init__(self, folder):
        super().__init__("t.gguf", "d.gguf", folder, "0")
        (folder / "cache").mkdir()
        self.calls, self.seen, self.left = [], [], {"off": dict(DENSE_MS), "always": dict(SPARSE_MS)}

    def run(self, command, *args):
        assert args[:6] == ("-m", "t.gguf", "-md", "d.gguf", "--device", "0")
        records = self.rates.read_text() if self.rates.exists() else ""
        self.rates.write_text(records + command[0])
        if command == "tune":
            self.calls.append("tune")
            return ""
        self.seen.append(records)
        tokens = int(args[args.index("--tokens") + 1].rsplit("/", 1)[1].removesuffix(".npy"))
        mode = args[args.index("--mode") + 1]
        self.calls.append((mode, tokens))
        if mode == "auto":
            numbers = {"predicted_dense_ms": 1.1 * tokens, "predicted_sparse_ms": 45.0}
            status = "skipped_break_even" if tokens == 64 else "active"
            return json.dumps({"status": status, "numbers": numbers})
        first, *rest = self.left[mode][tokens]
        self.left[mode][tokens] = rest
        return json.dumps({"timings": {"ttft_ms": first}})


def test_rounds_take_turns_and_medians_count(tmp_path):
    pair = FakePair(tmp_path)
    cells = cost_model.measure(pair, [64, 128], [0.5], 3)
    once = ["tune", ("off", 64), ("always", 64), ("off", 128), ("always", 128)]
    assert pair.calls == once * 3 + [("auto", 64), ("auto", 128)]
    assert cells == [
        cost_model.Cell(64, 0.5, 1.1 * 64, 30.0, 45.0, 45.0, "skipped_break_even"),
        cost_model.Cell(128, 0.5, 1.1 * 128, 90.0, 45.0, 50.0, "active"),
    ]


def test_what_tune_measured_alone_predicts(tmp_path):
    pair = FakePair(tmp_path)
    cost_model.measure(pair, [64, 128], [0.5], 3)
    assert pair.seen == ["t"] * 4 + ["tt"] * 4 + ["ttt"] * 6  # no record of a prefill among them


def cell(dense, sparse, status, predicted=(100.0, 60.0)):
    return cost_model.Cell(2048, 0.2, predicted[0], dense, predicted[1], sparse, status)


@pytest.mark.parametrize(
    "dense, sparse, status, right",
    [
        (100, 60, "active", True),
        (100, 60, "skipped_break_even", False),
        (60, 100, "active", False),
        (60, 100, "skipped_break_even", True),
        (60, 60, "skipped_break_even", True),
    ],
)
def test_the_faster_way_is_right(dense, sparse, status, right):
    assert cell(dense, sparse, status).is_right is right


def test_the_table():
    lines = cost_model.table([cell(80.0, 75.0, "active"), cell(1000.0, 1250.0, "active", (950.0, 1000.0))])
    assert [part.strip() for part in lines[2].split("|")[1:-1]] == [
        "2,048, 0.2", "100 ms", "80 ms", "+25 %", "60 ms", "75 ms", "-20 %", "0.94", "sparse"
    ]  # fmt: skip
    assert lines[-1] == "Worst error 25 %. Mode auto took the faster way not in 2,048, 0.2."
    assert cost_model.table([cell(80.0, 75.0, "active")])[-1].endswith("faster way in every cell.")


@pytest.mark.parametrize(
    "args, message",
    [
        (["-m", "a.gguf"], "-m and -md: found one of them, expected both or none"),
        (["-p", "512,x"], "-p: found '512,x', expected numbers from 0 up, with commas between"),
        (["-p", "0"], "-p and -r: found 0 or less, expected numbers from 1 up"),
        (["-r", "0"], "-p and -r: found 0 or less, expected numbers from 1 up"),
        (["-k", "0.2,1.5"], "-k: found '0.2,1.5', expected fractions in (0, 1], with commas"),
        (["-k", "much"], "-k: found 'much', expected fractions in (0, 1], with commas"),
        (["-m", "absent.gguf", "-md", str(DRAFT)], "absent.gguf: file: found No such file or directory"),
        (["-m", str(TARGET), "-md", str(DRAFT), "--device", "none"], "--device none: no such device"),
    ],
)
def test_what_is_wrong_is_one_line(capsys, args, message):
    assert cost_model.main(args) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"cost_model: {message}") and err.count("\n") == 1

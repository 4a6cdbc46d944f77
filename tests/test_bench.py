"""spvk bench: llama-bench's columns and names, counts and lists, errors. No assertion about speed itself."""

import csv
import json
import re
import statistics
from dataclasses import asdict
from itertools import accumulate

import pytest

from models import DRAFT, MIXED, TARGET, TINY
from spvk import bench as module
from spvk.errors import SpvkError
from spvk.gguf import open_gguf
from spvk.model import Model

NAMES = (
    "build_commit build_number cpu_info gpu_info backends model_filename model_type model_size "
    "model_n_params n_batch n_ubatch n_threads type_k type_v n_gpu_layers flash_attn precision n_prompt n_gen n_depth "
    "test_time avg_ns stddev_ns avg_ts stddev_ts samples_ns samples_ts"
).split()
INTEGERS = {n for n in NAMES if n.startswith("n_") or n.endswith("_ns")} - {"samples_ns"} | {
    "build_number",
    "model_size",
    "model_n_params",
    "flash_attn",
}


@pytest.fixture
def steady(monkeypatch):
    """A clock that goes on by 1 ms, 2 ms, 3 ms …; it is read once in a warm-up, twice in a timed run."""
    readings = accumulate(range(0, 10**9, 10**6))
    monkeypatch.setattr(module, "perf_counter_ns", lambda: next(readings))


@pytest.fixture(scope="module")
def tiny(device):
    with Model(device, str(TINY)) as model:
        yield model


def written(found, form):
    """What the command prints of these results, as lines."""
    lines = []
    module.write_rows(iter(found), form, lines.append)
    return "\n".join(lines).splitlines()


def test_json_is_a_list_alone_with_the_names_and_types_of_llama_bench(spvk):
    status, out, err = spvk("bench", "-m", TARGET, "-p", "20", "-n", "2", "-r", "3", "-b", "16", "-o", "json")
    assert status == 0 and "device:" in err
    prompt, gen = json.loads(out)
    for row in (prompt, gen):
        assert list(row) == NAMES
        assert {n for n in NAMES if type(row[n]) is int} == INTEGERS
        assert {n for n in NAMES if type(row[n]) is float} == {"avg_ts", "stddev_ts"}
        assert row["backends"] == "Vulkan" and row["model_filename"] == str(TARGET)
        # what llama-bench says of this file
        assert (row["model_size"], row["model_n_params"]) == (2433408, 3875616)
        assert (row["n_batch"], row["n_ubatch"], row["type_k"], row["type_v"]) == (16, 16, "f32", "f32")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", row["test_time"])
        assert len(row["samples_ns"]) == len(row["samples_ts"]) == 3
    assert (prompt["n_prompt"], prompt["n_gen"], prompt["n_depth"]) == (20, 0, 0)
    assert (gen["n_prompt"], gen["n_gen"], gen["n_depth"]) == (0, 2, 0)


def test_speeds_follow_from_times_and_counts(tiny):
    tests = module.plan([7], [2], [0, 5])
    rows = [asdict(r) for r in module.measure_all(tiny, tests, 2, 512)]
    counts = [(7, 0, 0), (0, 2, 0), (7, 0, 5), (0, 2, 5)]
    assert [(r["n_prompt"], r["n_gen"], r["n_depth"]) for r in rows] == counts
    for row in rows:
        timed = row["n_prompt"] + row["n_gen"]
        assert row["samples_ts"] == pytest.approx([1e9 * timed / ns for ns in row["samples_ns"]])
        assert row["avg_ns"] == pytest.approx(statistics.mean(row["samples_ns"]), abs=1)
        assert row["stddev_ns"] == pytest.approx(statistics.stdev(row["samples_ns"]), abs=1)
        assert row["avg_ts"] == pytest.approx(statistics.mean(row["samples_ts"]))
        assert row["stddev_ts"] == pytest.approx(statistics.stdev(row["samples_ts"]))
        # the mean of the speeds is at least the speed at the mean time
        assert row["avg_ts"] >= 1e9 * timed / row["avg_ns"] * (1 - 1e-6)


def test_one_run_has_no_deviation():
    found = module.statistics(10, [2_000_000])
    assert (found["avg_ns"], found["stddev_ns"]) == (2_000_000, 0)
    assert (found["avg_ts"], found["stddev_ts"]) == (5000.0, 0.0)


def test_the_table_is_llama_benchs(device, steady):
    with Model(device, str(TARGET)) as model:
        found = list(module.measure_all(model, [module.Test(6, 0, 4)], 2, 512))
    header, rule, row, empty, build = written(found, "md")
    assert header == (
        "| model                          |       size |     params | backend    | ngl |            test |"
        "                  t/s |"
    )
    assert rule == (
        "| ------------------------------ | ---------: | ---------: | ---------- | --: | --------------: |"
        " -------------------: |"
    )
    assert row == (  # 6 tokens in 2 ms and in 4 ms
        "| qwen35 3.88M Q4_K - Medium     |   2.32 MiB |     3.88 M | Vulkan     |  -1 |        pp6 @ d4 |"
        "    2250.00 ± 1060.66 |"
    )
    assert empty == "" and build.startswith("build: spvk-")


def test_csv_and_json_lines_hold_the_same_fields(tiny):
    found = list(module.measure_all(tiny, module.plan([3, 4], [0], [0]), 1, 512))
    table = list(csv.DictReader(written(found, "csv")))
    lines = [json.loads(line) for line in written(found, "jsonl")]
    assert lines == json.loads("\n".join(written(found, "json")))
    assert [list(row) for row in lines] == [NAMES] * 2
    assert [list(row) for row in table] == [NAMES[:-2]] * 2
    assert [row["n_prompt"] for row in table] == ["3", "4"] and [row["n_prompt"] for row in lines] == [3, 4]
    for name in ("model_size", "model_type", "gpu_info", "n_threads"):
        assert [row[name] for row in table] == [str(row[name]) for row in lines]


def test_what_is_read_and_in_which_order(tiny, monkeypatch):
    """A warm-up without the depth, then each run from an empty cache: the depth, untimed, and the test."""
    seen = []

    class Recorder(module.Session):
        def reset(self):
            super().reset()
            seen.append("reset")

        def prefill(self, tokens, positions=None):
            seen.append(("prefill", self.past, len(tokens)))
            assert positions is None or list(positions) == list(range(self.past, self.past + len(tokens)))
            return super().prefill(tokens, positions)

        def decode(self, token, position):
            assert position == self.past
            seen.append(("decode", position))
            return super().decode(token, position)

    monkeypatch.setattr(module, "Session", Recorder)
    done = []
    module.measure(tiny, module.Test(5, 0, 3), repeat=2, batch=4, progress=done.append)
    prompt, seen[:] = seen[1:], []  # a session begins with a reset of its own
    module.measure(tiny, module.Test(0, 2, 3), repeat=1, batch=4)
    once = ["reset", ("prefill", 0, 3), ("prefill", 3, 5)]
    assert prompt == ["reset", ("prefill", 0, 5)] + once * 2
    assert seen[1:] == ["reset", ("decode", 0), "reset", ("prefill", 0, 3), ("decode", 3), ("decode", 4)]
    assert done == [1, 2, 3]


def test_plans():
    tests = module.plan([512, 0, 64], [0, 8], [0, 32])
    assert [t.name for t in tests] == ["pp512", "pp64", "tg8", "pp512 @ d32", "pp64 @ d32", "tg8 @ d32"]
    assert module.read_counts("-p", "0") == [0]
    assert module.read_counts("-p", "128,512,128") == [128, 512, 128]


@pytest.mark.parametrize("text", ["", "-1", "1.5", "1,", ",1", "1 2", "x", "1e3", "9" * 5000, "١", "1\n"])
def test_counts_that_are_none(text):
    with pytest.raises(SpvkError, match="-p: found .*, expected numbers from 0 up"):
        module.read_counts("-p", text)


@pytest.mark.parametrize(
    "args, words",
    [
        (("-p", "many"), "-p: found 'many', expected numbers from 0 up, with commas between"),
        (("-n", "3,"), "-n: found '3,'"),
        (("-d", "-4"), "-d: found '-4'"),
        (("-p", "0", "-n", "0,0"), "-p and -n: found 0 alone, expected something to measure"),
        (("-o", "xml"), "-o: found 'xml', expected one of md, json, csv, jsonl"),
        (("-r", "0"), "0 is not in the range x>=1"),
        (("-b", "0"), "0 is not in the range x>=1"),
        (("-p", "1,99999999", "-n", "0"), "pp99999999: 99999999 tokens, expected at most"),
        (("-p", "8", "-n", "0", "-d", "99999999"), "pp8 @ d99999999: 100000007 tokens, expected at most"),
        (("--device", "nothing-of-this-name"), "nothing-of-this-name"),
        (("-m", "no-such.gguf"), "no-such.gguf"),
    ],
)
def test_mistakes_get_one_line(spvk, args, words):
    status, out, err = spvk("bench", "-m", TINY, *args)
    *before, last = err.splitlines()
    assert (status, out) == (2, "") and last.startswith("spvk: ") and words in last
    assert all(line.startswith("device:") for line in before)


def test_model_types():
    assert module.model_type(open_gguf(str(DRAFT))) == f"qwen35 {size_of(DRAFT)} Q4_K - Medium"
    for number, name in ((0, "all F32"), (1, "F16"), (7, "Q8_0"), (14, "Q4_K - Small"), (18, "Q6_K")):
        file = open_gguf(str(TINY))
        file.fields["general.file_type"] = number
        file.fields["general.size_label"] = "0.8B"
        assert module.model_type(file) == f"qwen35 0.8B {name}"


def size_of(path):
    return f"{module.parameters(open_gguf(str(path))) / 1e6:.2f}M"


@pytest.mark.parametrize("number", [None, 999, "Q4_K", [15]])
def test_a_file_without_a_known_mixture_is_named_after_most_of_its_bytes(number):
    file = open_gguf(str(MIXED))
    file.fields["general.file_type"] = number
    nbytes = {}
    for t in file.tensors.values():
        nbytes[t.type.name] = nbytes.get(t.type.name, 0) + t.nbytes
    assert nbytes[module.quantisation(file)] == max(nbytes.values())

"""bench/compare_llamacpp.py: what it starts, how it pairs runs, its table, its errors. Programs are stubs."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "bench" / "compare_llamacpp.py"
spec = importlib.util.spec_from_file_location("compare_llamacpp", SOURCE)
compare = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compare)


def rows(pp, tg, depth=0):
    return [
        {"n_prompt": 512, "n_gen": 0, "n_depth": depth, "avg_ts": pp},
        {"n_prompt": 0, "n_gen": 128, "n_depth": depth, "avg_ts": tg},
    ]


ROUNDS = [(rows(30, 4), rows(20, 8)), (rows(10, 8), rows(20, 8)), (rows(20, 2), rows(20, 8))]


def test_ratios_are_of_the_same_round():
    prompt, gen = compare.summarise(ROUNDS)
    assert prompt == {
        "n_prompt": 512,
        "n_gen": 0,
        "n_depth": 0,
        "spvk_ts": 20,
        "llamacpp_ts": 20,
        "ratio_min": 0.5,
        "ratio_median": 1.0,
        "ratio_max": 1.5,
        "ratios": [1.5, 0.5, 1.0],
    }
    assert gen["ratios"] == [0.5, 1.0, 0.25] and gen["ratio_median"] == 0.5


def test_table():
    assert compare.table(compare.summarise(ROUNDS)) == [
        "| test  | spvk t/s | llama.cpp t/s | ratio min | median |   max |",
        "| ----- | -------: | ------------: | --------: | -----: | ----: |",
        "| pp512 |    20.00 |         20.00 |     0.500 |  1.000 | 1.500 |",
        "| tg128 |     4.00 |          8.00 |     0.250 |  0.500 | 1.000 |",
    ]


def test_order_of_the_other_program_does_not_matter_but_depth_does():
    assert compare.summarise([(rows(1, 2), rows(4, 4)[::-1])])[0]["ratios"] == [0.25]
    with pytest.raises(compare.Failure, match="tg128: not in every run"):
        compare.summarise([(rows(1, 2), rows(1, 2, depth=8))])
    with pytest.raises(compare.Failure, match="tg128: not in every run"):
        compare.summarise([(rows(1, 2), rows(1, 2)), (rows(1, 2), rows(1, 2)[:1])])


def test_both_programs_get_the_same_counts():
    given = "--llama-bench lb -m x.gguf -p 64,128 -n 0 -t 2 -b 256 --precision fast -- -ngl 0"
    args = compare.read_arguments(given.split())
    ours, theirs = compare.commands(args)
    common = ["-m", "x.gguf", "-p", "64,128", "-n", "0", "-d", "0", "-r", "1", "-o", "json"]
    assert ours == [*compare.SPVK, "bench", *common, "-b", "256", "--precision", "fast"]
    assert theirs == ["lb", *common, "-b", "256", "-ub", "256", "-t", "2", "-ngl", "0"]


@pytest.fixture
def stubs(tmp_path, monkeypatch):
    """Both programs as scripts that log their name; returns (path of llama-bench, the log)."""
    log = tmp_path / "log"

    def write(name, body):
        path = tmp_path / name
        note = f"import sys\nopen({str(log)!r}, 'a').write({name!r} + ' ')"
        path.write_text(f"#!{sys.executable}\n{note}\n{body}\n")
        path.chmod(0o755)
        return str(path)

    theirs = write("llama-bench", f"print({json.dumps(json.dumps(rows(20, 8)))})")
    monkeypatch.setattr(compare, "SPVK", [write("spvk", f"print({json.dumps(json.dumps(rows(30, 4)))})")])
    return theirs, log, write


def test_the_programs_take_turns(stubs, capsys):
    theirs, log, _ = stubs
    assert compare.main(["--llama-bench", theirs, "-m", "x.gguf", "-r", "3", "--json", "-"]) == 0
    assert log.read_text().split() == ["spvk", "llama-bench", "llama-bench", "spvk", "spvk", "llama-bench"]
    prompt, gen = json.loads(capsys.readouterr().out)
    assert prompt["ratios"] == [1.5] * 3 and gen["ratios"] == [0.5] * 3


def test_table_and_file(stubs, capsys, tmp_path):
    out = tmp_path / "rows.json"
    assert compare.main(["--llama-bench", stubs[0], "-m", "x.gguf", "-r", "1", "--json", str(out)]) == 0
    assert capsys.readouterr().out.splitlines() == compare.table(json.loads(out.read_text()))


@pytest.mark.parametrize(
    "body, words",
    [
        ("sys.exit('no model\\nat all')", "llama-bench: exit status 1: at all"),
        ("sys.exit(3)", "llama-bench: exit status 3: nothing on standard error"),
        ("print('| model |')", "no list of measurements"),
        ("print('[{\"n_prompt\": 1}]')", "no list of measurements"),
        ("print(3)", "no list of measurements"),
        ("print('[]')", "not in every run"),
    ],
)
def test_what_goes_wrong_is_one_line(stubs, capsys, body, words):
    path = stubs[2]("llama-bench", body)
    assert compare.main(["--llama-bench", path, "-m", "x.gguf", "-r", "1"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("compare_llamacpp: ") and words in err and err.count("\n") == 1


def test_a_program_that_is_not_there(stubs, capsys):
    assert compare.main(["--llama-bench", "/no/such/program", "-m", "x.gguf", "-r", "1"]) == 2
    assert "/no/such/program: No such file or directory, expected a program" in capsys.readouterr().err

"""Prompts and answers from JSONL: what is understood, and what is refused with its line."""

import json

import pytest

from spvk.errors import SpvkError
from spvk.evaluate.prompts import first_of_each_cell, read_prompts
from spvk.evaluate.table import aggregate, markdown


def write(tmp_path, *lines):
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines), encoding="utf-8")
    return str(path)


def read_one(tmp_path, row):
    (question,), _ = read_prompts(write(tmp_path, row))
    return question


def test_token_prompts(tmp_path):
    row = {"id": "a", "len": 4, "facts": 2, "tokens": [5, 6, 7, 8], "answer": [7, 8], "value_pos": 2}
    q = read_one(tmp_path, row)
    assert (q.id, q.cell, q.tokens, q.answer_ids) == ("a", (("len", 4), ("facts", 2)), [5, 6, 7, 8], [7, 8])
    assert q.gold == range(2, 4)  # the answer's ids stand there: all of them count
    assert read_one(tmp_path, {**row, "value_pos": 1}).gold == range(1, 2)
    assert read_one(tmp_path, {"tokens": [1], "answer": [2]}).gold is None
    assert read_one(tmp_path, {**row, "needed_pos": [0, 3]}).needed_pos == (0, 3)


def test_longbench_and_ruler_and_plain_text(tmp_path):
    q = read_one(
        tmp_path, {"input": "Who?", "context": "Text.", "answers": ["A", "B"], "dataset": "qa", "_id": "x"}
    )
    assert (q.text, q.answers, q.all_needed, q.id) == ("Text.\n\nWho?", ("A", "B"), False, "x")
    assert q.cell == (("dataset", "qa"),)
    q = read_one(tmp_path, {"index": 0, "input": "All?", "outputs": ["1", 2], "length": 9})
    assert (q.text, q.answers, q.all_needed, q.id) == ("All?", ("1", "2"), True, "1")
    q = read_one(tmp_path, {"prompt": "P\u2028Q", "answer": "R"})
    assert (q.text, q.answers, q.all_needed) == ("P\u2028Q", ("R",), False)


@pytest.mark.parametrize(
    "line, words",
    [
        ('{"tokens": [1', "not JSON"),
        ("[1, 2]", "found a list, expected an object"),
        ({"answer": [1]}, "no prompt, expected tokens, prompt, context or input"),
        ({"prompt": 5, "answer": "x"}, "prompt: found 5, expected text"),
        ({"prompt": "a\ud800", "answer": "x"}, "prompt: found half of a surrogate pair"),
        ({"prompt": "a", "answer": "x", "id": "\ud800"}, "id: found half of a surrogate pair"),
        ({"prompt": "a", "answers": ["x", "\udfff"]}, "answers: found half of a surrogate pair"),
        ({"prompt": "a", "answer": "x", "len": float("nan")}, "len: found NaN, expected a text or a number"),
        ({"prompt": "x"}, "no answer, expected answer, answers or outputs"),
        ({"prompt": "x", "answers": []}, "answers: found an empty list"),
        ({"prompt": "x", "answers": ["a", None]}, "answers: found null"),
        ({"prompt": "x", "outputs": [" "]}, 'outputs: found " "'),
        ({"tokens": [], "answer": [1]}, "tokens: found an empty list, expected a list of token ids"),
        ({"tokens": [1, True], "answer": [1]}, "tokens: found true, expected token ids"),
        ({"tokens": [1, None], "answer": [1]}, "tokens: found null, expected token ids"),
        ({"tokens": [1], "answer": [-1]}, "answer: found -1, expected token ids"),
        ({"tokens": [1, 2], "answer": [1], "value_pos": 2}, "value_pos: found 2, expected 0 to 1"),
        ({"prompt": "x", "answer": "y", "value_pos": 0}, "value_pos: found with a text"),
        ({"tokens": [1], "answer": [1], "value_pos": 0, "needed_pos": 0}, "needed_pos: found 0, expected a list"),
        ({"tokens": [1], "answer": [1], "value_pos": 0, "needed_pos": [1]}, "needed_pos: found 1, expected 0 to"),
        ({"tokens": [1], "answer": [1], "value_pos": 0, "needed_pos": [None]}, "needed_pos: found null"),
        ({"tokens": [1], "answer": [1], "value_pos": 0, "needed_pos": {}}, "needed_pos: found an empty object"),
        ({"tokens": [1], "answer": [1], "needed_pos": [0]}, "needed_pos: found without value_pos, expected both"),
        ({"tokens": [1], "answer": [1], "len": [3]}, "len: found a list"),
        ({"id": "a", "prompt": "x", "answer": "y"}, "id: found a again"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, words):
    path = write(tmp_path, {"id": "a", "tokens": [1], "answer": [2]}, "", line)
    with pytest.raises(SpvkError) as error:
        read_prompts(path)
    assert f"{path} line 3: {words}" in str(error.value)


def test_bad_files(tmp_path):
    with pytest.raises(SpvkError, match="--prompts .*found no prompts"):
        read_prompts(write(tmp_path, "", " "))
    with pytest.raises(SpvkError, match="expected a JSONL file"):
        read_prompts(str(tmp_path / "none.jsonl"))
    (tmp_path / "latin").write_bytes(b'{"prompt": "\xe9"}')
    with pytest.raises(SpvkError, match="latin line 1: not JSON"):
        read_prompts(str(tmp_path / "latin"))


def test_limit_is_by_cell(tmp_path):
    rows = [{"id": i, "tokens": [1], "answer": [2], "len": i % 2} for i in range(6)]
    questions, _ = read_prompts(write(tmp_path, *rows))
    assert [q.id for q in first_of_each_cell(questions, 2)] == ["0", "1", "2", "3"]
    assert len(first_of_each_cell(questions, None)) == 6


def record(length, policy, exact, **more):
    return {
        "cell": {"len": length},
        "policy": policy,
        "keep": None if policy == "dense" else 0.2,
        "exact": exact,
        "f1": None,
        "contained": None,
        "stated": None,
        "cut": None,
        "survived": exact,
        "top1": None,
        "kl": None,
        "prompt_tokens": 100,
        "kept_tokens": 20,
        "timings": {"ttft_ms": 5.0},
        **more,
    }


def test_the_table_has_a_row_a_cell_and_one_of_all():
    records = [record(1, "dense", True), record(1, "v3", False), record(1, "v3", True), record(2, "v3", True)]
    rows = aggregate(records)
    keys = [(r["cell"], r["policy"], r["prompts"], r["exact"]) for r in rows]
    assert keys == [
        ({"len": 1}, "dense", 1, 1.0),
        ({"len": 1}, "v3", 2, 0.5),
        ({"len": 2}, "v3", 1, 1.0),
        (None, "dense", 1, 1.0),
        (None, "v3", 3, 2 / 3),
    ]
    assert rows[1]["exact_95"] == pytest.approx([0.094531, 0.905469], abs=1e-6)
    assert rows[1]["kept_fraction"] == 0.2 and rows[1]["ttft_ms"] == 5.0


def test_cut_facts_follow_their_cell():
    records = [
        record(1, "v3", True, cut=False),
        record(1, "v3", False, cut=True),
        record(2, "v3", True, cut=True),
    ]
    rows = aggregate(records)
    keys = [(r["cell"], r["fact"], r["prompts"], r["exact"]) for r in rows]
    assert keys == [
        ({"len": 1}, None, 2, 0.5),
        ({"len": 1}, "cut", 1, 0.0),
        ({"len": 2}, None, 1, 1.0),  # all of it is cut: no other row is needed
        (None, None, 3, 2 / 3),
        (None, "cut", 2, 0.5),
    ]
    assert markdown(rows).splitlines()[3].startswith("| 1 | cut | v3 | 0.2 | 1 | 0.0 (0.0–79.3)")


def test_markdown_leaves_out_what_nobody_has():
    text = markdown(aggregate([record("a|b", "v3", True)])).splitlines()
    assert text[0].split(" | ")[:3] == ["| len", "policy", "keep"]
    assert "KL" not in text[0] and "F1" not in text[0]
    assert text[2] == ("| a\\|b | v3 | 0.2 | 1 | 100.0 (20.7–100.0) | 100.0 (20.7–100.0) | 20 (20.0 %) | 5 |")

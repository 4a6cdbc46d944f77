"""`spvk eval` on the trained pair: real numbers, resumption, and what is refused."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from models import DRAFT, FIXTURES, TARGET
from specprefill.chats import qwen, sentences
from spvk.cli import main
from spvk.evaluate import trial as evaluation
from spvk.evaluate.generate import Recipe
from spvk.evaluate.policies import Plan, read_policies
from spvk.evaluate.prompts import Question, read_line
from spvk.gguf import open_gguf
from spvk.specprefill import fingerprint, read_structure, spans_of
from spvk.tokenizer import Tokenizer

FIRST_TWO = [
    json.loads(line) for line in (FIXTURES / "trained" / "prompts.jsonl").read_text().splitlines()[:2]
]


@pytest.fixture
def spvk(capsys):
    """Run `spvk eval` on the pair; returns (exit status, standard output, standard error)."""

    def run(*args):
        try:
            main(["eval", "-m", str(TARGET), "-md", str(DRAFT), *map(str, args)])
            status = 0
        except SystemExit as stop:
            status = stop.code
        out, err = capsys.readouterr()
        return status, out, err

    return run


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    return write(tmp_path_factory.mktemp("prompts") / "two.jsonl", FIRST_TWO)


def test_two_prompts_of_the_trained_pair(spvk, prompts, tmp_path, monkeypatch):
    scored = []
    score = evaluation.engine.score
    monkeypatch.setattr(
        evaluation.engine, "score", lambda *a, **k: scored.append(a[2].preset) or score(*a, **k)
    )
    out, md = tmp_path / "out.json", tmp_path / "out.md"
    policies = "v3,paper,auto,dense,recent,random:guard_last=32"
    status, shown, err = spvk(
        "--prompts", prompts, "--policy", policies, "--keep", "0.2", "--json", out, "--md", md
    )
    assert (status, shown) == (0, md.read_text(encoding="utf-8")) and "Traceback" not in err
    report = json.loads(out.read_text(encoding="utf-8"))
    assert scored == ["v3", "paper"] * 2  # auto and the baselines read v3's rows
    assert report["complete"] and len(report["records"]) == 2 * 6
    rows = {row["policy"]: row for row in report["table"]}
    right = {
        name: (row["exact"] * row["prompts"], row["survived"] * row["prompts"]) for name, row in rows.items()
    }
    assert right["dense"] == (2, 2)
    assert right["v3"] == right["paper"] == right["auto"] == (2, 2)
    assert right["recent"] == (0, 0)  # 68 tokens of 256: the values stand at 111 and 135
    assert rows["dense"]["exact_95"] == pytest.approx([0.342380, 1.0], abs=1e-6)
    assert rows["dense"]["kept_tokens"] == 256 and rows["dense"]["kl"] == 0.0
    assert rows["v3"]["kept_tokens"] == rows["recent"]["kept_tokens"]
    assert rows["v3"]["kl"] < 0.05 < rows["random:guard_last=32"]["kl"]
    sparse = next(r for r in report["records"] if r["policy"] == "v3")
    assert sparse["tokens"] == FIRST_TWO[0]["answer"] and sparse["timings"]["score_ms"] > 0
    assert next(r for r in report["records"] if r["policy"] == "recent")["timings"]["score_ms"] == 0


def test_a_stopped_run_goes_on(spvk, tmp_path):
    short = [{**row, "tokens": row["tokens"][-48:], "value_pos": None} for row in FIRST_TWO]
    prompts, out = write(tmp_path / "short.jsonl", short), tmp_path / "out.json"
    args = ("--prompts", prompts, "--policy", "dense,random", "--keep", "0.5", "--json", out, "--resume")
    assert spvk(*args, "--limit", "1")[0] == 0
    first = json.loads(out.read_text())["records"]
    assert {r["id"] for r in first} == {"256-1-0"}
    half = {**first[0], "id": "256-1-2"}  # a prompt half done is done again
    out.write_text(json.dumps({**json.loads(out.read_text()), "records": [*first, half], "complete": False}))
    assert spvk(*args)[0] == 0
    report = json.loads(out.read_text())
    assert report["records"][:2] == first  # times and all: it was not run again
    assert [r["id"] for r in report["records"]] == ["256-1-0"] * 2 + ["256-1-2"] * 2
    status, _, err = spvk(*args[:-2], out, "--resume", "--seed", "1")
    assert status == 2 and f"{out}: seed: found 0, expected 1 as in this run" in err
    out.write_text('{"records": [{"id": 1}]}')
    status, _, err = spvk(*args)
    assert status == 2 and "expected a report of spvk eval to resume" in err


def test_other_heads_are_another_run(spvk, prompts, tmp_path):
    heads, out = tmp_path / "heads.json", tmp_path / "out.json"
    found = {"version": 1, "draft_sha256": fingerprint(DRAFT), "chosen": [[0, 3], [0, 1]]}
    heads.write_text(json.dumps(found))
    policy = f"v3:heads={heads}"
    args = (
        "--prompts",
        prompts,
        "--policy",
        policy,
        "--keep",
        "0.5",
        "--limit",
        "1",
        "--json",
        out,
        "--resume",
    )
    assert spvk(*args)[0] == 0
    assert json.loads(out.read_text())["heads"] == {policy: [[0, 1], [0, 3]]}
    heads.write_text(json.dumps(found | {"chosen": [[0, 2]]}))
    status, _, err = spvk(*args)
    assert status == 2 and f"{out}: heads: found" in err and "as in this run, to resume" in err
    kept = heads.read_text()
    status, _, err = spvk("--prompts", prompts, "--policy", policy, "--json", heads)
    assert status == 2 and "an input of this run" in err and heads.read_text() == kept
    heads.unlink()
    status, _, err = spvk("--prompts", prompts, "--policy", policy)
    assert status == 2 and "--policy v3:heads=" in err and "heads.json: No such file" in err


def test_text_is_answered_and_judged(spvk, tmp_path):
    tokenizer = Tokenizer.from_gguf(open_gguf(str(TARGET)).fields)
    row = FIRST_TWO[0]
    text, answer = tokenizer.decode(row["tokens"]), tokenizer.decode(row["answer"])
    assert tokenizer.encode(text) == row["tokens"]
    path = write(
        tmp_path / "text.jsonl",
        [{"prompt": text, "answers": ["no", answer]}, {"prompt": text, "outputs": ["no", answer.strip()]}],
    )
    out = tmp_path / "out.json"
    status, shown, _ = spvk("--prompts", path, "--policy", "dense", "--raw", "-n", "2", "--json", out)
    any_of, all_of = json.loads(out.read_text())["records"]
    assert status == 0 and any_of["text"] == answer and any_of["tokens"] == row["answer"]
    assert (any_of["exact"], any_of["f1"], any_of["contained"]) == (True, 1.0, 1.0)
    assert all_of["contained"] == 0.5 and any_of["survived"] is None
    assert "F1 %" in shown and "survived" not in shown


def test_generated_prompts_are_run_and_their_gold_followed(spvk, tmp_path):
    out = tmp_path / "out.json"
    args = ("--task", "passkey,count", "--length", "600", "--depth", "0.5", "--count", "2", "-n", "4")
    args += ("--policy", "dense,recent", "--keep", "0.3", "--json", out)
    status, shown, err = spvk(*args)
    assert status == 0 and "Traceback" not in err
    report = json.loads(out.read_text())
    assert report["prompts"]["tasks"] == ["passkey", "count"] and report["complete"]
    assert [r["id"] for r in report["records"][::2]] == [
        f"{t}-600-0.5-{i}" for t in ("passkey", "count") for i in (0, 1)
    ]
    tokenizer = Tokenizer.from_gguf(open_gguf(str(TARGET)).fields)
    recipe = Recipe(("passkey", "count"), (600,), (0.5,), 2)
    for q, r in zip(recipe.questions(lambda text: len(tokenizer.encode(text))), report["records"][::2]):
        tokens = tokenizer.encode(q.text)
        assert 590 <= len(tokens) == r["prompt_tokens"] <= 600
        assert len(r["gold"]) == len(q.needed) and r["cut"]  # some 40 tokens each, longer than any chunk
        for (start, end), text in zip(r["gold"], q.needed):
            assert text in tokenizer.decode(tokens[start:end])
    survived = [(r["policy"], r["survived"]) for r in report["records"]]
    assert survived == [("dense", True), ("recent", False)] * 4
    assert "| passkey | 600 | 0.5 | recent | 0.3 | 2 |" in shown and "stated % (95 %)" in shown
    before = report["records"]
    assert spvk(*args, "--resume")[0] == 0 and json.loads(out.read_text())["records"] == before
    status, _, err = spvk(*args, "--resume", "--seed", "1")
    assert status == 2 and f"{out}: prompts_sha256: found" in err and "as in this run, to resume" in err


def test_an_oracle_keeps_fact_and_question(spvk, prompts, tmp_path):
    out = tmp_path / "out.json"
    policies = "v3,oracle,oracle:dense_layers=3,even:gap_decay=typical"
    status, shown, _ = spvk("--prompts", prompts, "--policy", policies, "--keep", "0.2", "--json", out)
    records = json.loads(out.read_text())["records"]
    assert status == 0 and "| oracle:dense_layers=3 | 0.2 | 2 | 100.0" in shown
    by_policy = {p: [r for r in records if r["policy"] == p] for p in policies.split(",")}
    for v3, oracle, dense in zip(*(by_policy[p] for p in policies.split(",")[:3])):
        assert v3["kept_tokens"] == oracle["kept_tokens"] == dense["kept_tokens"]
        assert oracle["survived"] and oracle["exact"] and oracle["timings"]["score_ms"] == 0
        assert oracle["selection_sha256"] == dense["selection_sha256"] != v3["selection_sha256"]
    assert [r["exact"] for r in by_policy["even:gap_decay=typical"]] == [False, False]


def test_an_oracle_knows_the_sentence_and_the_question():
    tokenizer = Tokenizer.from_gguf(open_gguf(str(TARGET)).fields)
    model = SimpleNamespace(tokenizer=tokenizer)
    q = read_line(json.dumps(FIRST_TWO[0]).encode(), "line 1", 1)
    tokens = np.array(q.tokens)
    needed = evaluation.needed_of(q, evaluation.gold_of(q, tokens, model)[0], tokens, model)
    first, last = (tokenizer.decode(tokens[start:end]) for start, end in spans_of(needed))
    assert first == " the green lamp has the code otter nectar ."
    assert last == " what is the code of the green lamp ?"
    recipe = Recipe(("chains",), (600,), (0.5,), 1)
    (q,) = recipe.questions(lambda text: len(tokenizer.encode(text)))
    tokens = np.array(tokenizer.encode(q.text))
    needed = evaluation.needed_of(q, evaluation.gold_of(q, tokens, model)[0], tokens, model)
    kept = tokenizer.decode(tokens[needed])
    assert all(text in kept for text in q.needed) and kept.endswith(q.asked)


def test_a_baseline_protects_what_auto_does(monkeypatch):
    tokenizer, template = qwen(True)
    text = template.render(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": sentences(60)}]
    )
    tokens = np.array(tokenizer.encode(text))
    target = SimpleNamespace(tokenizer=tokenizer)
    monkeypatch.setattr(evaluation.Trial, "score", lambda *_: (np.linspace(1, 2, len(tokens)), 0.0))
    policies = read_policies("auto,ends:protect=on,random:protect=on,ends")
    trial = evaluation.Trial(
        Question("", "", (), tokens=tokens), tokens, target, target, Plan(policies, [0.2])
    )
    kept = {}
    for policy in policies:
        selection = trial.select(policy, policy.settings(0.2), evaluation.engine.Clock())
        kept[policy.label] = selection.positions
    auto, ends, random, plain = kept.values()
    protected = np.flatnonzero(read_structure(tokens, tokenizer, policies[0].settings(0.2)).protected)
    assert len(protected) > 80 and len(auto) == len(ends) == len(random) > len(plain)
    for positions in (auto, ends, random):
        assert np.isin(protected, positions).all()
    assert not np.isin(protected, plain).all() and auto.tolist() != ends.tolist() != random.tolist()


def test_an_oracle_refuses_a_prompt_that_knows_nothing(spvk, tmp_path):
    rows = [FIRST_TWO[0], {k: v for k, v in FIRST_TWO[1].items() if k != "value_pos"}]
    status, _, err = spvk("--prompts", write(tmp_path / "p.jsonl", rows), "--policy", "v3,oracle")
    assert status == 2 and err.count("\n") == 2  # the device's line and this one
    assert "line 2: --policy oracle: found no word of where the answer stands, expected value_pos" in err


def test_layers_that_attend_are_refused_before_anything_runs(spvk, prompts):
    status, _, err = spvk("--prompts", prompts, "--policy", "v3,random:dense_layers=4")
    assert (
        status == 2 and "--policy random:dense_layers=4: --dense-layers: found 4, expected at most 3" in err
    )


def test_cut_facts_have_rows_of_their_own(spvk, tmp_path):
    whole, other = FIRST_TWO
    # Six tokens fewer before it, and the sentence that began at token 130 lies across the edge at 128.
    cut = {**other, "tokens": other["tokens"][6:], "value_pos": other["value_pos"] - 6}
    out = tmp_path / "out.json"
    args = ("--prompts", write(tmp_path / "two.jsonl", [whole, cut]), "--policy", "dense", "--json", out)
    status, shown, _ = spvk(*args)
    report = json.loads(out.read_text())
    assert status == 0 and [row["fact"] for row in report["table"]] == [None, "cut"]
    assert {r["id"]: r["cut"] for r in report["records"]} == {whole["id"]: False, cut["id"]: True}
    assert "| 256 | 1 | cut | dense |  | 1 |" in shown


def test_plots_are_written_and_their_folder_checked_first(spvk, prompts, tmp_path):
    args = ("--prompts", prompts, "--policy", "dense,recent", "--keep", "0.5", "--limit", "1", "--plots")
    assert spvk(*args, tmp_path / "plots")[0] == 0
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["accuracy.png", "ttft.png"]
    status, shown, err = spvk(*args, prompts)
    assert (status, shown) == (2, "") and f"--plots {prompts}: File exists, expected a folder" in err
    status, shown, err = spvk(*args, "")
    assert (status, shown) == (2, "") and "--plots: found '', expected a folder" in err
    (tmp_path / "taken" / "ttft.png").mkdir(parents=True)
    status, shown, err = spvk(*args, tmp_path / "taken")
    assert (status, shown) == (2, "") and "ttft.png: a directory, expected" in err


@pytest.mark.parametrize(
    "args, words",
    [
        (("--policy", "best"), "--policy: found 'best'"),
        (("--keep", "1.5"), "--keep: found '1.5'"),
        (("--resume",), "--json: found none"),
        (("--json", "-"), "--json: found -"),
        (("--json", DRAFT), "an input of this run"),
        (("--limit", "0"), "--limit"),
        (("--task", "keys"), "prompts: found both"),
        (("--depth", "0.5"), "--depth: found with --prompts"),
    ],
)
def test_bad_options_are_one_line(spvk, prompts, args, words):
    status, _, err = spvk("--prompts", prompts, *args)
    assert status == 2 and words in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "args, words",
    [
        ((), "prompts: found none"),
        (("--task", "best"), "--task: found 'best'"),
        (("--task", "keys", "--length", "50000"), "--length: found 50000, expected at most 32736 for"),
        (("--task", "keys", "--length", "50"), "--length: found 50, expected at least"),
    ],
)
def test_bad_recipes_are_one_line(spvk, args, words):
    status, _, err = spvk(*args)
    assert status == 2 and words in err and "Traceback" not in err


@pytest.mark.parametrize(
    "row, words",
    [
        ({"tokens": [1, 10**9], "answer": [1]}, "line 2: tokens: token 1 is 1000000000"),
        ({"tokens": [1], "answer": [10**9]}, "line 2: answer: token 0 is 1000000000"),
        ({"tokens": [1] * 100_000, "answer": [1]}, "line 2: prompt: 100000 tokens and 1 to follow"),
        ({"tokens": "1 2 3", "answer": [1]}, 'line 2: tokens: found "1 2 3"'),
    ],
)
def test_a_prompt_that_cannot_be_used_is_named_before_anything_runs(spvk, tmp_path, row, words):
    path = write(tmp_path / "bad.jsonl", [FIRST_TWO[0], row])
    out = tmp_path / "out.json"
    status, _, err = spvk("--prompts", path, "--json", out)
    assert status == 2 and words in err and "Traceback" not in err and not out.exists()


def test_a_malformed_line_is_named(spvk, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(FIRST_TWO[0]) + '\n\n{"tokens": [1, 2\n')
    status, out, err = spvk("--prompts", path)
    assert (status, out) == (2, "") and err.count("\n") == 1
    assert err.startswith(f"spvk: {path} line 3: not JSON (") and err.endswith("expected an object\n")


def test_scores_are_shared_only_where_the_rows_are_the_same():
    keys = {}
    for p in read_policies("v3,auto,random,v3:pool=5,v3:lookahead=3,paper,paper:pool=5"):
        keys[p.label] = evaluation.rows_key(p.settings(0.2))
    assert keys["v3"] == keys["auto"] == keys["random"]
    assert len(set(keys.values())) == 5

"""bench/pivot.py: what spvk eval wrote, as one table."""

import json

import pivot


def record(policy, keep, task, exact, cut=False, **more):
    base = {"policy": policy, "keep": keep, "cell": {"task": task, "facts": 1}, "exact": exact, "cut": cut}
    base |= {"kl": 0.5, "stated": None, "survived": True, "kept_tokens": 20, "prompt_tokens": 100}
    return base | {"timings": {"ttft_ms": 40.0}} | more


RECORDS = [
    record("dense", None, "fact", True, kl=0.0, kept_tokens=100),
    record("dense", None, "list", False, cut=True, kl=0.0, kept_tokens=100),
    record("v3", 0.2, "fact", True, survived=False),
    record("v3", 0.2, "list", False, cut=True, timings={"ttft_ms": 60.0}),
]


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_row_a_policy_and_a_column_a_task(tmp_path, capsys):
    (tmp_path / "a.json").write_text(json.dumps({"records": RECORDS}))
    assert pivot.main([str(tmp_path / "a.json")]) == 0
    head, _, dense, v3 = map(cells, capsys.readouterr().out.splitlines())
    assert head == ["policy", "keep", "all", "fact", "list", "KL", "survived", "kept", "TTFT"]
    assert dense == ["`dense`", "", "50 (9–91)", "100", "0", "0.00", "100", "100 %", "40 ms"]
    assert v3 == ["`v3`", "0.2", "50 (9–91)", "100", "0", "0.50", "50", "20 %", "50 ms"]


def test_cut_prompts_alone(tmp_path, capsys):
    for name, part in (("a", RECORDS[:2]), ("b", RECORDS[2:])):
        (tmp_path / f"{name}.json").write_text(json.dumps({"records": part}))
    assert pivot.main([str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--cut"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and cells(lines[3])[:5] == ["`v3`", "0.2", "0 (0–79)", "0", "0.50"]


def test_several_facts_are_a_column_of_their_own():
    assert (
        pivot.cell_of(record("v3", 0.2, "fact", True) | {"cell": {"task": "fact", "facts": 8}}) == "fact of 8"
    )


def test_without_dense_there_is_no_divergence():
    assert cells(pivot.table([record("v3", 0.2, "fact", True, kl=None)])[2])[4:6] == ["", "100"]


def test_text_is_judged_by_what_it_states_and_a_preset_may_keep_what_it_does():
    line = pivot.table([record("auto", "preset", "keys", False, stated=True)])[2]
    assert cells(line)[:4] == ["`auto`", "preset", "100 (21–100)", "100"]

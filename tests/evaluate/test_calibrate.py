"""`spvk calibrate`: ranks by hand, the choice of heads, and the command on the trained draft."""

import json

import numpy as np
import pytest
from models import DRAFT, FIXTURES, TARGET

from spvk import job
from spvk.cli import main
from spvk.evaluate.calibrate import (
    COUNTS,
    Outcome,
    Probe,
    best_heads,
    best_outcome,
    head_scores,
    piece_ranks,
    validate,
)

PIECES = 8  # of 16 tokens, behind the 4 tokens of the sink
END = 4 + 16 * PIECES


def spread(values):
    """Scores [END] that are 9 on the sink and `values` on the pieces."""
    return np.r_[np.full(4, 9.0), np.repeat(np.asarray(values, float), 16)]


def test_ranks_are_by_pieces():
    scores = spread([1, 7, 3, 2, 0, 5, 4, 0])
    assert piece_ranks(scores, [(4 + 32, 4 + 40)], END).tolist() == [4]  # 7, 5 and 4 lie higher
    assert piece_ranks(scores, [(25, 30), (70, 75)], END).tolist() == [1, 7]  # equal ones count as higher
    # A span on two pieces has the better one, and none of its own stands before it.
    assert piece_ranks(scores, [(4 + 90, 4 + 100)], END).tolist() == [2]
    # What stands behind the end, the question, is not ranked; neither is the sink.
    assert piece_ranks(np.r_[scores, np.full(20, 50.0)], [(4 + 32, 4 + 40)], END).tolist() == [4]
    assert piece_ranks(np.stack([scores, -scores]), [(4 + 32, 4 + 40)], END).tolist() == [[4], [5]]


def probes(count=3):
    """Two layers of three heads over two score rows: head (1, 2) finds what is needed, (0, 1) looks at one other
    piece first, the rest look at everything else."""
    for i in range(count):
        needed = i + 1
        noise = np.linspace(0.1, 0.8, PIECES)
        noise[needed] = 0.0
        rows = np.stack([spread(noise)] * 6).reshape(2, 3, END)
        rows[1, 2] = spread(0.9 * (np.arange(PIECES) == needed))
        rows[0, 1] = spread(0.9 * (np.arange(PIECES) == needed) + (np.arange(PIECES) == 7))
        yield Probe([rows, 0.5 * rows], [(4 + 16 * needed, 4 + 16 * needed + 16)], END)


def test_heads_are_ranked_by_what_they_find():
    scores = head_scores(probes())
    assert scores.shape == (2, 3) and scores[1, 2] == 1.0 and scores[0, 1] == 0.5
    assert best_heads(scores)[:2] == [(1, 2), (0, 1)]
    assert best_heads(np.zeros((2, 2))) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_validation_tries_the_best_few_and_all():
    order = best_heads(head_scores(probes()))
    outcomes = validate(probes(), order, (2, 3))
    assert [o.heads for o in outcomes] == [c for c in COUNTS if c < 6] + [6]
    assert (outcomes[0].mrr, outcomes[0].top_fifth) == (1.0, 1.0)
    assert outcomes[1].mrr == 0.5  # the second head's peak, 1.0, lies above the needed piece's 0.9
    assert (outcomes[-1].mrr, outcomes[-1].top_fifth) == (0.5, 0.0)


def test_what_a_fifth_would_keep_decides():
    few, more, all_of_them = Outcome(2, 0.9, 0.8), Outcome(6, 0.7, 0.9), Outcome(9, 0.7, 0.9)
    assert best_outcome([few, more, all_of_them]) == more
    assert best_outcome([few, Outcome(1, 0.8, 0.8)]) == few


@pytest.fixture(scope="module")
def calibration(tmp_path_factory):
    """The trained draft's, on short prompts."""
    out = tmp_path_factory.mktemp("heads") / "heads.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "cache_dir", lambda: out.parent)
        args = [
            "calibrate",
            "-md",
            DRAFT,
            "--task",
            "passkey",
            "--length",
            "300",
            "--lookahead",
            "2",
            "--seed",
            "3",
        ]
        main([str(a) for a in [*args, "-o", out]])
    return out


def test_the_command_writes_what_it_found(calibration):
    found = json.loads(calibration.read_text())
    assert found["shape"] == [1, 4] and found["blocks"] == [3]
    assert found["settings"]["tasks"] == ["passkey"] and found["settings"]["count"] == 2
    assert np.shape(found["scores"]) == (1, 4) and 0 < np.min(found["scores"]) <= np.max(found["scores"]) <= 1
    best = best_outcome([Outcome(**o) for o in found["validation"]])
    order = np.argsort(-np.ravel(found["scores"]), kind="stable")
    assert found["chosen"] == [[0, head] for head in order[: best.heads].tolist()]
    assert [o["heads"] for o in found["validation"]] == [1, 2, 3, 4]


@pytest.fixture
def run(spvk, tmp_path):
    row = json.loads((FIXTURES / "trained" / "prompts.jsonl").read_text().splitlines()[0])
    np.save(tmp_path / "tokens.npy", row["tokens"])

    def run(*args):
        base = ("prefill", "-m", TARGET, "-md", DRAFT, "--tokens", tmp_path / "tokens.npy", "-n", "1")
        status, out, err = spvk(
            *base, "--mode", "always", "--keep", "0.2", "--chunk", "4", "--json", "-", *args
        )
        return status, json.loads(out) if status == 0 else None, err

    return run


def test_prefill_scores_with_the_heads_of_a_file(run, calibration, tmp_path, monkeypatch):
    _, every, _ = run()
    found = json.loads(calibration.read_text())
    one, all_of_them = tmp_path / "one.json", tmp_path / "all.json"
    one.write_text(json.dumps(found | {"chosen": [[0, 3]]}))
    all_of_them.write_text(json.dumps(found | {"chosen": [[0, h] for h in range(4)]}))
    _, got, _ = run("--heads", one)
    assert got["settings"]["heads"] == str(one) and got["selection_sha256"] != every["selection_sha256"]
    assert run("--heads", all_of_them)[1]["selection_sha256"] == every["selection_sha256"]
    monkeypatch.setenv("SP_HEADS", str(one))
    assert run()[1]["selection_sha256"] == got["selection_sha256"]
    assert run("--heads", "all")[1]["selection_sha256"] == every["selection_sha256"]
    assert run("--heads", "auto")[1]["selection_sha256"] == every["selection_sha256"]  # none in this cache


def test_auto_finds_what_calibrate_left_in_the_cache(spvk, run):
    args = ("--task", "passkey", "--length", "300", "--lookahead", "0")
    status, out, err = spvk("calibrate", "-md", DRAFT, *args)
    path = err.splitlines()[-1].removeprefix("written to ")
    assert (
        status == 0 and out == "" and " of 4 heads: blk.3/" in err and path.startswith(str(job.cache_dir()))
    )
    assert run("--heads", "auto")[1]["selection_sha256"] == run("--heads", path)[1]["selection_sha256"]


def test_another_model_s_calibration_is_one_line(spvk, run, calibration, tmp_path):
    found = json.loads(calibration.read_text())
    other = tmp_path / "other.json"
    other.write_text(json.dumps(found | {"draft_sha256": "0" * 64}))
    status, _, err = run("--heads", other)
    assert status == 2 and f"--heads {other}: draft_sha256: found '0000000000000000'" in err
    assert "a calibration of another model" in err and "Traceback" not in err
    prompts = FIXTURES / "trained" / "prompts.jsonl"
    args = ("eval", "-m", TARGET, "-md", DRAFT, "--prompts", prompts, "--limit", "1", "--policy")
    status, out, err = spvk(*args, f"v3:heads={other}")
    assert (status, out) == (2, "") and "a calibration of another model" in err


@pytest.mark.parametrize(
    "args, words",
    [
        (("--task", "best"), "--task: found 'best'"),
        (("--length", "100000"), "--length: found 100000, expected at most 32760 for"),
        (("--length", "20"), "--length: found 20, expected at least"),
        (("-o", DRAFT), "an input of this run"),
        (("--count", "0"), "--count"),
    ],
)
def test_bad_calibrations_are_one_line(spvk, args, words):
    status, _, err = spvk("calibrate", "-md", DRAFT, *args)
    assert status == 2 and words in err and "Traceback" not in err


def test_a_cache_that_cannot_be_written_is_named_before_the_work(spvk, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(job, "cache_dir", lambda: tmp_path / "file" / "x")
    status, _, err = spvk("calibrate", "-md", DRAFT)
    assert status == 2 and err.count("\n") == 1  # the device is not even opened
    assert "file/x/heads-" in err and "expected a cache directory that can be written" in err
    assert spvk("calibrate", "-md", DRAFT, "-o", "")[::2] == (
        2,
        "spvk: --output: found '', expected the name of a file to write\n",
    )


def test_heads_are_checked_where_the_draft_is_not_loaded(spvk, run, tmp_path):
    status, _, err = run("--heads", tmp_path / "none.json", "--mode", "auto", "--min-tokens", "1000")
    assert status == 2 and f"--heads {tmp_path / 'none.json'}: No such file" in err

"""bench/plain_text.py: its questions, and what it counts."""

import numpy as np
import pytest

import plain_text
from spvk.evaluate import trial
from spvk.specprefill.selection import Selection


def test_every_question_needs_text_that_stands_once():
    assert len(plain_text.QUESTIONS) == 14
    for q in plain_text.QUESTIONS:
        assert plain_text.TEXT.count(q["needed"]) == 1 and q["question"].endswith("?")


def test_a_question_counts_where_all_that_it_needs_is_kept(monkeypatch, capsys):
    def choose(scores, settings, structure, pooled):
        lost = 1 if settings.keep == 0.2 else 0
        return Selection(len(scores), np.arange(lost, len(scores)), [1.0], [True])

    def score(model, tokens, *args, **options):
        scored.append(len(tokens))
        return np.ones(len(tokens))

    scored = []
    monkeypatch.setattr(plain_text, "QUESTIONS", plain_text.QUESTIONS[:2])
    monkeypatch.setattr(trial, "spans_of_texts", lambda pieces, texts: [(0, 9)])
    monkeypatch.setattr(trial.engine, "score", score)
    monkeypatch.setattr(trial, "choose", choose)
    assert plain_text.main(["--policy", "dense,v3,auto,random", "--keep", "0.3,0.2"]) == 0
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in capsys.readouterr().out.splitlines()
    ]
    assert rows[0] == ["policy", "keep", "of 2", "kept"] and len(scored) == 2  # one reading for all policies
    assert rows[2:7] == [
        ["`dense`", "", "2", "100 %"],
        ["`v3`", "0.3", "2", "100 %"],
        ["`v3`", "0.2", "0", "100 %"],
        ["`auto`", "0.3", "2", "100 %"],
        ["`auto`", "0.2", "0", "100 %"],
    ]
    assert [row[0] for row in rows[7:]] == ["`random`"] * 2


@pytest.mark.parametrize("option", [("--policy", "best"), ("--keep", "2"), ("-md", "nowhere.gguf")])
def test_what_cannot_be_used_is_one_line(option, capsys):
    assert plain_text.main(list(option)) == 2
    assert capsys.readouterr().err.startswith("plain_text.py: ")

"""Generated text: answers stand where they are said to, lengths hold, and held-out words stay out."""

import random
import re
from pathlib import Path

import numpy as np
import pytest

from spvk import embedded
from training import data, documents, prompts, templates
from training import tokenizer as bpe
from training import words as w


@pytest.fixture(scope="module")
def tokenizer():
    return bpe.make_tokenizer(bpe.train_vocabulary(1024, sentences=2000))


@pytest.fixture(scope="module")
def writer(tokenizer):
    return documents.Writer(tokenizer)


def world(seed=0, held_out=False):
    return data.World(random.Random(seed), held_out)


def every_puzzle(held_out, n=300):
    return [p for seed in range(n) for p in data.group(world(seed, held_out))]


@pytest.mark.parametrize("held_out", [False, True])
def test_answers_stand_where_the_puzzle_says(held_out):
    seen = set()
    for p in every_puzzle(held_out):
        seen.add(p.task)
        for s in p.sentences:
            assert s.at is None or s.text[s.at :].startswith(p.answer)
        stated = [s for s in p.sentences if s.at is not None]
        assert len(stated) == (0 if p.task in ("count", "not stated") else 1), p
    assert seen == {"fact", "update", "chain", "count", "list", "function", "not stated"}


def test_the_answer_can_be_worked_out():
    for p in every_puzzle(False):
        text = " ".join(s.text for s in p.sentences)
        if p.task == "count":
            town = re.search(r" (?:visit|in) (\w+)\?", p.question)[1]
            assert p.answer == w.COUNTS[text.count(town)]
        elif p.task == "function":
            space = {}
            exec(text, space)  # noqa: S102 - the generated code is real Python
            assert space[re.search(r"(\w+)\(\)", p.question)[1]]() == int(p.answer)
        elif p.task == "update":
            assert p.answer in p.sentences[-1].text
        elif p.task == "list":
            items = re.search(r"[:e] (\w+(?:, \w+){4})\.", text)[1].split(", ")
            n = next(i for i, name in enumerate(w.ORDINALS) if name in p.question)
            assert items[n] == p.answer
        elif p.task == "chain":
            middles = [s for s in p.sentences if s.at is None]
            assert len(middles) == 1 and p.answer not in middles[0].text


def test_names_and_values_of_evaluation_are_never_trained_on():
    train, unseen = ({p.answer for p in every_puzzle(side) if p.task == "fact"} for side in (False, True))
    assert len(train) > 300 and len(unseen) > 300
    words = {x for x in unseen if re.fullmatch(r"[A-Za-z]+", x)}
    assert all(data.is_held_out(x) for x in words)
    assert not words & train


def test_templates_of_evaluation_are_never_trained_on():
    assert not set(templates.STATEMENTS) & set(templates.HELD_OUT_STATEMENTS)
    assert len(templates.STATEMENTS) >= 40 and len(templates.HELD_OUT_STATEMENTS) >= 5
    for template in templates.STATEMENTS + templates.HELD_OUT_STATEMENTS:
        value = template.index("{v}")
        assert template.index("{a}") < value and template.lower().index("{e}") < value


def test_words_of_answers_stand_in_filler_too():
    text = " ".join(data.filler(world(seed)).text for seed in range(4000))
    for pool in (w.COLOURS, w.ANIMALS, w.JOBS, w.CARGO, w.WORDS, w.INSTRUMENTS, w.DAYS):
        assert all(word in text for word in pool)


@pytest.mark.parametrize("length", [96, 384, 2048])
def test_a_batch_fills_its_length_and_looks_at_the_answers_own_tokens(writer, length):
    made = documents.batch(writer, world(), length, 4)
    assert made.tokens.shape == made.answer.shape == (4, length)
    assert (made.tokens == writer.pad).mean() < 0.25
    there = made.rows >= 0
    assert there.any()
    rows = np.arange(4)[:, None].repeat(made.rows.shape[1], 1)[there]
    assert (made.tokens[rows, made.rows[there] + 1] == made.tokens[rows, made.keys[there]]).all()
    assert (made.keys[there] < made.rows[there]).all()
    assert made.answer[rows, made.rows[there] + 1].all()
    for _, row, start, stop in made.questions:
        assert made.answer[row, start:stop].all() and not made.answer[row, start - 1]


def test_the_first_layer_that_attends_looks_at_the_name_that_leads_on(writer, tokenizer):
    found = set()
    for seed in range(40):
        made = documents.batch(writer, world(seed), 384, 1, data.MIX | {"chain": 20, "function": 20})
        text, rows = made.tokens[0], made.rows[0]
        for task, _, start, stop in made.questions:
            mine = (rows >= start - 1) & (rows < stop - 2)
            if task not in ("chain", "function"):
                assert (made.first[0][mine] == made.keys[0][mine]).all()
                continue
            found.add(task)
            (via,) = set(made.first[0][mine])  # all of an answer's tokens: the first one may be "the"
            assert via not in made.keys[0][mine]
            if task == "function":
                line = tokenizer.decode(text[: via + 1]).rsplit("\n", 1)[-1]
                assert re.fullmatch(r" *return \w+", line)
                name = tokenizer.decode(text[: made.keys[0][mine][0]]).rsplit("\n", 1)[-1]
                assert name.split() == [line.split()[-1], "="]
    assert found == {"chain", "function"}


def test_tokens_are_those_of_the_whole_text(writer, tokenizer):
    for seed in range(20):
        c = documents.training_conversation(writer, world(seed), 600)
        assert tokenizer.encode(tokenizer.decode(c.tokens)) == c.tokens


def test_the_same_seed_gives_the_same_data(writer):
    first, again, other = (documents.batch(writer, world(seed), 256, 2).tokens for seed in (3, 3, 4))
    assert (first == again).all() and not (first == other).all()


@pytest.mark.parametrize("text", ["", " the red door", "Zażółć gęślą jaźń 🦜\x00\n\n\t 1234", "نص 漢字"])
def test_the_vocabulary_spells_any_text(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.vocab_size == 1024 and tokenizer.missing_bytes == frozenset()


def test_a_saved_vocabulary_is_the_same(tmp_path):
    vocabulary = bpe.train_vocabulary(600, sentences=300)
    bpe.save(vocabulary, tmp_path / "v.json")
    assert bpe.load(tmp_path / "v.json") == vocabulary


def test_a_files_vocabulary_is_that_of_its_tokenizer():
    vocabulary = bpe.load(Path(embedded.TARGET))
    assert vocabulary == bpe.load(Path(embedded.DRAFT)) and len(vocabulary.tokens) == 2048
    held = list(prompts.prompts(documents.Writer(bpe.make_tokenizer(vocabulary)), 128, 1, seed=0))
    assert {line["task"] for line in held} == set(prompts.TASKS)


@pytest.mark.parametrize(
    "name, words",
    [
        ("none.gguf", "No such file or directory, expected vocabulary.json or a GGUF file"),
        ("text.gguf", "found something else, expected the vocabulary of a model that was trained here"),
        ("magic.json", "found something else"),
        ("empty.json", "found something else"),
        ("other.json", "found something else"),
        ("out.jsonl", "an input of this run, expected another file to write"),
    ],
)
def test_a_vocabulary_that_is_none_costs_nothing(tmp_path, capsys, name, words):
    texts = {"text.gguf": "words", "magic.json": "GGUF", "empty.json": "{}", "out.jsonl": "old"}
    texts |= {"other.json": '{"tokens": ["a"], "merges": []}'}
    for file, text in texts.items():
        (tmp_path / file).write_text(text)
    with pytest.raises(SystemExit) as stopped:
        prompts.main([str(tmp_path / "out.jsonl"), "--vocabulary", str(tmp_path / name)])
    err = capsys.readouterr().err
    assert stopped.value.code == 2 and words in err and err.count("\n") == 1
    assert (tmp_path / "out.jsonl").read_text() == "old"


@pytest.mark.parametrize("lengths", ["abc", "127", "2048,x", ""])
def test_lengths_that_are_none_cost_nothing(tmp_path, capsys, lengths):
    (tmp_path / "out.jsonl").write_text("old")
    with pytest.raises(SystemExit) as stopped:
        prompts.main([str(tmp_path / "out.jsonl"), "--vocabulary", embedded.TARGET, "--lengths", lengths])
    assert stopped.value.code == 2 and "expected numbers from 128" in capsys.readouterr().err
    assert (tmp_path / "out.jsonl").read_text() == "old"


@pytest.mark.parametrize("length", [256, 2048, 8192])
def test_prompts_for_evaluation(writer, tokenizer, length):
    lines = list(prompts.prompts(writer, length, 2, seed=0))
    assert len(lines) == 2 * len(prompts.CELLS) == len({line["id"] for line in lines})
    for line in lines:
        assert 0.85 * length < len(line["tokens"]) <= length
        assert tokenizer.decode(line["tokens"]).endswith("<|assistant|>")
        if "value_pos" in line:
            at = line["value_pos"]
            assert line["tokens"][at : at + len(line["answer"])] == line["answer"]
        else:
            assert line["task"] in ("count", "not stated")


def test_prompts_name_what_leads_to_the_answer(writer, tokenizer):
    lines = [x for x in prompts.prompts(writer, 512, 6, seed=1) if x["task"] in ("chain", "function")]
    assert len(lines) == 12 and all(len(x["needed_pos"]) == 1 + (x["task"] == "function") for x in lines)
    for line in lines:
        before = [tokenizer.decode(line["tokens"][: at + 1]) for at in (line["value_pos"] - 1, *line["needed_pos"])]
        text = tokenizer.decode(line["tokens"])
        if line["task"] == "chain":  # the name that the first step ends with is in the second one, before the answer
            second, first = before
            middle = first.split()[-1]
            sentence = second[max(second.rfind(". "), second.rfind("\n")) :]
            assert middle.lower() in sentence.lower() and middle in text
        else:
            value, name, returned = before
            assert re.search(r"def \w+\Z", name) and re.search(r"return (\w+)\Z", returned)
            assert f"{returned.split()[-1]} =" in value[value.rfind("\n") :]


def test_words_that_do_not_matter_are_none_of_the_held_out_wordings():
    held_out = " ".join((*templates.HELD_OUT_STATEMENTS, *templates.HELD_OUT_UPDATES)).lower()
    words_there = set(re.findall("[a-z]+", held_out))
    assert not {stem + end for stem in w.ODD_STEMS for end in ("", "s", "ed")} & words_there
    drawn = {data.World(random.Random(seed), held_out=False).odd_word() for seed in range(200)}
    assert drawn & set(w.ODD_STEMS) and drawn - set(w.ODD_STEMS)

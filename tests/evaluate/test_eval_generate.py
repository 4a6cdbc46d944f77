"""Generated prompts: their lengths, their answers, and where what is needed stands."""

import random
import re

import pytest

from spvk.errors import SpvkError
from spvk.evaluate.generate import Recipe, compose, read_recipe, source
from spvk.evaluate.tasks import TASKS, Example, sentences


def words(text):
    return len(text.split())


def made(task, length=300, depth=0.5, count=8, seed=0):
    return Recipe((task,), (length,), (depth,), count, seed).questions(words)


def test_the_same_seed_gives_the_same_prompts():
    recipe = read_recipe("passkey,chains", "200", "0.5", 2, 7)
    again = recipe.questions(words)
    assert recipe.questions(words) == again and len({q.text for q in again}) == 4
    assert again[0].id == "passkey-200-0.5-0" and again[0].answers == ("43618",)
    assert again[0].needed == ("The pass key is 43618.",)
    assert again[0].cell == (("task", "passkey"), ("len", 200), ("depth", 0.5))
    assert read_recipe("passkey", "200", "0.5", 2, 8).questions(words)[0].answers != again[0].answers
    assert recipe.sha256 == read_recipe("passkey,chains", "200", "0.5", 2, 7).sha256
    assert recipe.sha256 != read_recipe("passkey,chains", "201", "0.5", 2, 7).sha256


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("length", [150, 800])
def test_prompts_are_as_long_as_asked(task, length):
    for depth in (0.0, 0.5, 1.0):
        for q in made(task, length, depth, 3):
            assert length - 10 <= words(q.text) <= length  # the padding is 16 words, a function up to 24


@pytest.mark.parametrize("task", TASKS)
def test_what_is_needed_stands_once_and_at_its_depth(task):
    for depth in (0.1, 0.5, 0.9):
        for q in made(task, 2000, depth, 3):
            assert [q.text.count(text) for text in q.needed] == [1] * len(q.needed)
            places = [q.text.index(text) / len(q.text) for text in q.needed]
            assert places == sorted(places) and abs(places[0] - depth) < 0.08


@pytest.mark.parametrize("task", TASKS)
def test_filler_varies(task):
    example = TASKS[task](random.Random(0))
    units = [next(example.filler) for _ in range(300)]
    assert len(set(units)) > 280
    assert not set(units) & {*example.needed, *example.lures}


def test_answers_follow_from_the_text():
    for q in made("passkey"):
        assert re.findall(r"pass key is (\d+)", q.text) == list(q.answers)
    for q in made("keys"):
        numbers = dict(re.findall(r"magic number for (\S+) is (\d+)\.", q.text))
        asked = re.search(r"magic number for (\S+)\?", q.text)[1]
        assert len(numbers) == 6 and q.answers == (numbers[asked],)
    for q in made("count"):
        who = re.search(r"did (\w+) buy", q.text)[1]
        times = len(re.findall(rf"{who} bought a lantern", q.text))
        assert q.answers[0] == str(times) and len(re.findall("bought a lantern", q.text)) == times + 3
    for q in made("lookup"):
        registers = re.findall(r"Entry (\S+): register (\d+)\.", q.text)
        asked = re.search(r"of entry (\S+)\?", q.text)[1]
        assert [value for name, value in registers if name == asked] == list(q.answers)


def test_a_chain_leads_from_the_value_to_every_variable():
    for q in made("chains"):
        value = re.search(r"assigned the value (\d+),", q.text)[1]
        names = {value}
        for variable, origin in re.findall(r"VAR (\w+) = (?:VAR )?(\w+)\.", q.text):
            if origin in names:  # definitions stand before their uses
                names.add(variable)
        assert names - {value} == set(q.answers) and q.all_needed and len(q.answers) == 4


def test_a_function_returns_the_answer():
    for q in made("code"):
        _, module, asked = q.text.split("\n\n", 1)[0], q.text.split("\n\n", 1)[1], q.text
        module = module[: module.index("What number does")]
        scope = {}
        exec(module, scope)  # the text is made here
        name = re.search(r"does (\w+)\(\) return", asked)[1]
        assert str(scope[name]()) == q.answers[0]


def test_texts_stand_where_their_depths_say():
    example = Example("in", ("a", "b"), ("x",), "out", ("a",), sentences(random.Random(0)))
    assert compose(example, ["1", "2", "3", "4"], 0.5, [0.25], []) == "in\n\n1 x 2 a 3 b 4\n\nout"
    assert compose(example, ["1", "2"], 1.0, [1.0], ["so"]) == "in\n\nSo. 1 2 a b x\n\nout"
    assert compose(example, [], 0.5, [0.25], []) == "in\n\nx a b\n\nout"


def test_too_short_a_length_is_refused():
    with pytest.raises(
        SpvkError, match=r"--length: found 20, expected at least \d+ for prompt keys-20-0.5-0"
    ):
        made("keys", 20)


@pytest.mark.parametrize(
    "lists, message",
    [
        (("best", "9", "0"), "--task: found 'best', expected different ones of passkey, keys, chains"),
        (("keys,keys", "9", "0"), "--task: found 'keys', expected different ones"),
        (("keys", "9,x", "0"), "--length: found 'x', expected different whole numbers"),
        (("keys", "0", "0"), "--length: found '0'"),
        (("keys", "9", "1.1"), "--depth: found '1.1', expected different numbers from 0 to 1"),
        (("keys", "9", "nan"), "--depth: found 'nan'"),
    ],
)
def test_bad_lists_name_their_option(lists, message):
    with pytest.raises(SpvkError, match=re.escape(message)):
        read_recipe(*lists, 1, 0)


def test_prompts_come_from_one_place():
    nothing = {"--length": None, "--depth": None, "--count": None}
    assert source("a.jsonl", None, nothing, 0) == "a.jsonl"
    assert source(None, "keys", nothing, 3) == Recipe(("keys",), (1000,), (0.1, 0.5, 0.9), 10, 3)
    for given, message in (((None, None, nothing), "found none"), (("a", "keys", nothing), "found both")):
        with pytest.raises(SpvkError, match=f"prompts: {message}, expected one of --prompts and --task"):
            source(*given, 0)
    with pytest.raises(SpvkError, match="--count: found with --prompts, expected it with --task"):
        source("a.jsonl", None, nothing | {"--count": 3}, 0)

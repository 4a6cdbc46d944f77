"""What comes with the package: the trained pair, the demo on it, and the pair as the commands' default."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spvk import embedded
from spvk.chat import ChatTemplate
from spvk.gguf import open_gguf
from spvk.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_gguf(open_gguf(embedded.TARGET).fields)


def test_the_pair_is_small_and_shares_one_vocabulary(tokenizer):
    assert sum(Path(p).stat().st_size for p in (embedded.TARGET, embedded.DRAFT)) < 20e6
    target, draft = open_gguf(embedded.TARGET), open_gguf(embedded.DRAFT)
    assert tokenizer.same_vocabulary(Tokenizer.from_gguf(draft.fields)) is None
    assert (target.get("qwen35.block_count", int), draft.get("qwen35.block_count", int)) == (8, 4)


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_round_trips(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_chat_template_opens_the_answer(tokenizer):
    template = ChatTemplate.from_gguf(open_gguf(embedded.TARGET).fields, tokenizer)
    assert template.render([{"role": "user", "content": "Who?"}]) == "<|user|>Who?<|assistant|>"


def test_the_example_states_the_truth_once(tokenizer):
    example = embedded.example()
    assert example.document.count(example.truth) == 1 and example.question.endswith(("?", "."))
    assert 3800 <= len(tokenizer.encode(example.prompt)) <= 4100


def test_the_demo_answers_right_from_a_fifth_and_from_everything(spvk):
    status, out, err = spvk("demo")
    assert status == 0 and err.count("device:") <= 1
    rows = {line[:19].strip(): line[19:].split() for line in out.splitlines()}
    truth = embedded.example().truth.split()
    assert rows["answer"] == rows["truth"] == truth + truth
    sparse, dense = (int(n.replace(",", "")) for n in rows["tokens read"])
    assert 0.15 < sparse / dense < 0.25 and dense > 3800
    assert all(
        int(rows[name][0].replace(",", "")) > 0 for name in ("score", "prefill", "time to first token")
    )


def test_the_readme_shows_what_the_demo_prints():
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    example = embedded.example()
    for line in (f"question: {example.question}", f"answer               {example.truth}  {example.truth}"):
        assert f"\n    {line}\n" in text


def test_the_pair_is_what_the_commands_use_without_models(spvk):
    example = embedded.example()
    question = f"{example.document[:2000]}\n\n{example.question}"
    status, out, err = spvk("prefill", "-p", question, "-n", "4", "--mode", "always", "--json", "-")
    report = json.loads(out)
    assert status == 0 and (report["target"], report["draft"]) == (embedded.TARGET, embedded.DRAFT)
    assert "models: the embedded pair" in err


def test_a_wrong_option_is_one_line_without_models_too(spvk):
    status, out, err = spvk("prefill", "-p", "x", "--dense-layers", "-1")
    assert (status, out, err.count("\n")) == (2, "", 1) and err.startswith("spvk: --dense-layers: found '-1'")


def test_half_a_pair_is_refused(spvk):
    status, out, err = spvk("prefill", "-md", embedded.DRAFT, "-p", "x")
    assert (status, out) == (2, "") and err.splitlines()[-1].startswith("spvk: --target: missing")
    status, out, err = spvk("eval", "-m", embedded.TARGET, "--task", "passkey")
    assert (status, out) == (2, "") and err.splitlines()[-1].startswith("spvk: --draft: missing")

"""Protected tokens: a chat through Qwen3.5's real template, plain ChatML, raw prompts, caller's ranges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from chats import FIXTURES, TOOL, TURNS, chatml, llama3, phi, qwen, sentences

from specprefill.plain import v3
from spvk import embedded
from spvk.errors import SpvkError
from spvk.gguf import open_gguf
from spvk.specprefill import Settings, choose, read_structure, verify
from spvk.specprefill.protect import REASONS, Structure, check_ranges
from spvk.specprefill.settings import EDGES
from spvk.tokenizer import Tokenizer

AUTO = Settings(preset="auto", edges="peaks", chunk=32)  # edges that are easy to foresee
PROTECT = v3(protect="on")


def read(pair, messages, settings=PROTECT, *, tools=None, **more):
    """(structure, token ids, list of (reason, text) of the protected spans)."""
    tokenizer, template = pair
    tokens = tokenizer.encode(template.render(messages, tools=tools))
    structure = read_structure(tokens, tokenizer, settings, **more)
    return structure, tokens, [(s.reason, tokenizer.decode(tokens[s.start : s.end])) for s in structure.spans]


@pytest.fixture(scope="module", params=[False, True], ids=["spelled", "tokens"])
def pair(request):
    """Qwen3.5 with the markup of tools spelled in several tokens, and with tokens of its own."""
    return qwen(request.param)


@pytest.fixture(scope="module")
def agent(pair):
    return read(pair, TURNS, AUTO, tools=[TOOL])


def test_every_kind_of_an_agents_chat(agent):
    structure, tokens, spans = agent
    assert spans[0] == ("control", "<|im_start|>system\n")
    assert spans[1][0] == "tools"
    assert spans[1][1].startswith("# Tools\n\nYou have access") and '"name": "weather"' in spans[1][1]
    assert spans[1][1].rstrip().endswith("</IMPORTANT>")
    call = ("<tool_call>\n<function=weather>\n<parameter=city>\nZürich\n</parameter>\n"
            "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>")  # fmt: skip
    assert [(reason, text.strip("\n")) for reason, text in spans[2:]] == [
        ("system", "Answer in one sentence."),
        ("control", "<|im_end|>\n<|im_start|>user"),
        ("control", "<|im_end|>\n<|im_start|>assistant"),
        ("control", "<|im_end|>\n<|im_start|>user"),
        ("control", "<|im_end|>\n<|im_start|>assistant"),
        ("tool_call", call),
        ("control", "<|im_end|>\n<|im_start|>user"),
        ("tool_result", "<tool_response>"),
        ("tool_result", "</tool_response>"),
        ("control", "<|im_end|>\n<|im_start|>assistant"),
        ("control", "<|im_end|>\n<|im_start|>user"),
        ("last_user", "What should I wear?"),
        ("control", "<|im_end|>\n<|im_start|>assistant\n<think>"),
    ]
    assert structure.tools == "tools in the system message"
    assert structure.counts == {
        reason: sum(s.end - s.start for s in structure.spans if s.reason == reason)
        for reason in ("last_user", "system", "tools", "tool_call", "tool_result", "control")
    }


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("worth", ["nothing", "most"])
def test_every_kind_survives_at_keep_5_percent(agent, pair, edges, worth):
    structure, tokens, spans = agent
    scores = np.random.default_rng(5).random(len(tokens))
    scores[structure.protected] = 0.0 if worth == "nothing" else 9.0
    got = choose(scores, replace(AUTO, select="chunk", keep=0.05, edges=edges), structure)
    free = len(tokens) - 6 - int(structure.protected[4:-2].sum())
    assert got.kept_tokens == -(-len(tokens) // 20) + len(tokens) - free  # the budget, and what costs none
    assert got.kept_fraction < 0.25
    assert verify(got, structure) is None
    survivors = pair[0].decode([tokens[i] for i in got.positions])
    for _, text in spans:
        assert text in survivors


def test_no_kept_piece_straddles_two_messages(agent):
    structure, tokens, _ = agent
    worth = np.zeros(len(tokens))
    for start, end in zip(structure.messages, structure.messages[1:]):
        free = start + np.flatnonzero(~structure.protected[start:end])
        if free.size > 40:
            worth[free[-1]] = 1.0  # a peak at the end of each long message
    settings = replace(AUTO, select="chunk", keep=96 / len(tokens))
    got = choose(worth, settings, structure)
    bought = np.setdiff1d(got.positions, np.flatnonzero(structure.protected))
    peaks = np.flatnonzero(worth)
    assert peaks.size == 3 and np.isin(peaks, bought).all()
    # each peak bought the 32 tokens at the end of its own message, closing markup among them, none beyond
    for peak in peaks:
        end = structure.messages[structure.messages > peak][0]
        assert structure.protected[peak + 1 : end].all()
        assert np.isin(np.arange(end - 32, peak + 1), bought).all()
        assert not np.isin(np.arange(end, end + 32), bought).any()


def test_thoughts_are_control(pair):
    answer = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello"}
    turns = [{"role": "user", "content": "Hi"}, answer]
    tokenizer, template = pair
    text = template.render(turns, add_generation_prompt=False)
    tokens = tokenizer.encode(text)
    structure = read_structure(tokens, tokenizer, PROTECT)
    spans = [(s.reason, tokenizer.decode(tokens[s.start : s.end]).strip("\n")) for s in structure.spans]
    assert spans == [("control", "<|im_start|>user"), ("last_user", "Hi"),
                     ("control", "<|im_end|>\n<|im_start|>assistant\n<think>"), ("control", "</think>"),
                     ("control", "<|im_end|>")]  # fmt: skip


def test_a_user_who_writes_markup_makes_no_tool_call(pair):
    text = "x " * 300 + "<tool_call> y </tool_call>" + " z" * 300
    structure, _, spans = read(pair, [{"role": "user", "content": text}])
    assert {reason for reason, _ in spans} == {"control", "last_user"}


# --- plain ChatML ---


def test_plain_chatml_with_bos():
    roles = {"S": "system", "U": "user", "A": "assistant", "V": "user"}
    turns = [{"role": role, "content": text} for text, role in roles.items()]
    structure, tokens, spans = read(chatml(), turns)
    assert spans == [
        ("bos", "<|im_start|>"), ("control", "system\n"), ("system", "S"),
        ("control", "<|im_end|>\n<|im_start|>user\n"),  # the first user turn is none of the protected
        ("control", "<|im_end|>\n<|im_start|>assistant\n"),
        ("control", "<|im_end|>\n<|im_start|>user\n"), ("last_user", "V"),
        ("control", "<|im_end|>\n<|im_start|>assistant\n"),
    ]  # fmt: skip
    starts = [i for i, t in enumerate(tokens) if t == 256]
    assert structure.messages.tolist() == [*starts, len(tokens)]


def test_headers_of_llama_3():
    turns = [("system", "S"), ("user", "U"), ("assistant", "A"), ("ipython", "R"), ("user", " V")]
    structure, tokens, spans = read(llama3(), [{"role": role, "content": text} for role, text in turns])

    def header(role):
        return f"<|start_header_id|>{role}<|end_header_id|>\n\n"

    assert spans == [
        ("bos", "<|begin_of_text|>"), ("control", header("system")), ("system", "S"),
        ("control", "<|eot_id|>" + header("user")), ("control", "<|eot_id|>" + header("assistant")),
        ("control", "<|eot_id|><|start_header_id|>"), ("tool_result", "ipython"),
        ("control", "<|end_header_id|>"), ("tool_result", "\n\n"),
        ("control", "<|eot_id|>" + header("user") + " "), ("last_user", "V"),
        ("control", "<|eot_id|>" + header("assistant")),
    ]  # fmt: skip
    assert structure.tools == "a tool result in message 3"
    starts = [i for i, t in enumerate(tokens) if t == 257]
    assert structure.messages.tolist() == [*starts, len(tokens)]


def test_a_header_of_llama_3_without_its_end_is_a_marker():
    tokenizer, _ = llama3()
    tokens = tokenizer.encode("<|start_header_id|>no header<|eot_id|> text")
    structure = read_structure(tokens, tokenizer, PROTECT)
    assert [(s.start, s.end, s.reason) for s in structure.spans] == [(0, 1, "control"), (10, 12, "control")]


def test_a_token_for_each_role():
    turns = [("system", "S"), ("user", "U"), ("assistant", "A"), ("tool", "R"), ("user", " V")]
    structure, tokens, spans = read(phi(), [{"role": role, "content": text} for role, text in turns])
    assert spans == [
        ("control", "<|system|>\n"), ("system", "S"), ("control", "<|end|>\n<|user|>\n"),
        ("control", "<|end|>\n<|assistant|>\n"), ("control", "<|end|>\n<|tool|>"), ("tool_result", "\n"),
        ("control", "<|end|>\n<|user|>\n "), ("last_user", "V"), ("control", "<|end|>\n<|assistant|>\n"),
    ]  # fmt: skip
    assert structure.tools == "a tool result in message 3"
    starts = [i for i, t in enumerate(tokens) if 257 <= t <= 260]
    assert structure.messages.tolist() == [*starts, len(tokens)]


def test_the_packaged_pairs_messages_close_at_the_next_role():
    model = open_gguf(embedded.TARGET)
    tokenizer = Tokenizer.from_gguf(model.fields)
    prompt = "<|user|>One. " + "Two, three. " * 40 + "What?<|assistant|> four<|im_end|><|user|>Five?<|assistant|>"
    structure = read_structure(tokenizer.encode(prompt), tokenizer, PROTECT)
    shown = [(s.reason, tokenizer.decode(tokenizer.encode(prompt)[s.start : s.end])) for s in structure.spans]
    assert shown == [
        ("control", "<|user|>"), ("control", "<|assistant|>"), ("control", "<|im_end|><|user|>"),
        ("last_user", "Five?"), ("control", "<|assistant|>"),
    ]  # fmt: skip


def test_a_tool_message_is_a_result():
    turns = [{"role": "user", "content": "U"}, {"role": "tool", "content": "42"}]
    structure, _, spans = read(chatml(), turns)
    assert ("tool_result", "tool\n") in spans and structure.tools == "a tool result in message 1"
    assert ("last_user", "U") in spans


@pytest.mark.parametrize("length, protected", [(64, 64), (65, 64), (1000, 64)])
def test_a_long_last_turn_is_protected_at_its_end(length, protected):
    structure, _, _ = read(chatml(), [{"role": "user", "content": "u" * length}])
    assert structure.counts["last_user"] == protected
    last = np.flatnonzero(structure.labels == 1 + REASONS.index("last_user"))
    assert last.tolist() == list(range(6 + length - protected, 6 + length))


def test_a_last_turn_up_to_an_eighth_of_the_prompt_is_protected_whole():
    turns = [{"role": "user", "content": "a" * 1000}, {"role": "assistant", "content": "b"}]
    _, tokens, _ = read(chatml(), [*turns, {"role": "user", "content": ""}])
    most = next(n for n in range(200) if n > (len(tokens) + n) // 8) - 1
    for more, protected in ((most, most), (most + 1, 64)):
        structure, _, _ = read(chatml(), [*turns, {"role": "user", "content": "c" * more}])
        assert structure.counts["last_user"] == protected


def test_how_much_of_a_long_last_turn_is_a_setting():
    turns = [{"role": "user", "content": "c" * 900}]
    structure, _, _ = read(chatml(), turns, v3(protect="on", last_user=900))
    assert structure.counts["last_user"] == 900
    structure, _, _ = read(chatml(), turns, v3(protect="on", last_user=0))
    assert "last_user" not in structure.counts


def test_an_answer_to_be_continued_is_kept():
    tokenizer, _ = chatml()
    tokens = tokenizer.encode("<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nThe answer is")
    structure = read_structure(tokens, tokenizer, PROTECT)
    assert structure.spans[-1].reason == "control" and structure.spans[-1].end == len(tokens)
    assert structure.protected.all()


def test_a_marker_alone_is_no_message():
    tokenizer, _ = chatml()
    tokens = tokenizer.encode("see <|im_start|> and then " + "x" * 50 + "\n" + "y" * 50)
    structure = read_structure(tokens, tokenizer, PROTECT)
    assert [tuple(s) for s in structure.spans] == [(4, 5, "control")]


# --- raw prompts, off ---


def test_a_raw_prompt_has_control_tokens_and_ranges_only():
    tokenizer = Tokenizer.from_gguf(open_gguf(FIXTURES / "trained" / "pair-draft-Q4_K_M.gguf").fields)
    tokens = tokenizer.encode(" the code of the red door is amber falcon . what is the code ?")
    structure = read_structure(tokens, tokenizer, PROTECT, ranges=[(2, 5)])
    assert [tuple(s) for s in structure.spans] == [(2, 5, "caller")]
    assert structure.messages.size == 0 and structure.sentences.tolist() == [10] and structure.indented.size == 0
    assert structure.tools is None


def test_off_protects_ranges_only(agent, pair):
    _, tokens, _ = agent
    structure = read_structure(tokens, pair[0], v3(), ranges=[[100, 200]])
    assert structure.counts == {"caller": 100} and structure.messages.size == 0
    assert structure.tools == "tools in the system message"


def test_tool_guard_protect_protects_prompts_with_tools(agent, pair):
    settings = v3(tool_guard="protect")
    structure, _, _ = read(pair, TURNS, settings, tools=[TOOL])
    assert structure.counts == agent[0].counts
    structure, _, _ = read(pair, [{"role": "user", "content": "Hi"}], settings)
    assert structure.counts == {}
    structure, _, _ = read(pair, [{"role": "user", "content": "Hi"}], settings, tools_given=True)
    assert structure.tools == "tools given to the template" and "control" in structure.counts


# --- where tools show ---


@pytest.mark.parametrize(
    "text, evidence",
    [
        ("You have access to these tools: a, b.", "'access to these tools' in the first 256 tokens"),
        ('[{"type": "function", "name": "a"}]', "'\"type\": \"function\"' in the first 256 tokens"),
        ("Reply with tool_calls only.", "'tool_calls' in the first 256 tokens"),
        ("x" * 256 + " tool_calls", None),
        ("x" * 240 + " tool_calls", "'tool_calls' in the first 256 tokens"),
        ("Differentiate the following functions: the tools of calculus.", None),
    ],
)
def test_keywords_at_the_start(text, evidence):
    tokenizer, _ = chatml()
    assert read_structure(tokenizer.encode(text), tokenizer, v3()).tools == evidence


def test_a_tool_call_alone_is_evidence(pair):
    turns = [{"role": "user", "content": sentences(60)}, TURNS[4]]
    structure, _, _ = read(pair, turns)
    assert structure.tools == "a tool call in message 1"


# --- the caller's ranges ---


def test_ranges_are_sorted_and_may_touch():
    assert check_ranges([(5, 9), [0, 5], (np.int64(9), 10)], 10) == [(0, 5), (5, 9), (9, 10)]
    assert check_ranges([], 10) == []


@pytest.mark.parametrize(
    "ranges, message",
    [
        ([(0, 11)], "protect[0]: found [0, 11), expected [start, end) with 0 <= start < end <= 10"),
        ([(0, 1), (-1, 3)], "protect[1]: found [-1, 3), expected [start, end) with 0 <= start < end <= 10"),
        ([(4, 4)], "protect[0]: found [4, 4), expected [start, end) with 0 <= start < end <= 10"),
        ([(0, 4), (6, 8), (3, 5)], "protect[2]: found [3, 5), expected no overlap with [0, 4)"),
        ([(0, 4), (0, 4)], "protect[1]: found [0, 4), expected no overlap with [0, 4)"),
        ([(0, 1.5)], "protect[0]: found (0, 1.5), expected [start, end) with 0 <= start < end <= 10"),
        ([(0, True)], "protect[0]: found (0, True), expected [start, end) with 0 <= start < end <= 10"),
        ([3], "protect[0]: found 3, expected [start, end) with 0 <= start < end <= 10"),
        (["ab"], "protect[0]: found 'ab', expected [start, end) with 0 <= start < end <= 10"),
        ([(1, 2, 3)], "protect[0]: found (1, 2, 3), expected [start, end) with 0 <= start < end <= 10"),
    ],
)
def test_bad_ranges(ranges, message):
    with pytest.raises(SpvkError) as error:
        check_ranges(ranges, 10)
    assert str(error.value) == message


# --- the proof ---


def test_verify_names_the_first_token_lost():
    structure = Structure(np.array([8, 0, 3, 3, 0, 0, 1, 0], dtype=np.int8))
    settings = v3(select="chunk", keep=0.1, chunk=2, guard_first=1, guard_last=0)
    lost = choose(np.array([0, 0, 0, 0, 9, 9, 0, 0.0]), settings)
    loss = verify(lost, structure)
    assert loss == (2, "system", 3, 4)
    assert str(loss) == "protected token 2 (system) was dropped, 3 of 4 protected tokens in all"
    assert verify(choose(np.arange(8.0), settings, structure), structure) is None

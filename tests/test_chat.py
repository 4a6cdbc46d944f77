"""Chat templates: Qwen3.5's own template against strings worked out from its text, and the sandbox."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

import spvk.chat
from spvk.chat import ChatTemplate, default_messages
from spvk.errors import TokenizerError
from spvk.tokenizer import Tokenizer

SOURCE = (Path(__file__).parent / "fixtures" / "tokenizer" / "Qwen3.5-4B.jinja").read_text()

TOOLS_HEAD = "<|im_start|>system\n# Tools\n\nYou have access to the following functions:\n\n<tools>\n"
TOOLS_TAIL = """
</tools>

If you choose to call a function ONLY reply in the following format with NO suffix:

<tool_call>
<function=example_function_name>
<parameter=example_parameter_1>
value_1
</parameter>
<parameter=example_parameter_2>
This is the value for the second parameter
that can span
multiple lines
</parameter>
</function>
</tool_call>

<IMPORTANT>
Reminder:
- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested \
within <tool_call></tool_call> XML tags
- Required parameters MUST be specified
- You may provide optional reasoning for your function call in natural language BEFORE the function call, \
but NOT after
- If there is no function call available, answer the question like normal with your current knowledge and \
do not tell the user about function calls
</IMPORTANT>"""


def user(content: str) -> dict:
    return {"role": "user", "content": content}


def assistant(content: str, **more) -> dict:
    return {"role": "assistant", "content": content, **more}


def small_tokenizer(pre: str = "llama-bpe", **keys) -> Tokenizer:
    return Tokenizer.from_gguf(
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": pre,
            "tokenizer.ggml.merges": [],
            "tokenizer.ggml.tokens": ["h", "i", "<s>", "</s>"],
            "tokenizer.ggml.token_type": [1, 1, 3, 3],
            "tokenizer.ggml.bos_token_id": 2,
            "tokenizer.ggml.eos_token_id": 3,
        }
        | {f"tokenizer.ggml.{name}": value for name, value in keys.items()}
    )


@pytest.fixture(scope="module")
def qwen() -> ChatTemplate:
    return ChatTemplate(SOURCE)


# --- Qwen3.5's template ---


def test_system_and_user(qwen):
    assert qwen.render(default_messages(" Hi\n", "Be brief.")) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n"
    )


def test_thinking_switched_off(qwen):
    assert qwen.render([user("Hi")], enable_thinking=False) == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )


def test_earlier_answers_lose_their_thoughts(qwen):
    messages = [user("Hi"), assistant("<think>\nhm\n</think>\n\nHello"), user("Bye")]
    assert qwen.render(messages) == (
        "<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello<|im_end|>\n"
        "<|im_start|>user\nBye<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n"
    )


def test_last_answer_without_generation_prompt(qwen):
    messages = [user("Hi"), assistant("Hello", reasoning_content="greet")]
    assert qwen.render(messages, add_generation_prompt=False) == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\ngreet\n</think>\n\nHello<|im_end|>\n"
    )


def test_tools_are_listed_as_plain_json(qwen):
    tool = {"type": "function", "function": {"name": "weather", "description": "Température < 0 & 'dry'"}}
    assert qwen.render(default_messages("Hi", "Be brief."), tools=[tool]) == (
        TOOLS_HEAD
        + '{"type": "function", "function": {"name": "weather", "description": "Température < 0 & \'dry\'"}}'
        + TOOLS_TAIL
        + "\n\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n"
    )


def test_tool_call_and_response(qwen):
    call = {
        "type": "function",
        "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 3, "units": ["C", "F"]}},
    }
    messages = [user("Weather?"), assistant("", tool_calls=[call]), {"role": "tool", "content": "sunny"}]
    assert qwen.render(messages) == (
        "<|im_start|>user\nWeather?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n<tool_call>\n<function=weather>\n"
        "<parameter=city>\nZürich\n</parameter>\n"
        "<parameter=days>\n3\n</parameter>\n"
        '<parameter=units>\n["C", "F"]\n</parameter>\n'
        "</function>\n</tool_call><|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nsunny\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n<think>\n"
    )


def test_content_in_parts(qwen):
    parts = [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    assert qwen.render([{"role": "user", "content": parts}], add_generation_prompt=False) == (
        "<|im_start|>user\nAB<|im_end|>\n"
    )


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "tokenizer.chat_template: No messages provided."),
        ([{"role": "system", "content": "x"}], "tokenizer.chat_template: No user query found in messages."),
        ([user("x"), {"role": "robot", "content": ""}], "tokenizer.chat_template: Unexpected message role."),
    ],
)
def test_the_template_refuses(qwen, messages, message):
    with pytest.raises(TokenizerError) as error:
        qwen.render(messages)
    assert str(error.value) == message


# --- helpers that templates rely on ---


def test_default_messages():
    assert default_messages("p") == [user("p")]
    assert default_messages("p", "s") == [{"role": "system", "content": "s"}, user("p")]


def test_block_lines_leave_no_blanks():
    source = "a\n  {% if true %}\nb\n  {% endif %}\nc"
    assert ChatTemplate(source).render([]) == "a\nb\nc"


def test_break_and_continue():
    source = (
        "{% for m in messages %}{% if m.content == 'skip' %}{% continue %}{% endif %}"
        "{% if m.content == 'stop' %}{% break %}{% endif %}{{ m['content'] }}{% endfor %}"
    )
    assert ChatTemplate(source).render([user(c) for c in ("a", "skip", "b", "stop", "c")]) == "ab"


def test_tojson_options():
    source = "{{ x | tojson }}|{{ x | tojson(indent=1, sort_keys=true) }}|{{ x | tojson(true) }}"
    assert ChatTemplate(source).render([], x={"b": "é", "a": 1}) == (
        '{"b": "é", "a": 1}|{\n "a": 1,\n "b": "é"\n}|{"b": "\\u00e9", "a": 1}'
    )


def test_strftime_now(monkeypatch):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 3, 9)

    monkeypatch.setattr(spvk.chat, "datetime", Clock)
    assert ChatTemplate("{{ strftime_now('%d %b %Y') }}").render([]) == "09 Mar 2026"


def test_bos_and_eos_texts_appear_once():
    source = "{{ bos_token }}hi{{ eos_token }}"
    assert ChatTemplate(source).render([]) == "hi"
    tokenizer = small_tokenizer("qwen2")  # adds neither, so the template's stay
    assert ChatTemplate(source, tokenizer).render([]) == "<s>hi</s>"
    tokenizer = small_tokenizer("llama-bpe", add_eos_token=True)
    prompt = ChatTemplate(source, tokenizer).render([])
    assert prompt == "hi"
    assert tokenizer.encode(prompt) == [2, 0, 1, 3]


# --- errors ---


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "a\n{% if %}",
            "tokenizer.chat_template: line 2: Expected an expression, got 'end of statement block'",
        ),
        ("{{ x | nosuch }}", "tokenizer.chat_template: line 1: No filter named 'nosuch'."),
    ],
)
def test_template_that_does_not_compile(source, message):
    with pytest.raises(TokenizerError) as error:
        ChatTemplate(source)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ ''.__class__.__mro__ }}", "access to attribute '__class__' of 'str' object is unsafe."),
        ("{{ messages.append(1) }}", "access to attribute 'append' of 'list' object is unsafe."),
        ("{{ nothing.at.all }}", "'nothing' is undefined"),
        ("{{ raise_exception('two\nlines') }}", "two lines"),
        ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
        ("{{ 1 + 'a' }}", "TypeError: unsupported operand type(s) for +: 'int' and 'str'"),
        (
            "{% for i in range(99999999) %}{% endfor %}",
            "OverflowError: Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).",
        ),
    ],
)
def test_template_that_fails(source, message):
    with pytest.raises(TokenizerError) as error:
        ChatTemplate(source).render([])
    assert str(error.value) == "tokenizer.chat_template: " + message


def test_template_from_metadata():
    fields = {"tokenizer.chat_template": "{{ messages[0].content }}!"}
    assert ChatTemplate.from_gguf(fields).render([user("Hi")]) == "Hi!"
    with pytest.raises(TokenizerError) as error:
        ChatTemplate.from_gguf({})
    assert str(error.value) == (
        "tokenizer.chat_template: not in the file, expected a chat template; "
        "use --raw to send the prompt as it is"
    )
    with pytest.raises(TokenizerError) as error:
        ChatTemplate.from_gguf({"tokenizer.chat_template": 5})
    assert str(error.value) == "tokenizer.chat_template: found int, expected a string"

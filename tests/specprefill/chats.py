"""Chats for the tests: Qwen3.5's vocabulary and real template, and a small ChatML one."""

from __future__ import annotations

import lzma
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from spvk.chat import ChatTemplate
from spvk.gguf import open_gguf
from spvk.tokenizer import CONTROL, NORMAL, USER_DEFINED, Tokenizer

FIXTURES = Path(__file__).parents[1] / "fixtures"
MARKUP = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")

LLAMA3 = ("{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
          "{{ m.content }}<|eot_id|>{% endfor %}"
          "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}")
PHI = ("{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
       "{% if add_generation_prompt %}<|assistant|>\n{% endif %}")
ROLE_TOKENS = ["<s>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>"]


@lru_cache(maxsize=None)
def fields() -> dict:
    """Metadata of the vocabulary file, in which the markup of tools is no token of its own."""
    packed = FIXTURES / "tokenizer" / "ggml-vocab-qwen35.gguf.xz"
    with TemporaryDirectory() as folder:
        path = Path(folder) / packed.stem
        path.write_bytes(lzma.decompress(packed.read_bytes()))
        return dict(open_gguf(path).fields)


@lru_cache(maxsize=None)
def qwen(single_tokens: bool) -> tuple[Tokenizer, ChatTemplate]:
    """Tokenizer and template; with `single_tokens` MARKUP are tokens, as in the released models."""
    keys = fields()
    if single_tokens:
        tokens, types = list(keys["tokenizer.ggml.tokens"]), list(keys["tokenizer.ggml.token_type"])
        for i, text in enumerate(MARKUP):
            tokens[151657 + i], types[151657 + i] = text, USER_DEFINED
        keys = keys | {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types}
    tokenizer = Tokenizer.from_gguf(keys)
    source = (FIXTURES / "tokenizer" / "Qwen3.5-4B.jinja").read_text(encoding="utf-8")
    return tokenizer, ChatTemplate(source, tokenizer)


def of_bytes(template: str, controls: list[str], eos: int) -> tuple[Tokenizer, ChatTemplate]:
    """A vocabulary of one token a byte and of control tokens, the first of which is BOS."""
    spare = iter(range(256, 512))
    shown = [33 <= b <= 126 or 161 <= b <= 172 or b >= 174 for b in range(256)]
    tokens = [chr(b) if shown[b] else chr(next(spare)) for b in range(256)]
    tokens += controls
    tokenizer = Tokenizer.from_gguf({
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.merges": [],
        "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [NORMAL] * 256 + [CONTROL] * len(controls),
        "tokenizer.ggml.bos_token_id": 256, "tokenizer.ggml.eos_token_id": eos,
    })  # fmt: skip
    return tokenizer, ChatTemplate(template, tokenizer)


@lru_cache(maxsize=None)
def chatml() -> tuple[Tokenizer, ChatTemplate]:
    """SmolLM2's kind: `<|im_start|>` is BOS too, a plain ChatML template."""
    return of_bytes(CHATML, ["<|im_start|>", "<|im_end|>"], 257)


@lru_cache(maxsize=None)
def llama3() -> tuple[Tokenizer, ChatTemplate]:
    """Roles between markers of their own."""
    return of_bytes(LLAMA3, ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], 259)


@lru_cache(maxsize=None)
def phi() -> tuple[Tokenizer, ChatTemplate]:
    """A token for each role."""
    return of_bytes(PHI, ROLE_TOKENS, 261)


def sentences(n: int, about: str = "weather") -> str:
    return " ".join(f"Sentence {i} is about the {about}." for i in range(n))


TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather of a city"}}
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 3}}}
TURNS = [
    {"role": "system", "content": "Answer in one sentence."},
    {"role": "user", "content": "Read this. " + sentences(100)},
    {"role": "assistant", "content": "I have read it. " + sentences(40, "reading")},
    {"role": "user", "content": "What will the weather be?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": sentences(100, "forecast")},
    {"role": "assistant", "content": "It will be sunny."},
    {"role": "user", "content": "What should I wear?"},
]

"""One byte-level BPE for both models, trained on the generated text."""

from __future__ import annotations

import json
import random
from pathlib import Path

import gguf
from tokenizers import Regex, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from spvk.synth_vocabulary import SPELLING, Vocabulary
from spvk.tokenizer import _PRE, CONTROL, NORMAL, Tokenizer

from . import data

PRE = "qwen35"
USER, ASSISTANT, END, PAD = "<|user|>", "<|assistant|>", "<|im_end|>", "<|endoftext|>"
CONTROLS = [PAD, USER, ASSISTANT, END]
CHAT_TEMPLATE = (  # no token more than needed: the question is still near where the answer begins
    "{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>{{ m.content }}<|im_end|>"
    "{% else %}<|user|>{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def train_vocabulary(size: int = 2048, seed: int = 0, sentences: int = 40_000) -> Vocabulary:
    """A vocabulary of `size` tokens: 256 bytes, merges learnt from the training side's text, 4 control tokens."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer = split_like(PRE)
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(CONTROLS), initial_alphabet=list(SPELLING.values()), show_progress=False
    )
    backend.train_from_iterator(sample_text(seed, sentences), trainer)
    state = json.loads(backend.to_str())["model"]
    tokens = sorted(state["vocab"], key=state["vocab"].get)
    types = [NORMAL] * len(tokens) + [CONTROL] * len(CONTROLS)
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in state["merges"]]
    return Vocabulary("trained", tokens + CONTROLS, types, merges, len(tokens) + len(CONTROLS) - 1)


def split_like(pre: str) -> pre_tokenizers.PreTokenizer:
    """The pre-tokenizer of that name: its regexes, then bytes as GPT-2 spells them."""
    splits = [pre_tokenizers.Split(Regex(p), "isolated") for p in _PRE[pre].patterns]
    return pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )


def sample_text(seed: int, sentences: int):
    """Training text as the models read it, a sentence at a time."""
    world = data.World(random.Random(seed), held_out=False)
    for _ in range(sentences):
        yield " " + data.filler(world).text
        for puzzle in data.group(world):
            yield from (" " + s.text for s in puzzle.sentences)
            yield puzzle.question
            yield f" {puzzle.answer}"


def make_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """spvk's own tokenizer over it: what a GGUF file with this vocabulary gives."""
    return Tokenizer.from_gguf(
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": PRE,
            "tokenizer.ggml.tokens": vocabulary.tokens,
            "tokenizer.ggml.token_type": vocabulary.types,
            "tokenizer.ggml.merges": [" ".join(pair) for pair in vocabulary.merges],
            "tokenizer.ggml.eos_token_id": vocabulary.eos,
            "tokenizer.chat_template": CHAT_TEMPLATE,
        }
    )


def save(vocabulary: Vocabulary, path: Path) -> None:
    path.write_text(
        json.dumps({"tokens": vocabulary.tokens, "merges": vocabulary.merges}, ensure_ascii=False)
    )


def is_gguf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"GGUF"


def load(path: Path) -> Vocabulary:
    """What `save` wrote, or the vocabulary of a GGUF file with one of these models.

    Raises ValueError naming the file for anything else.
    """
    try:
        if is_gguf(path):
            fields = gguf.GGUFReader(path).fields
            tokens, merges = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges"))
            merges = [m.split(" ") for m in merges]
        else:
            state = json.loads(path.read_text())
            tokens, merges = state["tokens"], state["merges"]
        whole = set(CONTROLS) < set(tokens) and all(len(pair) == 2 for pair in merges)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}, expected vocabulary.json or a GGUF file") from None
    except Exception:  # whatever readers raise for other files
        whole = False
    if not whole:
        raise ValueError(
            f"{path}: found something else, expected the vocabulary of a model that was trained here"
        )
    types = [CONTROL if token in CONTROLS else NORMAL for token in tokens]
    return Vocabulary("trained", tokens, types, [tuple(m) for m in merges], len(tokens) - 1)

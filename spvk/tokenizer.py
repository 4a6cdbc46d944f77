"""Byte-level BPE tokenizer built from the vocabulary that a GGUF file carries.

Behaviour follows llama.cpp (src/llama-vocab.cpp): the pre-tokenizer regexes, which special tokens are
matched in text, when BOS and EOS are added, and which tokens end a generation. The merges themselves run
in the `tokenizers` package.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

from tokenizers import Regex, models, pre_tokenizers
from tokenizers import Tokenizer as _Backend

from spvk.errors import TokenizerError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # tokenizer.ggml.token_type

_CONTRACTIONS = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclass(frozen=True)
class _Pre:
    """A pre-tokenizer: regexes applied one after another, and the defaults that come with it."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False  # a whole word that is a token is taken as it is
    add_bos: bool = False


_PRE = {
    "qwen35": _Pre((
        _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + _SPACES,
    )),
    "qwen2": _Pre((
        _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _SPACES,
    )),
    "llama-bpe": _Pre((
        _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _SPACES,
    ), ignore_merges=True, add_bos=True),
    "smollm": _Pre((
        r"\p{N}",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    )),
}

# Texts that end a generation, and texts that are control tokens whatever type the file gives them.
_END_TEXTS = frozenset(
    "<|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> <|endoftext|> </s> "
    "<|eom_id|> <EOT> _<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos> <turn|> <|tool_response> "
    "<｜end▁of▁sentence｜> [e~[ "
    "<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD] "
    "<|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame> <|file_sep|>".split()
)
_FIM_TEXTS = frozenset(
    "<|fim_prefix|> <fim-prefix> <fim_prefix> <PRE> <|code_prefix|> <|prefix|> "
    "<|fim_suffix|> <fim-suffix> <fim_suffix> <SUF> <|code_suffix|> <|suffix|> "
    "<|fim_middle|> <fim-middle> <fim_middle> <MID> <|code_middle|> <|middle|>".split()
)
_END_KEYS = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in of every byte: {character: byte}."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in set(plain)]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}


_BYTE_OF = _byte_alphabet()


class Tokenizer:
    """Text to token ids and back, for one vocabulary. Build it with `from_gguf`.

    Attributes: `tokens` (list[str], the vocabulary as the file spells it, index = id), `types` (list[int]),
    `vocab_size`, `pre` (name of the pre-tokenizer), `bos_id` and `eos_id` (int or None), `eog_ids` (set[int]:
    ids that end a generation), `add_bos` and `add_eos` (what `encode` adds), `missing_bytes` (frozenset[int]:
    byte values that no token of this vocabulary can spell; `encode` leaves them out, as llama.cpp does).
    """

    def __init__(self, tokens: list[str], types: list[int], merges: Iterable[tuple[str, str]], pre: str,
                 fields: Mapping[str, Any]) -> None:
        self.tokens, self.pre = tokens, pre
        self.vocab_size = len(tokens)
        ids = _index(tokens)
        self.types = _with_control_texts(types, ids)
        self.bos_id = _token_id(fields, "bos", self.vocab_size)
        self.eos_id = _token_id(fields, "eos", self.vocab_size)
        self.add_bos = _flag(fields, "bos", _PRE[pre].add_bos, self.bos_id)
        self.add_eos = _flag(fields, "eos", False, self.eos_id)
        self.eog_ids = {ids[text] for text in _END_TEXTS if text in ids}
        self.eog_ids |= {_token_id(fields, name, self.vocab_size) for name in _END_KEYS} - {None}
        self.missing_bytes = frozenset(b for char, b in _BYTE_OF.items() if char not in ids)
        self._ids = ids
        self._splitters = {special: self._make_splitters(special) for special in (False, True)}
        self._backend = _backend(ids, merges, _PRE[pre])

    @classmethod
    def from_gguf(cls, fields: Mapping[str, Any]) -> Tokenizer:
        """Build from GGUF metadata: `fields` maps keys to Python values (lists or arrays, strings as str).

        Raises TokenizerError naming the key, what was found and what was expected.
        """
        _choice(fields, "tokenizer.ggml.model", ("gpt2",))
        pre = _choice(fields, "tokenizer.ggml.pre", tuple(_PRE))
        tokens = [text or f"[EMPTY_{i}]" for i, text in enumerate(_strings(fields, "tokenizer.ggml.tokens"))]
        if not tokens:
            raise TokenizerError("tokenizer.ggml.tokens: found no tokens, expected at least one")
        types = _types(fields, len(tokens))
        return cls(tokens, types, _merges(fields), pre, fields)

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """Token ids of `text`.

        add_special: add BOS and EOS where the file asks for them (`add_bos`, `add_eos`).
        parse_special: match control tokens such as <|im_end|> in the text; without it they are plain text.
        User-defined tokens are matched either way. Raises TokenizerError for text that is not Unicode.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise TokenizerError(f"text: found a lone surrogate U+{ord(text[error.start]):04X} at character "
                                 f"{error.start}, expected valid Unicode") from None
        ids = [self.bos_id] if add_special and self.add_bos else []
        for part in self._partition(text, parse_special):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += self._backend.encode(part, add_special_tokens=False).ids
        if add_special and self.add_eos:
            ids.append(self.eos_id)
        return ids

    def decode(self, ids: Iterable[int], *, skip_special: bool = False) -> str:
        """Text of `ids`; bytes that are not UTF-8 become U+FFFD.

        skip_special: leave out control, unknown and unused tokens. Raises TokenizerError for an id outside
        the vocabulary.
        """
        pieces = [self.token_bytes(i, skip_special=skip_special) for i in ids]
        return b"".join(pieces).decode("utf-8", "replace")

    def token_bytes(self, token: int, *, skip_special: bool = False) -> bytes:
        """The bytes that one token stands for (see `decode`)."""
        if not 0 <= token < self.vocab_size:
            raise TokenizerError(f"token id: found {token}, expected 0 to {self.vocab_size - 1}")
        text, kind = self.tokens[token], self.types[token]
        if kind in (CONTROL, UNKNOWN, UNUSED):
            return b"" if skip_special else text.encode()
        if kind == BYTE and (match := re.fullmatch(r"<0x([0-9A-Fa-f]{2})>", text)):
            return bytes([int(match[1], 16)])
        if kind == USER_DEFINED or not all(char in _BYTE_OF for char in text):
            return text.encode()  # user-defined tokens are stored as the text itself
        return bytes(_BYTE_OF[char] for char in text)

    def same_vocabulary(self, other: Tokenizer) -> str | None:
        """None when both map the same ids to the same tokens, else one line that says what differs."""
        if self.vocab_size != other.vocab_size:
            return f"vocabulary sizes differ: {self.vocab_size} and {other.vocab_size}"
        if self.tokens == other.tokens:
            return None
        i = next(i for i, (a, b) in enumerate(zip(self.tokens, other.tokens)) if a != b)
        return (f"vocabularies differ: token {i} is {self.tokens[i]!r} in one "
                f"and {other.tokens[i]!r} in the other")

    def _make_splitters(self, parse_special: bool) -> list[re.Pattern[str]]:
        """One regex for each byte length, longest first: a longer token wins over a shorter one anywhere."""
        kinds = (USER_DEFINED, CONTROL, UNKNOWN) if parse_special else (USER_DEFINED,)
        by_length: dict[int, list[str]] = {}
        for text, kind in zip(self.tokens, self.types):
            if kind in kinds:
                by_length.setdefault(len(text.encode()), []).append(re.escape(text))
        return [re.compile("(" + "|".join(by_length[n]) + ")") for n in sorted(by_length, reverse=True)]

    def _partition(self, text: str, parse_special: bool) -> list[str | int]:
        """Cut `text` at special tokens: a list of text pieces (str) and token ids (int)."""
        parts: list[str | int] = [text] if text else []
        for splitter in self._splitters[parse_special]:
            if splitter.search(text):
                parts = [piece for part in parts for piece in self._cut(part, splitter)]
        return parts

    def _cut(self, part: str | int, splitter: re.Pattern[str]) -> list[str | int]:
        if isinstance(part, int):
            return [part]
        pieces = splitter.split(part)  # text, token, text, token, ..., text
        return [self._ids[piece] if i % 2 else piece for i, piece in enumerate(pieces) if piece]


class StreamDecoder:
    """Text of tokens that arrive one at a time, never cutting a UTF-8 character.

    `push(id)` returns the characters that became complete; `finish()` returns what is left (U+FFFD for an
    incomplete character). All pieces joined equal `Tokenizer.decode` of all ids.
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special: bool = False) -> None:
        self._tokenizer, self._skip_special = tokenizer, skip_special
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        return self._utf8.decode(self._tokenizer.token_bytes(token, skip_special=self._skip_special))

    def finish(self) -> str:
        return self._utf8.decode(b"", final=True)


def _backend(ids: dict[str, int], merges: Iterable[tuple[str, str]], pre: _Pre) -> _Backend:
    merges = list(dict.fromkeys(merges))  # a pair's first rank counts
    try:
        bpe = models.BPE(vocab=ids, merges=merges, ignore_merges=pre.ignore_merges)
    except Exception as error:
        for left, right in merges:
            for text in (left, right, left + right):
                if text not in ids:
                    raise TokenizerError(f"tokenizer.ggml.merges: found {f'{left} {right}'!r} with {text!r}, "
                                         "expected only tokens of tokenizer.ggml.tokens") from None
        raise TokenizerError(f"tokenizer.ggml.merges: {error}") from None
    backend = _Backend(bpe)
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in pre.patterns]
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([*splits, to_bytes])
    return backend


def _field(fields: Mapping[str, Any], key: str, expected: str) -> Any:
    if key not in fields:
        raise TokenizerError(f"{key}: not in the file, expected {expected}")
    return fields[key]


def _choice(fields: Mapping[str, Any], key: str, choices: tuple[str, ...]) -> str:
    expected = " or ".join(filter(None, [", ".join(map(repr, choices[:-1])), repr(choices[-1])]))
    value = _field(fields, key, expected)
    if not isinstance(value, str) or value not in choices:
        raise TokenizerError(f"{key}: found {value!r}, expected {expected}")
    return value


def _strings(fields: Mapping[str, Any], key: str) -> list[str]:
    value = _field(fields, key, "an array of strings")
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        raise TokenizerError(f"{key}: found {type(value).__name__}, expected an array of strings")
    for i, item in enumerate(value):
        if not isinstance(item, str):
            raise TokenizerError(f"{key}[{i}]: found {type(item).__name__}, expected a string")
    return list(value)


def _merges(fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs from "left right"; the separator is the first space that is not the first character."""
    pairs = []
    for i, text in enumerate(_strings(fields, "tokenizer.ggml.merges")):
        at = text.find(" ", 1)
        if at < 0 or at + 1 == len(text):
            raise TokenizerError(f"tokenizer.ggml.merges[{i}]: found {text!r}, "
                                 "expected two tokens and a space")
        pairs.append((text[:at], text[at + 1:]))
    return pairs


def _types(fields: Mapping[str, Any], n_tokens: int) -> list[int]:
    key = "tokenizer.ggml.token_type"
    if key not in fields:
        return [NORMAL] * n_tokens
    values = fields[key]
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise TokenizerError(f"{key}: found {type(values).__name__}, expected {n_tokens} entries, "
                             "one for each token")
    if len(values) != n_tokens:
        raise TokenizerError(f"{key}: found {len(values)} entries, expected {n_tokens}, one for each token")
    try:
        return [index(value) for value in values]
    except TypeError:
        raise TokenizerError(f"{key}: found values that are not integers, expected 1 to 6") from None


def _index(tokens: Sequence[str]) -> dict[str, int]:
    ids: dict[str, int] = {}
    for i, text in enumerate(tokens):
        if ids.setdefault(text, i) != i:
            raise TokenizerError(f"tokenizer.ggml.tokens: found {text!r} at {ids[text]} and at {i}, "
                                 "expected every token once")
    return ids


def _with_control_texts(types: list[int], ids: Mapping[str, int]) -> list[int]:
    """Known end and fill-in-the-middle markers are control tokens even where the file says otherwise."""
    types = list(types)
    for text in _END_TEXTS | _FIM_TEXTS:
        if text in ids:
            types[ids[text]] = CONTROL
    return types


def _token_id(fields: Mapping[str, Any], name: str, n_tokens: int) -> int | None:
    key = f"tokenizer.ggml.{name}_token_id"
    if key not in fields:
        return None
    try:
        token = index(fields[key])
    except TypeError:
        token = -1
    if not 0 <= token < n_tokens:
        raise TokenizerError(f"{key}: found {fields[key]!r}, expected a token id from 0 to {n_tokens - 1}")
    return token


def _flag(fields: Mapping[str, Any], name: str, default: bool, token: int | None) -> bool:
    value = bool(fields.get(f"tokenizer.ggml.add_{name}_token", default))
    if value and token is None:
        raise TokenizerError(f"tokenizer.ggml.{name}_token_id: not in the file, expected a token id because "
                             f"this vocabulary adds {name.upper()}")
    return value

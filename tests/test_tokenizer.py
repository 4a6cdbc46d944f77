"""Tokenizer against llama.cpp's own vectors, hand-worked small vocabularies, and properties."""

from __future__ import annotations

import json
import lzma
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spvk.errors import TokenizerError
from spvk.tokenizer import StreamDecoder, Tokenizer

FIXTURES = Path(__file__).parent / "fixtures"
VECTORS = FIXTURES / "tokenizer" / "ggml-vocab-qwen35.gguf"
SEPARATOR = "\n__ggml_vocab_test__\n"
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


class FieldReader:
    """Metadata of a well-formed GGUF v3 file, read independently of the package."""

    def __init__(self, path: Path) -> None:
        self.data, self.at = path.read_bytes(), 24
        n_fields, = struct.unpack_from("<Q", self.data, 16)
        self.fields = {self.value(8): self.value(self.scalar("I")) for _ in range(n_fields)}

    def scalar(self, code: str):
        size = struct.calcsize("<" + code)
        self.at += size
        return struct.unpack_from("<" + code, self.data, self.at - size)[0]

    def value(self, kind: int):
        if kind == 8:
            size = self.scalar("Q")
            self.at += size
            return self.data[self.at - size:self.at].decode()
        if kind == 9:
            item, count = self.scalar("I"), self.scalar("Q")
            return [self.value(item) for _ in range(count)]
        return self.scalar(SCALARS[kind])


@pytest.fixture(scope="session")
def qwen35(tmp_path_factory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / VECTORS.name
    path.write_bytes(lzma.decompress(VECTORS.with_name(VECTORS.name + ".xz").read_bytes()))
    return Tokenizer.from_gguf(FieldReader(path).fields)


@pytest.fixture(scope="session")
def trained() -> Tokenizer:
    return Tokenizer.from_gguf(FieldReader(FIXTURES / "trained" / "pair-draft-Q4_K_M.gguf").fields)


def alphabet() -> list[str]:
    """GPT-2's spelling of the bytes 0 to 255; the id of a byte in a small vocabulary is its value."""
    spare = iter(range(256, 512))
    shown = [33 <= b <= 126 or 161 <= b <= 172 or b >= 174 for b in range(256)]
    return [chr(b) if shown[b] else chr(next(spare)) for b in range(256)]


def small(pre: str, merges=(), extra=(), **keys) -> dict:
    """Fields of a vocabulary: 256 bytes, then one token a merge, then `extra` (text, type) pairs."""
    tokens = alphabet() + [merge.replace(" ", "") for merge in merges] + [text for text, _ in extra]
    types = [NORMAL] * (256 + len(merges)) + [kind for _, kind in extra]
    fields = {"model": "gpt2", "pre": pre, "tokens": tokens, "token_type": np.array(types, np.int32),
              "merges": list(merges)} | keys
    return {f"tokenizer.ggml.{name}": value for name, value in fields.items()}


def plain(pre: str, text: str, merges=(), extra=(), **options) -> list[int]:
    return Tokenizer.from_gguf(small(pre, merges, extra)).encode(text, add_special=False, **options)


def read_vectors() -> list[tuple[str, list[int]]]:
    texts = VECTORS.with_suffix(".gguf.inp").read_bytes().decode().split(SEPARATOR)
    lines = VECTORS.with_suffix(".gguf.out").read_text().split("\n")
    return [(text, [int(n) for n in line.split()]) for text, line in zip(texts, lines, strict=True)]


# --- llama.cpp's vectors ---

def test_there_are_51_vectors():
    assert len(read_vectors()) == 51


@pytest.mark.parametrize(("text", "ids"), read_vectors())
def test_encode_equals_llama_cpp(qwen35, text, ids):
    assert qwen35.encode(text, add_special=False, parse_special=False) == ids
    assert qwen35.decode(ids) == text


def test_ids_of_the_real_vocabulary_are_kept(qwen35):
    assert qwen35.vocab_size == 151936
    assert qwen35.tokens[151645] == "<|im_end|>"
    assert qwen35.tokens[151935] == "[PAD151935]"
    assert qwen35.encode("[PAD151935]", parse_special=False) == [151935]  # user-defined in this file
    assert (qwen35.bos_id, qwen35.eos_id) == (151643, 151643)
    assert qwen35.eog_ids == {128247, 151643, 151645}  # </s>, <|endoftext|>, <|im_end|>
    assert qwen35.missing_bytes == frozenset()


def test_control_tokens_need_parse_special(qwen35):
    text = "<|im_start|>Hello world<|im_end|>"
    assert qwen35.encode(text) == [151644, 9707, 1879, 151645]
    as_text = qwen35.encode(text, parse_special=False)
    assert {151644, 151645}.isdisjoint(as_text)
    assert qwen35.decode(as_text) == text
    assert qwen35.decode([151644, 9707, 1879, 151645], skip_special=True) == "Hello world"


texts = st.lists(st.one_of(
    st.text(),
    st.sampled_from(["<|im_end|>", "[PAD151700]", "</s>", "'re", "  \n ", "e\u0301", "\U0001f999", "\x00"]),
)).map("".join)


@settings(deadline=None)
@given(text=texts)
def test_any_text_round_trips(qwen35, text):
    assert qwen35.decode(qwen35.encode(text, add_special=False, parse_special=False)) == text
    assert qwen35.decode(qwen35.encode(text, add_special=False, parse_special=True)) == text


@settings(deadline=None)
@given(ids=st.lists(st.integers(0, 151935)))
def test_streamed_text_equals_decoded_text(qwen35, ids):
    stream = StreamDecoder(qwen35)
    assert "".join([stream.push(i) for i in ids] + [stream.finish()]) == qwen35.decode(ids)


def test_stream_waits_for_whole_characters(qwen35):
    stream = StreamDecoder(qwen35)
    assert [stream.push(i) for i in (419, 11162, 99, 247, 13)] == [" this", " ", "", "\U0001f999", "."]
    assert stream.push(11162) == " "
    assert stream.finish() == "\ufffd"


def test_stream_skips_special_tokens(qwen35):
    stream = StreamDecoder(qwen35, skip_special=True)
    assert [stream.push(i) for i in (151644, 9707, 151645)] == ["", "Hello", ""]


# --- the trained pair: user-defined words that carry their own leading space ---

def test_user_defined_words_with_spaces(trained):
    ids = [trained.tokens.index(word) for word in (" the", " door", " is", " red", " .")]
    assert trained.encode(" the door is red .", parse_special=False) == ids
    assert trained.decode(ids) == " the door is red ."
    assert trained.encode("the", parse_special=False) == [ord("t"), ord("h"), ord("e")]


def test_unused_tokens_are_not_matched(trained):
    assert trained.tokens[630] == "[PAD630]"
    assert trained.encode("[PAD630]") == list(b"[PAD630]")
    assert trained.decode([630]) == "[PAD630]"
    assert trained.decode([630], skip_special=True) == ""


def test_trained_prompts_round_trip(trained):
    lines = (FIXTURES / "trained" / "prompts.jsonl").read_text().splitlines()
    prompts = [json.loads(line)["tokens"] for line in lines[::10]]
    assert len(prompts) == 28
    assert [trained.encode(trained.decode(ids)) for ids in prompts] == prompts


# --- the regexes, on merges that fire only within one piece of text ---

SPLIT_MERGES = ("1 2", "Ġ 1", "Ġ Ġ", "Ġ c", "Ġc d", "' S", "' s")  # ids 256 to 262


@pytest.mark.parametrize(("text", "ids"), [
    ("ab 12 cd", [97, 98, 32, 49, 50, 260]),
    ("a  1", [97, 258, 49]),  # digits are cut out first, so the spaces before one stay together
    ("a  cd", [97, 32, 260]),
    ("it's", [105, 116, 262]),
    ("it'S", [105, 116, 39, 83]),
    ("\u0662x", [0xD9, 0xA2, 120]),
])
def test_smollm_pieces(text, ids):
    assert plain("smollm", text, SPLIT_MERGES) == ids


@pytest.mark.parametrize("pre", ["qwen2", "qwen35"])
@pytest.mark.parametrize(("text", "ids"), [
    ("ab 12 cd", [97, 98, 32, 49, 50, 260]),
    ("a  1", [97, 32, 32, 49]),
    ("it's", [105, 116, 262]),
    ("it'S", [105, 116, 261]),
])
def test_qwen_pieces(pre, text, ids):
    assert plain(pre, text, SPLIT_MERGES) == ids


def test_llama_takes_digits_by_three_and_qwen_one_by_one():
    merges = ("1 2", "12 3", "123 4")
    assert Tokenizer.from_gguf(small("llama-bpe", merges, bos_token_id=0)).encode("1234") == [0, 257, 52]
    assert plain("qwen2", "1234", merges) == [49, 50, 51, 52]


def test_combining_marks_join_letters_in_qwen35_only():
    acute = "".join(alphabet()[byte] for byte in "\u0301".encode())
    merges = (f"e {acute[0]}", f"e{acute[0]} {acute[1]}")
    assert plain("qwen35", "e\u0301", merges) == [257]
    assert plain("qwen2", "e\u0301", merges) == [101, 0xCC, 0x81]


def test_llama_takes_a_whole_word_that_is_a_token():
    fields = small("llama-bpe", (), [("xyz", NORMAL)], bos_token_id=0, add_bos_token=False)
    assert Tokenizer.from_gguf(fields).encode("xyz xyz") == [256, 32, 120, 121, 122]
    assert plain("qwen2", "xyz", (), [("xyz", NORMAL)]) == [120, 121, 122]


def test_first_rank_of_a_repeated_merge_counts():
    fields = small("qwen2", ("a b", "b c"))
    fields["tokenizer.ggml.merges"] = ["a b", "b c", "a b"]
    assert Tokenizer.from_gguf(fields).encode("abc") == [256, 99]


# --- special tokens ---

def test_longer_special_token_wins_over_an_earlier_one():
    extra = [("ab", USER_DEFINED), ("bcd", USER_DEFINED)]
    assert plain("qwen2", "abcd ab", (), extra) == [97, 257, 32, 256]


def test_special_tokens_with_regex_characters():
    assert plain("qwen2", "a+(b)", (), [("+(", USER_DEFINED), (".*", USER_DEFINED)]) == [97, 256, 98, 41]


def test_unknown_token_is_matched_like_a_control_token():
    extra = [("<unk>", UNKNOWN)]
    assert plain("qwen2", "<unk>", (), extra) == [256]
    assert plain("qwen2", "<unk>", (), extra, parse_special=False) == list(b"<unk>")


def test_known_markers_are_control_tokens_whatever_their_type():
    extra = [("<|im_end|>", USER_DEFINED), ("<|fim_prefix|>", NORMAL), ("<think>", USER_DEFINED)]
    tokenizer = Tokenizer.from_gguf(small("qwen2", (), extra))
    text = "<|im_end|><|fim_prefix|><think>"
    assert tokenizer.encode(text) == [256, 257, 258]
    assert tokenizer.encode(text, parse_special=False) == [*b"<|im_end|><|fim_prefix|>", 258]
    assert tokenizer.decode([256, 257, 258], skip_special=True) == "<think>"
    assert tokenizer.eog_ids == {256}


def test_end_tokens_come_from_keys_and_texts():
    extra = [("<stop>", CONTROL), ("<turn>", CONTROL), ("<|endoftext|>", CONTROL), ("<other>", CONTROL)]
    keys = {"eos_token_id": np.uint32(256), "eot_token_id": 257}
    assert Tokenizer.from_gguf(small("qwen2", (), extra, **keys)).eog_ids == {256, 257, 258}


@pytest.mark.parametrize(("pre", "keys", "ids"), [
    ("qwen2", {}, [104]),
    ("llama-bpe", {}, [1, 104]),
    ("llama-bpe", {"add_bos_token": False}, [104]),
    ("qwen2", {"add_bos_token": True, "add_eos_token": True}, [1, 104, 2]),
])
def test_bos_and_eos(pre, keys, ids):
    tokenizer = Tokenizer.from_gguf(small(pre, bos_token_id=1, eos_token_id=2, **keys))
    assert tokenizer.encode("h") == ids
    assert tokenizer.encode("h", add_special=False) == [104]


def test_empty_text_and_empty_token():
    tokenizer = Tokenizer.from_gguf(small("qwen2", (), [("", UNUSED)]))
    assert tokenizer.encode("") == []
    assert tokenizer.decode([]) == ""
    assert tokenizer.tokens[256] == "[EMPTY_256]"


def test_decode_of_bytes_and_of_text_outside_the_byte_alphabet():
    tokenizer = Tokenizer.from_gguf(small("qwen2", (), [("<0xE9>", BYTE), ("a b", NORMAL)]))
    assert tokenizer.token_bytes(256) == b"\xe9"
    assert tokenizer.decode([0xC3, 0xA9, 256, 257]) == "é\ufffda b"


def test_missing_bytes_are_listed_and_left_out():
    fields = small("smollm")
    fields["tokenizer.ggml.tokens"][4] = "[GONE]"
    tokenizer = Tokenizer.from_gguf(fields)
    assert tokenizer.missing_bytes == {4}
    assert tokenizer.encode("a\x04b") == [97, 98]


def test_types_default_to_normal():
    fields = small("qwen2", ("a b",))
    del fields["tokenizer.ggml.token_type"]
    assert Tokenizer.from_gguf(fields).decode([256]) == "ab"


# --- comparing vocabularies ---

def test_same_vocabulary():
    one = Tokenizer.from_gguf(small("qwen2", ("a b",)))
    assert one.same_vocabulary(Tokenizer.from_gguf(small("qwen35", ("a b",)))) is None
    longer = Tokenizer.from_gguf(small("qwen2", ("a b", "b c")))
    assert one.same_vocabulary(longer) == "vocabulary sizes differ: 257 and 258"
    other = Tokenizer.from_gguf(small("qwen2", ("b c",)))
    assert one.same_vocabulary(other) == "vocabularies differ: token 256 is 'ab' in one and 'bc' in the other"


# --- errors ---

@pytest.mark.parametrize(("key", "value", "message"), [
    ("model", None, "tokenizer.ggml.model: not in the file, expected 'gpt2'"),
    ("model", "llama", "tokenizer.ggml.model: found 'llama', expected 'gpt2'"),
    ("model", ["gpt2"], "tokenizer.ggml.model: found ['gpt2'], expected 'gpt2'"),
    ("pre", "tekken",
     "tokenizer.ggml.pre: found 'tekken', expected 'qwen35', 'qwen2', 'llama-bpe' or 'smollm'"),
    ("pre", None, "tokenizer.ggml.pre: not in the file, expected 'qwen35', 'qwen2', 'llama-bpe' or 'smollm'"),
    ("tokens", None, "tokenizer.ggml.tokens: not in the file, expected an array of strings"),
    ("tokens", "abc", "tokenizer.ggml.tokens: found str, expected an array of strings"),
    ("tokens", 3, "tokenizer.ggml.tokens: found int, expected an array of strings"),
    ("tokens", ["a", 5], "tokenizer.ggml.tokens[1]: found int, expected a string"),
    ("tokens", [], "tokenizer.ggml.tokens: found no tokens, expected at least one"),
    ("tokens", [*alphabet()[:255], "a"],
     "tokenizer.ggml.tokens: found 'a' at 97 and at 255, expected every token once"),
    ("token_type", [1, 1], "tokenizer.ggml.token_type: found 2 entries, expected 256, one for each token"),
    ("token_type", 1, "tokenizer.ggml.token_type: found int, expected 256 entries, one for each token"),
    ("token_type", ["x"] * 256,
     "tokenizer.ggml.token_type: found values that are not integers, expected 1 to 6"),
    ("merges", None, "tokenizer.ggml.merges: not in the file, expected an array of strings"),
    ("merges", ["ab"], "tokenizer.ggml.merges[0]: found 'ab', expected two tokens and a space"),
    ("merges", ["a "], "tokenizer.ggml.merges[0]: found 'a ', expected two tokens and a space"),
    ("merges", ["a b"],
     "tokenizer.ggml.merges: found 'a b' with 'ab', expected only tokens of tokenizer.ggml.tokens"),
    ("eos_token_id", 256, "tokenizer.ggml.eos_token_id: found 256, expected a token id from 0 to 255"),
    ("eos_token_id", "x", "tokenizer.ggml.eos_token_id: found 'x', expected a token id from 0 to 255"),
    ("add_bos_token", True, "tokenizer.ggml.bos_token_id: not in the file, expected a token id because "
                            "this vocabulary adds BOS"),
])
def test_bad_metadata(key, value, message):
    fields = small("qwen2") | {f"tokenizer.ggml.{key}": value}
    if value is None:
        del fields[f"tokenizer.ggml.{key}"]
    with pytest.raises(TokenizerError) as error:
        Tokenizer.from_gguf(fields)
    assert str(error.value) == message


def test_bad_text_and_bad_id():
    tokenizer = Tokenizer.from_gguf(small("qwen2"))
    with pytest.raises(TokenizerError) as error:
        tokenizer.encode("ab\udcff")
    assert str(error.value) == "text: found a lone surrogate U+DCFF at character 2, expected valid Unicode"
    for token in (256, -1):
        with pytest.raises(TokenizerError) as error:
            tokenizer.decode([token])
        assert str(error.value) == f"token id: found {token}, expected 0 to 255"

"""Every malformed header is refused by one exact line; every good one is read exactly.

The cases are those of llama.cpp's tests/test-gguf.cpp and of the published reports about GGUF readers.
"""

from __future__ import annotations

import numpy as np
import pytest
from builder import ARRAY, GGUF, MINUS_1, Entry, array, key, scalar, string, text, u32, u64

from spvk.errors import GGUFError
from spvk.gguf.cursor import MAX_ARRAY, MAX_STRING
from spvk.gguf.parser import parse_header

HUGE = 0x7FFFFFFFFFFFFFC0
ALIGN = "general.alignment"


def refusal(raw: bytes) -> str:
    with pytest.raises(GGUFError) as caught:
        parse_header(raw, "m.gguf")
    return str(caught.value)


def one(**changes) -> bytes:
    """A file with one tensor called t, changed."""
    return GGUF(tensors=[Entry(**changes)]).bytes()


def keyed(*keys: bytes, **changes) -> bytes:
    return GGUF(keys=list(keys), **changes).bytes()


EMPTY = GGUF().bytes()

HEADER = {
    "empty file": (b"", "size: found an empty file, expected a GGUF file"),
    "bad magic": (GGUF(magic=b"FUGG").bytes(), "magic: found b'FUGG', expected b'GGUF' (a GGUF file)"),
    "magic cut": (b"GG", "magic: found b'GG', expected b'GGUF' (a GGUF file)"),
    "only magic": (b"GGUF", "version: found the end of the file after 0 bytes, expected 4 bytes at offset 4"),
    "4 bytes after magic": (EMPTY[:8], "tensor count: found the end of the file after 0 bytes, "
                                       "expected 8 bytes at offset 8"),
    "cut in the key count": (EMPTY[:20], "key count: found the end of the file after 4 bytes, "
                                         "expected 8 bytes at offset 16"),
    "version 0": (GGUF(version=u32(0)).bytes(), "version: found 0, expected little-endian 2 or 3"),
    "version 1": (GGUF(version=u32(1)).bytes(), "version: found 1, expected little-endian 2 or 3"),
    "version 4": (GGUF(version=u32(4)).bytes(), "version: found 4, expected little-endian 2 or 3"),
    "big-endian": (GGUF(version=u32(3)[::-1]).bytes(), "version: found 3 in big-endian order, "
                                                       "expected little-endian 2 or 3"),
    "tensor count -1": (GGUF(n_tensors=MINUS_1).bytes(),
                        f"tensor count: found {MINUS_1}, expected at most 0 in 0 bytes"),
    "key count -1": (GGUF(n_keys=MINUS_1).bytes(),
                     f"key count: found {MINUS_1}, expected at most 0 in 0 bytes"),
    "more keys than fit": (keyed(key("a", scalar("u8", 1)), n_keys=2),
                           "key count: found 2, expected at most 1 in 14 bytes"),
    "more tensors than fit": (GGUF(n_tensors=3).bytes() + b"\0" * 67,
                              "tensor count: found 3, expected at most 2 in 67 bytes"),
    "too many keys": (GGUF(n_keys=65537).bytes() + b"\0" * 2**20,
                      "key count: found 65537, expected at most 65536 in 1048576 bytes"),
    "too many tensors": (GGUF(n_tensors=262145).bytes() + b"\0" * 2**24,
                         "tensor count: found 262145, expected at most 262144 in 16777216 bytes"),
}

SPACE = b"\0" * 32
KEYS = {
    "key length -1": (keyed(key("abc", scalar("u32", 1), length=MINUS_1)),
                      f"key 0: length: found {MINUS_1}, expected at most 11"),
    "key too long": (keyed(key("a" * 65536, scalar("u32", 1))),
                     "key 0: length: found 65536, expected at most 65535"),
    "empty key": (keyed(key("", scalar("u64", 1))), "key 0: found an empty name, expected a name"),
    "key not UTF-8": (keyed(key(b"a\xff", scalar("u32", 1))),
                      "key 0: found byte 0xff at 1 of b'a\\xff', expected UTF-8"),
    "value type 13": (keyed(key("a", u32(13) + b"\0")), "a: value type: found 13, expected 0 to 12"),
    "value type -1": (keyed(key("a", u32(2**32 - 1) + b"\0")),
                      "a: value type: found 4294967295, expected 0 to 12"),
    "duplicate key": (keyed(key("a", scalar("u32", 1)), key("a", scalar("u32", 1))),
                      "a: found the key twice, expected every key once"),
    "alignment 13": (keyed(key(ALIGN, scalar("u32", 13))),
                     f"{ALIGN}: found 13, expected a power of two from 8 to 65536"),
    "alignment 0": (keyed(key(ALIGN, scalar("u32", 0))),
                    f"{ALIGN}: found 0, expected a power of two from 8 to 65536"),
    "alignment 2^31": (keyed(key(ALIGN, scalar("u32", 2**31))),
                       f"{ALIGN}: found 2147483648, expected a power of two from 8 to 65536"),
    "alignment of wrong type": (keyed(key(ALIGN, scalar("i32", 32))),
                                f"{ALIGN}: value type: found 5, expected 4 (UINT32)"),
    "value cut": (keyed(key("ab", scalar("u64", 1)))[:-1],
                  "ab: found the end of the file after 7 bytes, expected 8 bytes at offset 38"),
    "string length -1": (keyed(key("a", string("x", length=MINUS_1))),
                         f"a: length: found {MINUS_1}, expected at most 1"),
    "string one too long": (keyed(key("a", string("xyz", length=4))),
                            "a: length: found 4, expected at most 3"),
    "string over the limit": (keyed(key("a", string(b"", length=MAX_STRING + 1))) + b"\0" * (MAX_STRING + 1),
                              "a: length: found 16777217, expected at most 16777216"),
    "string not UTF-8": (keyed(key("a", string(b"\xc3("))),
                         "a: found byte 0xc3 at 0 of b'\\xc3(', expected UTF-8"),
    "boolean 2": (keyed(key("a", scalar("bool", 2))), "a: found 2 as a boolean, expected 0 or 1"),
    "boolean 255 in an array": (keyed(key("a", array("bool", [0, 1, 255]))),
                                "a: found 255 as a boolean, expected 0 or 1"),
    "array count -1": (keyed(key("a", array("u8", [1], count=MINUS_1))),
                       f"a: count: found {MINUS_1}, expected at most {MAX_ARRAY}"),
    "array count wraps in bytes": (keyed(key("a", array("f64", [1], count=2**61))),
                                   f"a: count: found {2**61}, expected at most {MAX_ARRAY}"),
    "array longer than the file": (keyed(key("a", array("u16", [1, 2], count=3))),
                                   "a: found the end of the file after 4 bytes, "
                                   "expected 6 bytes at offset 49"),
    "string array longer than the file": (keyed(key("a", array("str", ["", ""], count=3))),
                                          "a: count: found 3, expected at most 2 more strings"),
    "too many strings": (keyed(key("a", array("str", [], count=2**22 + 1))) + b"\0" * (2**25 + 8),
                         "a: count: found 4194305, expected at most 4194304 more strings"),
    "element length -1": (keyed(key("a", array("str", ["xx"], count=2) + text("y", MINUS_1))),
                          f"a[1]: length: found {MINUS_1}, expected at most 1"),
    "element cut": (keyed(key("a", array("str", ["xxxxxxxx"], count=2) + b"abc")),
                    "a[1]: length: found the end of the file after 3 bytes, expected 8 bytes at offset 65"),
    "element not UTF-8": (keyed(key("a", array("str", [b"ok", b"\xf5"]))),
                          "a[1]: found byte 0xf5 at 0 of b'\\xf5', expected UTF-8"),
    "array of arrays": (keyed(key("a", u32(ARRAY) + u32(ARRAY) + u64(1) + SPACE)),
                        "a: element type: found 9, expected a scalar (0 to 7, 10 to 12) or string (8)"),
    "array of type 13": (keyed(key("a", u32(ARRAY) + u32(13) + u64(1) + SPACE)),
                         "a: element type: found 13, expected a scalar (0 to 7, 10 to 12) or string (8)"),
    "a name that is not one line": (keyed(key("a\nb\x1b[31m", u32(77) + b"\0")),
                                    "'a\\nb\\x1b[31m': value type: found 77, expected 0 to 12"),
}

TENSORS = {
    "name length -1": (one(name_length=MINUS_1),
                       f"tensor 0: name: length: found {MINUS_1}, expected at most 64"),
    "name too long": (one(name="x" * 65), "tensor 0: name: length: found 65, expected at most 64"),
    "empty name": (one(name=""), "tensor 0: name: found an empty name, expected a name"),
    "0 dimensions": (one(n_dims=0), "tensor t: dimensions: found 0, expected 1 to 4"),
    "5 dimensions": (one(n_dims=5), "tensor t: dimensions: found 5, expected 1 to 4"),
    "dimension -1": (one(shape=(MINUS_1,)), f"tensor t: ne0: found {MINUS_1}, expected 1 to 2147483647"),
    "zero dimension": (one(shape=(4, 0)), "tensor t: ne1: found 0, expected 1 to 2147483647"),
    "zero first dimension": (one(shape=(0,), type=2), "tensor t: ne0: found 0, expected 1 to 2147483647"),
    "ne 4 * INT32_MAX": (one(shape=(4 * (2**31 - 1),) * 2),
                         "tensor t: ne0: found 8589934588, expected 1 to 2147483647"),
    "elements beyond int64": (one(shape=(2**30,) * 4), f"tensor t: elements: found {2**120}, "
                                                       f"expected at most {2**40}"),
    "elements that wrap to 0": (one(shape=(2**16,) * 4), f"tensor t: elements: found {2**64}, "
                                                         f"expected at most {2**40}"),
    "bytes beyond int64": (one(shape=(2**31 - 1, 2**31 - 1), type=27),
                           f"tensor t: elements: found {(2**31 - 1)**2}, expected at most {2**40}"),
    "padding that wraps": (one(shape=(4, 2**30 - 1, 2**30 + 1)),
                           f"tensor t: elements: found {4 * (2**60 - 1)}, expected at most {2**40}"),
    "not whole blocks": (one(shape=(128,), type=12), "tensor t: ne0: found 128, expected a multiple of 256 "
                                                     "(Q4_K block)"),
    "type removed from ggml": (one(type=4), "tensor t: type: found unknown type 4, "
                                            "expected a ggml tensor type up to 41"),
    "type nobody knows": (one(name="blk.3.ffn_up.weight", type=99),
                          "tensor blk.3.ffn_up.weight: type: found unknown type 99, "
                          "expected a ggml tensor type up to 41"),
    "offset -1": (one(offset=MINUS_1),
                  f"tensor t: offset: found {MINUS_1}, expected a multiple of the alignment 32"),
    "aligned offset that wraps": (one(offset=2**64 - 32),
                                  f"tensor t: data: found 16 bytes at offset {2**64 - 32}, "
                                  "expected an end within the 32 bytes of data in the file"),
    "offset beyond the file": (one(offset=64), "tensor t: data: found 16 bytes at offset 64, "
                                               "expected an end within the 32 bytes of data in the file"),
    "larger than the file": (one(shape=(4, 2**20)),
                             "tensor t: data: found 16777216 bytes at offset 0, "
                             "expected an end within the 32 bytes of data in the file"),
    "no data at all": (GGUF(tensors=[Entry(data=b"")]).bytes(),
                       "tensor t: data: found 16 bytes at offset 0, "
                       "expected an end within the 0 bytes of data in the file"),
    "cut in the table": (one(name="tensor")[:61],
                         "tensor tensor: offset: found the end of the file after 7 bytes, "
                         "expected 8 bytes at offset 54"),
    "cut in the padding": (one()[:62], "tensor t: data: found 16 bytes at offset 0, "
                                       "expected an end within the 0 bytes of data in the file"),
    "cut in the last byte": (GGUF(tensors=[Entry()], trailing=False).bytes()[:-1],
                             "tensor t: data: found 16 bytes at offset 0, "
                             "expected an end within the 15 bytes of data in the file"),
    "duplicate name": (GGUF(tensors=[Entry(), Entry()]).bytes(),
                       "tensor t: found the name twice, expected every name once"),
    "offsets of another alignment": (GGUF(tensors=[Entry("a"), Entry("b")], alignment=16).bytes() + SPACE,
                                     "tensor b: offset: found 16, expected a multiple of the alignment 32"),
    "overlap": (GGUF(tensors=[Entry("a", (12,), data=bytes(48)), Entry("b", offset=32)]).bytes(),
                "tensor b: offset: found 32, expected at least 48, the end of a"),
    "same place": (GGUF(tensors=[Entry("a"), Entry("b", offset=0)]).bytes(),
                   "tensor b: offset: found 0, expected at least 16, the end of a"),
    "two of 2^63 - 64 bytes": (GGUF(tensors=[Entry(n, (HUGE,), 24) for n in "ab"]).bytes(),
                               f"tensor a: ne0: found {HUGE}, expected 1 to 2147483647"),
    "sizes whose sum wraps": (GGUF(tensors=[Entry(n, (2**31 - 1, 512), 27) for n in "ab"]).bytes(),
                              f"tensor a: data: found {(2**31 - 1) * 4096} bytes at offset 0, "
                              "expected an end within the 64 bytes of data in the file"),
}


@pytest.mark.parametrize(("raw", "line"), [*HEADER.values(), *KEYS.values(), *TENSORS.values()],
                         ids=[*HEADER, *KEYS, *TENSORS])
def test_malformed(raw, line):
    assert refusal(raw) == f"m.gguf: {line}"


def test_long_names_are_shortened():
    line = refusal(keyed(key("k" * 500, u32(13) + b"\0")))
    assert line == f"m.gguf: {'k' * 80}...: value type: found 13, expected 0 to 12"


@pytest.mark.parametrize("version", [2, 3])
def test_no_keys_and_no_tensors(version):
    header = parse_header(GGUF(version=u32(version)).bytes(), "m.gguf")
    assert (header.version, header.alignment, header.fields, header.tensors) == (version, 32, {}, {})


def test_every_scalar_type():
    values = {"u8": 255, "i8": -128, "u16": 65535, "i16": -32768, "u32": 2**32 - 1, "i32": -(2**31),
              "f32": 0.1, "bool": 1, "u64": 2**64 - 1, "i64": -(2**63), "f64": 0.1}
    fields = parse_header(keyed(*(key(c, scalar(c, v)) for c, v in values.items())), "m").fields
    expected = values | {"bool": True, "f32": float(np.float32(0.1))}
    assert fields == expected
    assert {k: type(v) for k, v in fields.items()} == {k: type(v) for k, v in expected.items()}


def test_every_array_type():
    values = {"u8": [0, 255], "i8": [-1], "u16": [65535], "i16": [-2, 3], "u32": [1, 2, 2**32 - 1],
              "i32": [-5], "f32": [0.5, -2.0], "bool": [1, 0, 1], "u64": [2**64 - 1],
              "i64": [-(2**63)], "f64": [1e300]}
    types = {"u8": "u1", "i8": "i1", "u16": "u2", "i16": "i2", "u32": "u4", "i32": "i4", "f32": "f4",
             "bool": "?", "u64": "u8", "i64": "i8", "f64": "f8"}
    fields = parse_header(keyed(*(key(c, array(c, v)) for c, v in values.items())), "m").fields
    for code, items in values.items():
        assert fields[code].dtype == np.dtype(types[code])
        assert fields[code].tolist() == items
        assert not fields[code].flags.writeable


def test_strings_and_empty_arrays():
    words = ["", "a", "Ġthe", "😀", "\0", "x" * 1000]
    fields = parse_header(keyed(key("w", array("str", words)), key("s", string("日本\n")),
                                key("n", array("str", [])), key("e", array("u32", []))), "m").fields
    assert fields["w"] == words
    assert fields["s"] == "日本\n"
    assert fields["n"] == []
    assert fields["e"].tolist() == []


@pytest.mark.parametrize("alignment", [8, 64, 4096, 65536])
def test_custom_alignment(alignment):
    raw = GGUF(keys=[key(ALIGN, scalar("u32", alignment))], alignment=alignment,
               tensors=[Entry("a", (3,), 0, b"A" * 12), Entry("b", (2, 3), 1, b"B" * 12)]).bytes()
    header = parse_header(raw, "m")
    a, b = header.tensors.values()
    assert header.alignment == alignment
    assert (a.shape, a.type.name, a.nbytes) == ((3,), "F32", 12)
    assert (b.shape, b.type.name, b.nbytes) == ((2, 3), "F16", 12)
    assert b.offset - a.offset == max(alignment, 16)
    assert raw[a.offset:a.offset + 12] == b"A" * 12
    assert raw[b.offset:b.offset + 12] == b"B" * 12


def test_gaps_and_any_order_of_offsets_are_fine():
    entries = [Entry("late", offset=96, data=b"\0" * 128), Entry("early", offset=0, data=b"")]
    tensors = parse_header(GGUF(tensors=entries).bytes(), "m").tensors
    assert list(tensors) == ["late", "early"]
    assert tensors["late"].offset - tensors["early"].offset == 96


def test_missing_padding_after_the_last_tensor_loses_nothing():
    raw = GGUF(tensors=[Entry(data=b"0123456789abcdef")], trailing=False).bytes()
    info = parse_header(raw, "m").tensors["t"]
    assert raw[info.offset:] == b"0123456789abcdef"


def test_largest_name_and_key():
    raw = GGUF(keys=[key("k" * 65535, scalar("u8", 7))], tensors=[Entry("n" * 64)]).bytes()
    header = parse_header(raw, "m")
    assert header.fields == {"k" * 65535: 7}
    assert list(header.tensors) == ["n" * 64]

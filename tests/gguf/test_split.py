"""Split models: any part opens all; what is missing or does not belong is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builder import GGUF, Entry, array, key, scalar

from spvk.errors import GGUFError
from spvk.gguf import open_gguf


def part(path: Path, no: int, count: int, names: str, total: int = 5, first: int = 0,
         override: dict[str, bytes] | None = None) -> None:
    """One part with one 4-value F32 tensor a name; tensor i of the model is filled with i.

    `override` replaces split keys by other values, or by nothing (b"").
    """
    keys = {"no": scalar("u16", no), "count": scalar("u16", count),
            "tensors.count": scalar("i32", total)}
    keys |= override or {}
    entries = [Entry(n, data=np.full(4, first + i, "<f4").tobytes()) for i, n in enumerate(names)]
    fields = [key(f"split.{k}", v) for k, v in keys.items() if v]
    fields.append(key("general.name", scalar("u32", no)))
    path.write_bytes(GGUF(keys=fields, tensors=entries).bytes())


def name(folder: Path, no: int, count: int = 3) -> Path:
    return folder / f"model-{no:05}-of-{count:05}.gguf"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    part(name(tmp_path, 1), 0, 3, "ab", first=0)
    part(name(tmp_path, 2), 1, 3, "c", first=2)
    part(name(tmp_path, 3), 2, 3, "de", first=3)
    return tmp_path


def refusal(path: Path) -> str:
    with pytest.raises(GGUFError) as caught:
        open_gguf(path)
    return str(caught.value)


@pytest.mark.parametrize("no", [1, 2, 3])
def test_any_part_opens_all(model, no):
    opened = open_gguf(name(model, no))
    assert opened.path == str(name(model, no))
    assert opened.paths == tuple(str(name(model, i)) for i in (1, 2, 3))
    assert opened.fields["general.name"] == 0  # the first part's keys, whichever was opened
    assert {n: t.dequantize().tolist() for n, t in opened.tensors.items()} == {
        n: [i] * 4 for i, n in enumerate("abcde")}
    assert opened.tensors["c"].path == str(name(model, 2))


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_missing_part_is_named(model, missing):
    name(model, missing).unlink()
    opened = name(model, 1 if missing != 1 else 2)
    assert refusal(opened) == (f"{name(model, missing)}: file: found no such file, "
                               f"expected part {missing} of 3 beside {opened.name}")


def test_one_of_one_needs_no_keys(tmp_path):
    path = name(tmp_path, 1, 1)
    part(path, 0, 1, "a", override={"no": b"", "count": b"", "tensors.count": b""})
    assert list(open_gguf(path).tensors) == ["a"]


def test_parts_in_each_others_place(model):
    part(name(model, 2), 2, 3, "c")
    assert refusal(name(model, 1)) == f"{name(model, 2)}: split.no: found 2, expected 1"


def test_count_differs_from_the_name(model):
    part(name(model, 1), 0, 4, "ab")
    assert refusal(name(model, 1)) == f"{name(model, 1)}: split.count: found 4, expected 3, as the name says"
    assert refusal(name(model, 2)) == f"{name(model, 1)}: split.count: found 4, expected 3"


def test_no_split_keys_in_a_part(model):
    part(name(model, 3), 2, 3, "de", override={"no": b""})
    assert refusal(name(model, 1)) == f"{name(model, 3)}: split.no: found no such key, expected an integer"


@pytest.mark.parametrize(("value", "found"), [(scalar("f32", 3.0), "float"), (scalar("bool", 1), "bool"),
                                              (array("u16", [3, 3]), "ndarray"), (array("str", []), "list")],
                         ids=["float", "bool", "array", "list"])
def test_count_of_another_type(model, value, found):
    part(name(model, 1), 0, 3, "ab", override={"count": value})
    assert refusal(name(model, 1)) == f"{name(model, 1)}: split.count: found {found}, expected an integer"


def test_tensor_total(model):
    part(name(model, 1), 0, 3, "ab", total=6)
    assert refusal(name(model, 2)) == (
        f"{name(model, 1)}: split.tensors.count: found 6, expected 5, the tensors in all parts")


def test_duplicate_across_parts(model):
    part(name(model, 3), 2, 3, "db")
    assert refusal(name(model, 1)) == (
        f"{name(model, 3)}: tensor b: found it also in {name(model, 1)}, expected every tensor in one part")


@pytest.mark.parametrize(("no", "count"), [(0, 3), (4, 3), (0, 0), (1, 65536)])
def test_numbers_in_the_name(tmp_path, no, count):
    path = name(tmp_path, no, count)
    part(path, 0, 3, "a")
    assert refusal(path) == (
        f"{path}: file name: found part {no} of {count}, expected part K of N, 1 <= K <= N <= 65535")


def test_joined_or_renamed_parts(model):
    path = model / "joined.gguf"
    path.write_bytes(b"".join(name(model, i).read_bytes() for i in (1, 2, 3)))
    assert refusal(path) == (f"{path}: file name: found joined.gguf, "
                             "expected PREFIX-00001-of-0000N.gguf, because split.count is 3")


def test_damage_in_another_part_names_that_part(model):
    whole = name(model, 3).read_bytes()
    name(model, 3).write_bytes(whole[:-40])
    assert refusal(name(model, 1)) == (f"{name(model, 3)}: tensor e: data: found 16 bytes at offset 32, "
                                       "expected an end within the 24 bytes of data in the file")

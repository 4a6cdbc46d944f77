"""Opening models: what the file holds, typed access, and one clear line for what is not a model."""

from __future__ import annotations

import os
from pathlib import Path

import gguf
import numpy as np
import pytest
from builder import GGUF, Entry, array, key, scalar, string
from gguf import quants

from spvk.errors import GGUFError
from spvk.gguf import TYPES, open_gguf
from spvk.gguf.types import BY_NAME

FIXTURES = Path(__file__).parents[1] / "fixtures"
MODELS = sorted(FIXTURES.glob("*/*.gguf"))
MIXED = FIXTURES / "qwen35" / "tiny-draft-mixed.gguf"


def write(path: Path, *keys: bytes, tensors: list[Entry] | None = None) -> Path:
    path.write_bytes(GGUF(keys=list(keys), tensors=tensors or []).bytes())
    return path


def refusal(call, *args) -> str:
    with pytest.raises(GGUFError) as caught:
        call(*args)
    return str(caught.value)


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_keys_equal_the_reference_reader(path):
    theirs = {k: f.contents() for k, f in gguf.GGUFReader(path).fields.items() if not k.startswith("GGUF.")}
    ours = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in open_gguf(path).fields.items()}
    assert ours == theirs


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_tensors_equal_the_reference_reader(path):
    ours = open_gguf(path).tensors
    theirs = gguf.GGUFReader(path).tensors
    assert list(ours) == [t.name for t in theirs]
    for t in theirs:
        tensor = ours[t.name]
        assert tensor.shape == tuple(t.shape.tolist())
        assert tensor.type is TYPES[int(t.tensor_type)]
        assert (tensor.offset, tensor.nbytes) == (t.data_offset, t.n_bytes)
        assert tensor.nbytes == tensor.rows * tensor.row_bytes == tensor.raw().size
        np.testing.assert_array_equal(tensor.raw(), t.data.reshape(-1).view(np.uint8))


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_dequantize_equals_the_reference(path):
    ours = open_gguf(path).tensors
    for t in gguf.GGUFReader(path).tensors:
        values = ours[t.name].dequantize()
        assert values.dtype == np.float32
        assert values.shape == ours[t.name].shape[::-1]
        assert values.flags.writeable
        np.testing.assert_array_equal(values, quants.dequantize(t.data, t.tensor_type))


def test_fixture_facts():
    model = open_gguf(MIXED)
    assert (model.architecture, model.version, model.paths) == ("qwen35", 3, (str(MIXED),))
    types = {t.type.name for t in model.tensors.values()}
    assert types == {"F32", "Q2_K", "Q4_0", "Q4_K", "Q5_0", "Q5_1", "Q6_K"}
    embedding = model.tensor("token_embd.weight", (256, 512))
    assert (embedding.rows, embedding.row_bytes, embedding.nbytes) == (512, 144, 73728)
    assert model.fields["qwen35.rope.dimension_sections"].tolist() == [3, 3, 2, 0]


def test_every_type_with_a_dequantiser(tmp_path):
    types = [t for t in TYPES.values() if t.native or t.repacked]
    rng = np.random.default_rng(7)
    entries = [Entry(t.name, (2 * t.block_elements, 3, 2), t.id, rng.bytes(2 * t.block_bytes * 6))
               for t in types]
    model = open_gguf(write(tmp_path / "all.gguf", tensors=entries))
    for entry, t in zip(entries, types):
        raw = np.frombuffer(entry.data, np.uint8).reshape(2, 3, -1)
        with np.errstate(all="ignore"):
            expected = quants.dequantize(raw, gguf.GGMLQuantizationType(t.id))
        got = model.tensors[t.name].dequantize()
        assert got.shape == (2, 3, 2 * t.block_elements)
        np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("name", ["Q8_1", "Q8_K", "Q1_0", "I8", "I16", "I32", "I64", "F64"])
def test_size_only_types_open_but_do_not_dequantise(tmp_path, name):
    t = BY_NAME[name]
    path = write(tmp_path / "m.gguf", tensors=[Entry("x", (t.block_elements,), t.id, bytes(t.block_bytes))])
    tensor = open_gguf(path).tensors["x"]
    assert tensor.nbytes == t.block_bytes
    assert refusal(tensor.dequantize) == (
        f"{path}: tensor x: type: found {name}, expected a type that can be dequantised")


def test_pieces_cover_every_row_once():
    tensor = open_gguf(MIXED).tensor("token_embd.weight")
    for max_bytes, sizes in ((144, [1] * 512), (143 + 144 * 200, [200, 200, 112]), (1 << 20, [512])):
        pieces = list(tensor.pieces(max_bytes))
        assert [n for _, n, _ in pieces] == sizes
        assert [row0 for row0, _, _ in pieces] == [sum(sizes[:i]) for i in range(len(sizes))]
        assert max(view.size for _, _, view in pieces) <= max_bytes
        np.testing.assert_array_equal(np.concatenate([view for _, _, view in pieces]), tensor.raw())


def test_pieces_are_views_of_the_file():
    tensor = open_gguf(MIXED).tensor("token_embd.weight")
    (_, _, view), *_ = tensor.pieces(1 << 20)
    assert np.shares_memory(view, tensor.raw())
    assert not view.flags.writeable


def test_a_row_longer_than_a_piece():
    tensor = open_gguf(MIXED).tensor("token_embd.weight")
    assert refusal(lambda: list(tensor.pieces(143))) == (
        f"{MIXED}: tensor token_embd.weight: row: found 144 bytes, expected at most 143 bytes a piece")


def test_tensors_outlive_the_file_object_and_the_name(tmp_path):
    path = write(tmp_path / "m.gguf", tensors=[Entry(data=np.arange(4, dtype="<f4").tobytes())])
    tensor = open_gguf(path).tensors["t"]
    path.unlink()
    assert tensor.dequantize().tolist() == [0, 1, 2, 3]


def test_get(tmp_path):
    model = open_gguf(write(
        tmp_path / "m.gguf", key("i", scalar("u32", 7)), key("f", scalar("f32", 0.5)),
        key("s", string("text")), key("b", scalar("bool", 1)), key("l", array("str", ["x", "y"])),
        key("a", array("i32", [1, 2]))))
    assert model.get("i", int) == 7
    assert model.get("f", float) == 0.5
    assert model.get("s", str) == "text"
    assert model.get("b", bool) is True
    assert model.get("l", list) == ["x", "y"]
    assert model.get("a", np.ndarray).tolist() == [1, 2]
    assert model.get("i", float) == 7.0 and type(model.get("i", float)) is float
    assert model.get("none", int, 5) == 5
    assert model.get("none", int, None) is None
    assert model.get("i", int, 5) == 7


@pytest.mark.parametrize(("name", "kind", "line"), [
    ("none", int, "none: found no such key, expected an integer"),
    ("f", int, "f: found float 0.5, expected an integer"),
    ("b", int, "b: found bool True, expected an integer"),
    ("i", bool, "i: found int 7, expected a boolean"),
    ("i", str, "i: found int 7, expected a string"),
    ("s", float, "s: found str 'text', expected a finite number"),
    ("b", float, "b: found bool True, expected a finite number"),
    ("nan", float, "nan: found float nan, expected a finite number"),
    ("inf", float, "inf: found float inf, expected a finite number"),
    ("a", list, "a: found an array of 2 int32, expected a list of strings"),
    ("l", np.ndarray, "l: found a list of 1 strings, expected an array of numbers"),
])
def test_get_of_another_kind(tmp_path, name, kind, line):
    path = write(tmp_path / "m.gguf", key("i", scalar("u32", 7)), key("f", scalar("f32", 0.5)),
                 key("s", string("text")), key("b", scalar("bool", 1)), key("l", array("str", ["x"])),
                 key("a", array("i32", [1, 2])), key("nan", scalar("f32", float("nan"))),
                 key("inf", scalar("f32", float("inf"))))
    model = open_gguf(path)
    assert refusal(model.get, name, kind) == f"{path}: {line}"
    if name != "none":  # a default does not excuse a wrong value
        assert refusal(model.get, name, kind, 1) == f"{path}: {line}"


def test_no_architecture(tmp_path):
    path = write(tmp_path / "m.gguf")
    assert refusal(lambda: open_gguf(path).architecture) == (
        f"{path}: general.architecture: found no such key, expected a string")


def test_tensor_missing_or_of_another_shape():
    model = open_gguf(MIXED)
    assert refusal(model.tensor, "nope") == (
        f"{MIXED}: tensor nope: found no such tensor, expected it in the file")
    assert refusal(model.tensor, "nope", (1, 2)) == (
        f"{MIXED}: tensor nope: found no such tensor, expected shape [1, 2]")
    assert refusal(model.tensor, "token_embd.weight", (512, 256)) == (
        f"{MIXED}: tensor token_embd.weight: shape: found [256, 512], expected [512, 256]")


def test_missing_file(tmp_path):
    path = tmp_path / "none.gguf"
    assert refusal(open_gguf, path) == (
        f"{path}: file: found No such file or directory, expected a readable GGUF file")


def test_directory_pipe_empty_and_foreign_files(tmp_path):
    assert refusal(open_gguf, tmp_path) == f"{tmp_path}: file: found a directory, expected a GGUF file"
    pipe, empty, foreign = tmp_path / "pipe", tmp_path / "empty.gguf", tmp_path / "page.gguf"
    os.mkfifo(pipe)
    assert refusal(open_gguf, pipe) == (
        f"{pipe}: file: found something that is not a regular file, expected a GGUF file")
    empty.touch()
    assert refusal(open_gguf, empty) == f"{empty}: size: found an empty file, expected a GGUF file"
    foreign.write_bytes(b"<!DOCTYPE html>")
    assert refusal(open_gguf, foreign) == f"{foreign}: magic: found b'<!DO', expected b'GGUF' (a GGUF file)"


def test_paths_that_no_terminal_shows(tmp_path):
    assert refusal(open_gguf, "a\0b") == (
        "'a\\x00b': file: found a path that cannot be opened, expected a readable GGUF file")
    path = write(tmp_path / "line\nbreak.gguf")
    path.write_bytes(b"GGUF")
    assert refusal(open_gguf, path).count("\n") == 0
    assert "line\\nbreak.gguf': version: found the end of the file" in refusal(open_gguf, path)


@pytest.mark.parametrize("keep", [0.01, 0.5, 0.9999])
def test_cut_model(tmp_path, keep):
    raw = MIXED.read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(raw[:int(len(raw) * keep)])
    line = refusal(open_gguf, path)
    assert line.startswith(f"{path}: ") and ": found " in line and ", expected " in line

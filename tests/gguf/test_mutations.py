"""Whatever the bytes: a valid parse or a one-line GGUFError, never another exception."""

from __future__ import annotations

import numpy as np
import pytest
from builder import GGUF, MINUS_1, Entry, array, key, scalar, string
from hypothesis import given, settings
from hypothesis import strategies as st

from spvk.errors import GGUFError
from spvk.gguf import open_gguf

VALID = GGUF(
    keys=[key("general.architecture", string("qwen35")), key("general.alignment", scalar("u32", 32)),
          key("words", array("str", ["a", "Ġthe", "", "😀"])), key("ids", array("i32", [1, -2, 3])),
          key("flags", array("bool", [0, 1])), key("eps", scalar("f32", 1e-6)), key("on", scalar("bool", 1)),
          key("split.count", scalar("u16", 1))],
    tensors=[Entry("f32", (5, 2), 0, bytes(40)), Entry("q4_0", (64, 3), 2, bytes(range(108))),
             Entry("iq2_xxs", (256,), 16, bytes(66)), Entry("half", (3,), 1, bytes(6))],
).bytes()
HEADER = VALID.index(b"half") + 28  # bytes before the data: where damage matters most

place = st.integers(0, HEADER - 1) | st.integers(0, len(VALID) - 1)
flips = st.lists(st.tuples(place, st.integers(1, 255)), max_size=6)
overwrites = st.lists(st.tuples(place, st.sampled_from(
    [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, MINUS_1, MINUS_1 - 31])), max_size=2)
cuts = st.just(len(VALID)) | st.integers(0, len(VALID))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("mutations") / "m.gguf"


def use(path) -> None:
    """Open the file and touch every byte of every tensor."""
    model = open_gguf(path)
    for tensor in model.tensors.values():
        assert tensor.raw().size == tensor.nbytes == tensor.rows * tensor.row_bytes
        assert sum(piece.size for _, _, piece in tensor.pieces(1 << 20)) == tensor.nbytes
        if tensor.type.native or tensor.type.repacked:
            assert tensor.dequantize().shape == tensor.shape[::-1]
    assert isinstance(model.architecture, str)


def test_the_file_itself_is_valid(path):
    path.write_bytes(VALID)
    model = open_gguf(path)
    assert list(model.tensors) == ["f32", "q4_0", "iq2_xxs", "half"]
    assert model.fields["words"] == ["a", "Ġthe", "", "😀"]
    assert np.array_equal(model.tensors["q4_0"].raw(), np.arange(108))
    use(path)


@settings(max_examples=400, deadline=None)
@given(flips=flips, overwrites=overwrites, cut=cuts)
def test_flips_overwritten_numbers_and_cuts(path, flips, overwrites, cut):
    raw = bytearray(VALID)
    for at, bits in flips:
        raw[at] ^= bits
    for at, number in overwrites:
        raw[at:at + 8] = number.to_bytes(8, "little")
    path.write_bytes(raw[:cut])
    try:
        use(path)
    except GGUFError as error:
        line = str(error)
        assert line.isprintable()
        assert line.startswith(f"{path}: ") and ": found " in line and ", expected " in line


@pytest.mark.parametrize("start", range(0, HEADER, 64))
def test_every_cut_of_the_header_is_refused(path, start):
    for end in range(start, min(start + 64, HEADER)):
        path.write_bytes(VALID[:end])
        with pytest.raises(GGUFError):
            open_gguf(path)


@settings(max_examples=100, deadline=None)
@given(noise=st.binary(max_size=200))
def test_noise_after_the_magic(path, noise):
    path.write_bytes(b"GGUF\x03\0\0\0" + noise)
    try:
        use(path)
    except GGUFError as error:
        assert str(error).isprintable()

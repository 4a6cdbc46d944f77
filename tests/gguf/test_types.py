"""The table of tensor types against the `gguf` package's own."""

from __future__ import annotations

import gguf
from gguf import quants

from spvk.gguf.types import BY_NAME, TYPES

NATIVE = ("F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS").split()


def test_names_and_geometry_of_every_type():
    theirs = {int(t): (t.name, *size) for t, size in gguf.GGML_QUANT_SIZES.items()}
    ours = {t.id: (t.name, t.block_elements, t.block_bytes) for t in TYPES.values()}
    assert ours == theirs


def test_native_types():
    assert {t.name for t in TYPES.values() if t.native} == set(NATIVE)


def test_repacked_are_all_others_that_can_be_dequantised():
    known = {t.name for t in quants._type_traits} | {"F32", "F16"}
    assert {t.name for t in TYPES.values() if t.repacked} == known - set(NATIVE)


def test_row_bytes():
    assert BY_NAME["F32"].row_bytes(5) == 20
    assert BY_NAME["Q4_K"].row_bytes(1024) == 4 * 144
    assert BY_NAME["Q5_0"].row_bytes(128) == 4 * 22

"""The table of tensor types against the `gguf` package's own."""

from __future__ import annotations

import gguf
from gguf import quants

from spvk.gguf.types import BY_NAME, TYPES

NATIVE = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS".split()
REPACKED = "IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ1_S IQ1_M TQ1_0 TQ2_0 MXFP4 NVFP4".split()


def test_names_and_geometry_of_every_type():
    theirs = {int(t): (t.name, *size) for t, size in gguf.GGML_QUANT_SIZES.items()}
    ours = {t.id: (t.name, t.block_elements, t.block_bytes) for t in TYPES.values()}
    assert ours == {n: theirs[n] for n in ours}
    assert len(BY_NAME) == len(TYPES) == 34


def test_native_and_repacked_types():
    assert {t.name for t in TYPES.values() if t.native} == set(NATIVE)
    assert {t.name for t in TYPES.values() if t.repacked} == set(REPACKED)


def test_the_package_dequantises_every_native_and_repacked_type():
    known = {t.name for t in quants._type_traits} | {"F32", "F16"}
    assert set(NATIVE + REPACKED) - known == set()


def test_row_bytes():
    assert BY_NAME["F32"].row_bytes(5) == 20
    assert BY_NAME["Q4_K"].row_bytes(1024) == 4 * 144
    assert BY_NAME["Q5_0"].row_bytes(128) == 4 * 22

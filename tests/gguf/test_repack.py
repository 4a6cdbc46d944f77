"""Types without a shader become F16, or F32 where F16 is too narrow, in bounded pieces."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from builder import GGUF, Entry

from spvk.errors import GGUFError
from spvk.gguf import TYPES, Tensor, open_gguf, repack
from spvk.gguf.repack import _SCALE
from spvk.gguf.types import BY_NAME

REPACKED = [t.name for t in TYPES.values() if t.repacked]


def blocks(type_name: str, shape: tuple[int, ...], scale: float | None, seed: int = 3) -> bytes:
    """Random blocks; the float16 scale, where the type has one, is `scale` (None: random bits)."""
    t = BY_NAME[type_name]
    n = t.row_bytes(shape[0]) * int(np.prod(shape[1:]))
    raw = np.random.default_rng(seed).integers(0, 256, n, np.uint8).reshape(-1, t.block_bytes)
    if scale is not None and type_name in _SCALE:
        offset = _SCALE[type_name][0]
        raw[:, offset:offset + 2] = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
    elif scale is not None and type_name == "MXFP4":  # one exponent byte, value 2^(e - 128)
        raw[:, 0] = 128 + int(np.log2(scale))
    elif scale is not None and type_name == "NVFP4":  # four 4:3 exponent and mantissa scales
        raw[:, :4] = 0x38
    elif scale is not None and type_name == "IQ1_M":  # a float16 in the top four bits of four words
        words = raw[:, -8:].copy().view("<u2")
        bits = int(np.float16(scale).view(np.uint16))
        nibbles = np.array([bits >> 4 * i & 15 for i in range(4)], np.uint16) << 12
        raw[:, -8:] = (words & 0x0FFF | nibbles).view(np.uint8)
    return raw.tobytes()


def make(tmp_path, type_name: str, shape: tuple[int, ...], scale: float | None) -> Tensor:
    entry = Entry("blk.3.ffn_up.weight", shape, BY_NAME[type_name].id, blocks(type_name, shape, scale))
    path = tmp_path / f"{type_name}.gguf"
    path.write_bytes(GGUF(tensors=[entry]).bytes())
    return open_gguf(path).tensors[entry.name]


@pytest.mark.parametrize("type_name", REPACKED)
def test_ordinary_values_become_f16(tmp_path, type_name):
    tensor = make(tmp_path, type_name, (512, 7, 3), 1 / 64)
    packed = repack(tensor, 2 * 512 * 5)
    assert packed.type.name == "F16"
    assert (packed.row_bytes, packed.nbytes) == (1024, 1024 * 21)
    pieces = list(packed)
    assert [(row0, n) for row0, n, _ in pieces] == [(0, 5), (5, 5), (10, 5), (15, 5), (20, 1)]
    assert all(piece.dtype == np.uint8 and piece.size == n * 1024 for _, n, piece in pieces)
    values = np.concatenate([piece for _, _, piece in pieces]).view(np.float16)
    expected = tensor.dequantize().reshape(-1)
    assert np.isfinite(expected).all() and np.abs(expected).max() > 0.01
    np.testing.assert_array_equal(values, expected.astype(np.float16))


@pytest.mark.parametrize(("type_name", "scale"), [*((n, 60000.0) for n in _SCALE if _SCALE[n][1] > 1.5),
                                                  ("MXFP4", 2.0**20), ("IQ1_M", 60000.0)])
def test_values_beyond_f16_become_f32(tmp_path, type_name, scale):
    tensor = make(tmp_path, type_name, (256, 8), scale)
    packed = repack(tensor, 4096)
    assert packed.type.name == "F32"
    assert packed.nbytes == 256 * 8 * 4
    values = np.concatenate([piece for _, _, piece in packed]).view(np.float32)
    assert np.abs(values).max() > 65504
    np.testing.assert_array_equal(values, tensor.dequantize().reshape(-1))


def test_large_scales_with_small_values_stay_f16(tmp_path):
    """The scales alone cannot prove it, the values do: TQ2_0 blocks of -1, 0 and 1 only."""
    raw = np.zeros((4, 66), np.uint8)
    raw[:, :64] = 0b10010010
    raw[:, 64:] = np.frombuffer(np.float16(60000).tobytes(), np.uint8)
    path = tmp_path / "m.gguf"
    path.write_bytes(GGUF(tensors=[Entry("x", (256, 4), BY_NAME["TQ2_0"].id, raw.tobytes())]).bytes())
    packed = repack(open_gguf(path).tensors["x"], 1 << 20)
    assert packed.type.name == "F16"
    (_, _, piece), = packed
    assert set(piece.view(np.float16).tolist()) == {-60000.0, 0.0, 60000.0}


@pytest.mark.parametrize("type_name", sorted(_SCALE))
def test_scale_bound_is_reached_and_never_passed(tmp_path, type_name):
    values = np.abs(make(tmp_path, type_name, (4096, 64), 1.0).dequantize())
    assert values.max() == _SCALE[type_name][1]


@pytest.mark.parametrize("type_name", REPACKED)
def test_random_bits_repack_without_surprise(tmp_path, type_name):
    """Infinite and undefined scales among them: those values stay what they are."""
    tensor = make(tmp_path, type_name, (512, 64), None)
    packed = repack(tensor, 1 << 14)
    values = np.concatenate([piece for _, _, piece in packed])
    values = values.view(np.float32 if packed.type.name == "F32" else np.float16)
    expected = tensor.dequantize().reshape(-1)
    np.testing.assert_array_equal(np.isfinite(values), np.isfinite(expected))
    np.testing.assert_array_equal(np.isnan(values), np.isnan(expected))


def test_notice(tmp_path):
    assert repack(make(tmp_path, "IQ2_XXS", (1024, 600), 0.01), 1 << 20).notice == (
        "blk.3.ffn_up.weight: IQ2_XXS has no shader, repacked to F16 (1.2 MB)")
    assert repack(make(tmp_path, "IQ3_S", (256, 300), 60000.0), 1 << 20).notice == (
        "blk.3.ffn_up.weight: IQ3_S has no shader, repacked to F32 (0.3 MB)")


def test_memory_is_bounded_by_the_piece(tmp_path):
    tensor = make(tmp_path, "IQ2_XXS", (1024, 4096), 0.01)  # 8 MiB as F16
    max_bytes = 1 << 16
    list(repack(tensor, max_bytes))
    tracemalloc.start()
    for _, _, piece in repack(tensor, max_bytes):
        assert piece.size <= max_bytes
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * max_bytes


def test_row_longer_than_a_piece(tmp_path):
    tensor = make(tmp_path, "IQ2_XXS", (512, 4), 0.01)
    with pytest.raises(GGUFError) as caught:
        list(repack(tensor, 1023))
    assert str(caught.value) == (f"{tensor.path}: tensor blk.3.ffn_up.weight: row: found 1024 bytes, "
                                 "expected at most 1023 bytes a piece")


def test_type_without_a_dequantiser(tmp_path):
    tensor = make(tmp_path, "Q1_0", (128, 2), None)
    with pytest.raises(GGUFError) as caught:
        repack(tensor, 1 << 20)
    assert str(caught.value) == (f"{tensor.path}: tensor blk.3.ffn_up.weight: type: found Q1_0, "
                                 "expected a type that can be dequantised")

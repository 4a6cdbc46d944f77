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
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def read_fields(path: Path) -> dict:
    """Metadata of a well-formed GGUF v3 file, read independently of the package."""
    data, at = path.read_bytes(), 24

    def scalar(code: str):
        nonlocal at
        at += struct.calcsize("<" + code)
        return struct.unpack_from("<" + code, data, at - struct.calcsize("<" + code))[0]

    def string() -> str:
        nonlocal at
        at += scalar("Q")
        return data[start:at].decode() if (start := at - length()) >= 0 else ""

    def length() -> int:
        return last

    def value(kind: int):
        nonlocal at
        if kind == 8:
            size = scalar("Q")
            at += size
            return data[at - size:at].decode()
        if kind == 9:
            item, count = scalar("I"), scalar("Q")
            return [value(item) for _ in range(count)]
        return scalar(SCALARS[kind])

    last = 0
    return {value(8): value(scalar("I")) for _ in range(struct.unpack_from("<Q", data, 16)[0])}

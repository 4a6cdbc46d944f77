"""The GGUF header (little-endian, versions 2 and 3), with every number checked against the file first.

Each limit below or in `cursor` answers a published way to crash a reader: counts and lengths larger than the
file, sizes that wrap around, a zero or odd alignment, data beyond the end. Python integers cannot wrap, so a
plain comparison is exact.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from math import prod
from typing import Any

from spvk.gguf.cursor import U32, U64, Cursor
from spvk.gguf.mismatch import mismatch, plain
from spvk.gguf.types import TYPES, TensorType

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 18
MAX_KEY = (1 << 16) - 1  # bytes; the format's own limit
MAX_NAME = 64  # bytes; the format's own limit
MAX_DIMS = 4
MAX_DIM = (1 << 31) - 1  # dimensions travel to shaders as 32-bit integers
MAX_ELEMENTS = 1 << 40
MIN_ALIGNMENT, MAX_ALIGNMENT, DEFAULT_ALIGNMENT = 8, 1 << 16, 32
# Fewest bytes an entry can take: length, one character, type, one byte; length, character, 1 dimension, ...
LEAST_KEY, LEAST_TENSOR = 8 + 1 + 4 + 1, 8 + 1 + 4 + 8 + 4 + 8


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor lies: shape in GGUF order (ne0 first), offset in bytes from the start of the file."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Header:
    version: int
    alignment: int  # bytes
    fields: dict[str, Any]
    tensors: dict[str, TensorInfo]


def parse_header(buf: bytes | mmap.mmap, path: str) -> Header:
    """Read and check the header of the whole file `buf`; `path` is for messages only.

    Afterwards every tensor lies inside the file, aligned, in whole blocks, and overlaps no other.
    Raises GGUFError for anything else.
    """
    cursor = Cursor(buf, path)
    version = _version(cursor)
    n_tensors, n_keys = _counts(cursor)
    fields, alignment = _fields(cursor, n_keys)
    entries = [_tensor(cursor, i) for i in range(n_tensors)]
    data = -(-cursor.pos // alignment) * alignment
    _check_unique(path, entries)
    for entry in entries:
        _check_place(path, entry, data, alignment, cursor.end)
    _check_overlap(path, entries)
    tensors = {e.name: TensorInfo(e.name, e.shape, e.type, data + e.offset, e.nbytes) for e in entries}
    return Header(version, alignment, fields, tensors)


def _version(cursor: Cursor) -> int:
    if cursor.end == 0:
        raise mismatch(cursor.path, "size", "an empty file", "a GGUF file")
    magic = bytes(cursor.buf[:4])
    if magic != MAGIC:
        raise mismatch(cursor.path, "magic", magic, f"{MAGIC!r} (a GGUF file)")
    cursor.take(4, "magic")
    version = cursor.number(U32, "version")
    swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in VERSIONS:
        found = f"{swapped} in big-endian order" if 0 < swapped < 1 << 16 else version
        raise mismatch(cursor.path, "version", found, "little-endian 2 or 3")
    return version


def _counts(cursor: Cursor) -> tuple[int, int]:
    n_tensors, n_keys = cursor.number(U64, "tensor count"), cursor.number(U64, "key count")
    room = cursor.end - cursor.pos
    for field, n, limit, least in (("tensor count", n_tensors, MAX_TENSORS, LEAST_TENSOR),
                                   ("key count", n_keys, MAX_KEYS, LEAST_KEY)):
        most = min(limit, room // least)
        if n > most:
            raise mismatch(cursor.path, field, n, f"at most {most} in {room} bytes")
    return n_tensors, n_keys


def _fields(cursor: Cursor, n: int) -> tuple[dict[str, Any], int]:
    fields: dict[str, Any] = {}
    alignment = DEFAULT_ALIGNMENT
    for i in range(n):
        key = cursor.string(f"key {i}", MAX_KEY)
        if not key:
            raise mismatch(cursor.path, f"key {i}", "an empty name", "a name")
        if key in fields:
            raise mismatch(cursor.path, plain(key), "the key twice", "every key once")
        vtype = cursor.number(U32, f"{plain(key)}: value type")
        if key == "general.alignment" and vtype != U32:
            raise mismatch(cursor.path, f"{key}: value type", vtype, f"{U32} (UINT32)")
        fields[key] = cursor.value(vtype, plain(key))
        if key == "general.alignment":
            alignment = _alignment(cursor.path, fields[key])
    return fields, alignment


def _alignment(path: str, value: int) -> int:
    if not MIN_ALIGNMENT <= value <= MAX_ALIGNMENT or value & (value - 1):
        raise mismatch(path, "general.alignment", value,
                       f"a power of two from {MIN_ALIGNMENT} to {MAX_ALIGNMENT}")
    return value


def _tensor(cursor: Cursor, i: int) -> TensorInfo:
    """One entry of the tensor table, its offset still relative to the data section."""
    name = cursor.string(f"tensor {i}: name", MAX_NAME)
    if not name:
        raise mismatch(cursor.path, f"tensor {i}: name", "an empty name", "a name")
    field = f"tensor {plain(name)}"
    n_dims = cursor.number(U32, f"{field}: dimensions")
    if not 1 <= n_dims <= MAX_DIMS:
        raise mismatch(cursor.path, f"{field}: dimensions", n_dims, f"1 to {MAX_DIMS}")
    shape = tuple(cursor.number(U64, f"{field}: ne{d}") for d in range(n_dims))
    type_id = cursor.number(U32, f"{field}: type")
    offset = cursor.number(U64, f"{field}: offset")
    if type_id not in TYPES:
        raise mismatch(cursor.path, f"{field}: type", f"unknown type {type_id}",
                       f"a ggml tensor type up to {max(TYPES)}")
    _check_shape(cursor.path, field, shape, TYPES[type_id])
    nbytes = TYPES[type_id].row_bytes(shape[0]) * prod(shape[1:])
    return TensorInfo(name, shape, TYPES[type_id], offset, nbytes)


def _check_shape(path: str, field: str, shape: tuple[int, ...], type_: TensorType) -> None:
    for d, n in enumerate(shape):
        if not 1 <= n <= MAX_DIM:
            raise mismatch(path, f"{field}: ne{d}", n, f"1 to {MAX_DIM}")
    if prod(shape) > MAX_ELEMENTS:
        raise mismatch(path, f"{field}: elements", prod(shape), f"at most {MAX_ELEMENTS}")
    if shape[0] % type_.block_elements:
        raise mismatch(path, f"{field}: ne0", shape[0],
                       f"a multiple of {type_.block_elements} ({type_.name} block)")


def _check_unique(path: str, entries: list[TensorInfo]) -> None:
    seen: set[str] = set()
    for entry in entries:
        if entry.name in seen:
            raise mismatch(path, f"tensor {plain(entry.name)}", "the name twice", "every name once")
        seen.add(entry.name)


def _check_place(path: str, entry: TensorInfo, data: int, alignment: int, end: int) -> None:
    field = f"tensor {plain(entry.name)}"
    if entry.offset % alignment:
        raise mismatch(path, f"{field}: offset", entry.offset, f"a multiple of the alignment {alignment}")
    room = max(end - data, 0)
    if entry.offset + entry.nbytes > room:
        raise mismatch(path, f"{field}: data", f"{entry.nbytes} bytes at offset {entry.offset}",
                       f"an end within the {room} bytes of data in the file")


def _check_overlap(path: str, entries: list[TensorInfo]) -> None:
    last: TensorInfo | None = None
    for entry in sorted(entries, key=lambda e: e.offset):
        if last is not None and entry.offset < last.offset + last.nbytes:
            raise mismatch(path, f"tensor {plain(entry.name)}: offset", entry.offset,
                           f"at least {last.offset + last.nbytes}, the end of {plain(last.name)}")
        last = entry

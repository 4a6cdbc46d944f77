"""Writes GGUF files byte by byte, so that any single number in them can be wrong."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

# value type number and struct code by name
CODES = {"u8": (0, "B"), "i8": (1, "b"), "u16": (2, "H"), "i16": (3, "h"), "u32": (4, "I"), "i32": (5, "i"),
         "f32": (6, "f"), "bool": (7, "B"), "u64": (10, "Q"), "i64": (11, "q"), "f64": (12, "d")}
STRING, ARRAY = 8, 9
MINUS_1 = (1 << 64) - 1  # -1 as the file's unsigned 64-bit numbers see it


def u32(n: int) -> bytes:
    return struct.pack("<I", n)


def u64(n: int) -> bytes:
    return struct.pack("<Q", n)


def text(value: str | bytes, length: int | None = None) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return u64(len(raw) if length is None else length) + raw


def scalar(code: str, value: Any) -> bytes:
    return u32(CODES[code][0]) + struct.pack("<" + CODES[code][1], value)


def string(value: str | bytes, length: int | None = None) -> bytes:
    return u32(STRING) + text(value, length)


def array(code: str, values: list[Any], count: int | None = None) -> bytes:
    vtype = STRING if code == "str" else CODES[code][0]
    items = [text(v) if code == "str" else struct.pack("<" + CODES[code][1], v) for v in values]
    return u32(ARRAY) + u32(vtype) + u64(len(values) if count is None else count) + b"".join(items)


def key(name: str | bytes, value: bytes, length: int | None = None) -> bytes:
    """One metadata entry; `value` comes from scalar, string or array."""
    return text(name, length) + value


@dataclass
class Entry:
    """One row of the tensor table with its data; `offset` None means: after the one before, aligned."""

    name: str | bytes = "t"
    shape: tuple[int, ...] = (4,)
    type: int = 0
    data: bytes = b"\0" * 16
    offset: int | None = None
    name_length: int | None = None
    n_dims: int | None = None

    def table(self, offset: int) -> bytes:
        dims = u32(len(self.shape) if self.n_dims is None else self.n_dims)
        place = u32(self.type) + u64(offset if self.offset is None else self.offset)
        return text(self.name, self.name_length) + dims + b"".join(map(u64, self.shape)) + place


@dataclass
class GGUF:
    """A whole file; everything that is not given is right."""

    keys: list[bytes] = field(default_factory=list)
    tensors: list[Entry] = field(default_factory=list)
    magic: bytes = b"GGUF"
    version: bytes = u32(3)
    n_keys: int | None = None
    n_tensors: int | None = None
    alignment: int = 32  # of the layout; the key general.alignment is the caller's
    trailing: bool = True  # pad the last tensor

    def bytes(self) -> bytes:
        counts = [(self.n_tensors, self.tensors), (self.n_keys, self.keys)]
        head = self.magic + self.version + b"".join(u64(len(x) if n is None else n) for n, x in counts)
        head += b"".join(self.keys)
        data = b""
        for i, entry in enumerate(self.tensors):
            head += entry.table(len(data))
            last = i == len(self.tensors) - 1
            data += entry.data if last and not self.trailing else self._pad(entry.data)
        return self._pad(head) + data if self.tensors else head

    def _pad(self, raw: bytes) -> bytes:
        return raw + b"\0" * (-len(raw) % self.alignment)

"""A bounds-checked little-endian reader: nothing is sliced, viewed or allocated before it is known to fit."""

from __future__ import annotations

import mmap
import struct
from typing import Any

import numpy as np

from spvk.gguf.mismatch import mismatch, plain

# GGUF metadata value types (specification of the format, section "Metadata value types").
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
SCALARS: dict[int, np.dtype] = {
    vtype: np.dtype(code)
    for vtype, code in {
        U8: "u1", I8: "i1", U16: "<u2", I16: "<i2", U32: "<u4", I32: "<i4", F32: "<f4", BOOL: "u1",
        U64: "<u8", I64: "<i8", F64: "<f8",
    }.items()
}

MAX_STRING = 16 << 20  # bytes of one string
MAX_ARRAY = 1 << 24  # elements of one array
MAX_STRINGS = 1 << 22  # array strings in the whole file: a Python str is several times its bytes in the file

_U64 = struct.Struct("<Q")


class Cursor:
    """Reads values at `pos` of `buf` (bytes or a memory map); every error names the file and the field."""

    def __init__(self, buf: bytes | mmap.mmap, path: str):
        self.buf, self.path = buf, path
        self.pos, self.end = 0, len(buf)
        self.strings_left = MAX_STRINGS

    def take(self, n: int, field: str) -> int:
        """Step over n bytes that must be there; gives the position of the first."""
        if n > self.end - self.pos:
            raise mismatch(self.path, field, f"the end of the file after {self.end - self.pos} bytes",
                           f"{n} bytes at offset {self.pos}")
        start, self.pos = self.pos, self.pos + n
        return start

    def number(self, vtype: int, field: str) -> int | float:
        dtype = SCALARS[vtype]
        start = self.take(dtype.itemsize, field)
        return np.frombuffer(self.buf, dtype, 1, start)[0].item()

    def string(self, field: str, limit: int = MAX_STRING) -> str:
        size = self.number(U64, f"{field}: length")
        self._check_length(size, limit, field)
        start = self.take(size, field)
        return self._text(self.buf[start:self.pos], field)

    def value(self, vtype: int, field: str) -> Any:
        """A metadata value: int, float, bool, str, list of str, or a read-only 1-D numpy array."""
        if vtype == STRING:
            return self.string(field)
        if vtype == ARRAY:
            return self._array(field)
        if vtype not in SCALARS:
            raise mismatch(self.path, f"{field}: value type", vtype, "0 to 12")
        number = self.number(vtype, field)
        if vtype != BOOL:
            return number
        self._check_bools(np.array([number]), field)
        return bool(number)

    def _array(self, field: str) -> list[str] | np.ndarray:
        vtype = self.number(U32, f"{field}: element type")
        if vtype != STRING and vtype not in SCALARS:
            raise mismatch(self.path, f"{field}: element type", vtype,
                           "a scalar (0 to 7, 10 to 12) or string (8)")
        n = self.number(U64, f"{field}: count")
        if n > MAX_ARRAY:
            raise mismatch(self.path, f"{field}: count", n, f"at most {MAX_ARRAY}")
        if vtype == STRING:
            return self._strings(n, field)
        dtype = SCALARS[vtype]
        start = self.take(n * dtype.itemsize, field)
        array = np.frombuffer(self.buf, dtype, n, start).copy()
        if vtype == BOOL:
            self._check_bools(array, field)
            array = array.astype(bool)
        array.flags.writeable = False
        return array

    def _strings(self, n: int, field: str) -> list[str]:
        """n strings in a tight loop: a vocabulary has a quarter of a million of them."""
        if n > self.strings_left or 8 * n > self.end - self.pos:
            most = min(self.strings_left, (self.end - self.pos) // 8)
            raise mismatch(self.path, f"{field}: count", n, f"at most {most} more strings")
        self.strings_left -= n
        buf, pos, end, length = self.buf, self.pos, self.end, _U64.unpack_from
        texts = []
        try:
            for _ in range(n):
                size, = length(buf, pos)
                pos += 8
                if size > end - pos or size > MAX_STRING:
                    break
                texts.append(str(buf[pos:pos + size], "utf-8"))
                pos += size
        except (struct.error, UnicodeDecodeError):
            pass
        if len(texts) < n:  # the slow way names the element that is wrong
            return [self.string(f"{field}[{i}]") for i in range(n)]
        self.pos = pos
        return texts

    def _check_length(self, size: int, limit: int, field: str) -> None:
        most = min(limit, self.end - self.pos)
        if size > most:
            raise mismatch(self.path, f"{field}: length", size, f"at most {most}")

    def _check_bools(self, array: np.ndarray, field: str) -> None:
        if array.size and array.max() > 1:
            raise mismatch(self.path, field, f"{array.max()} as a boolean", "0 or 1")

    def _text(self, raw: bytes, field: str) -> str:
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError as error:
            found = f"byte 0x{raw[error.start]:02x} at {error.start} of {plain(raw[:40])}"
            raise mismatch(self.path, field, found, "UTF-8") from None

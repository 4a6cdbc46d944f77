"""Split models: PREFIX-00001-of-0000N.gguf and the split.* keys, as llama.cpp's gguf-split writes them."""

from __future__ import annotations

import os
import re
from typing import Any

from spvk.gguf.mismatch import mismatch, plain

_PART = re.compile(r"(?P<prefix>.*)-(?P<no>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL | re.ASCII)
MAX_PARTS = (1 << 16) - 1  # split.count is a UINT16


def part_paths(path: str, fields: dict[str, Any]) -> tuple[str, ...]:
    """All files of the model that `path` belongs to, in order, once they are known to be there.

    Keys without a part's name (parts joined by hand, or renamed) raise GGUFError, as does a missing part.
    """
    name = _PART.fullmatch(path)
    in_file = _integer(path, fields, "split.count", default=1)
    if name is None:
        if in_file != 1:
            raise mismatch(path, "file name", plain(os.path.basename(path)),
                           f"PREFIX-00001-of-0000N.gguf, because split.count is {in_file}")
        return (path,)
    count, no = int(name["count"]), int(name["no"])
    if not 1 <= no <= count <= MAX_PARTS:
        raise mismatch(path, "file name", f"part {no} of {count}", f"part K of N, 1 <= K <= N <= {MAX_PARTS}")
    if in_file != count:
        raise mismatch(path, "split.count", in_file, f"{count}, as the name says")
    paths = tuple(f"{name['prefix']}-{i:05}-of-{count:05}.gguf" for i in range(1, count + 1))
    for i, part in enumerate(paths, 1):
        if not os.path.exists(part):
            beside = plain(os.path.basename(path))
            raise mismatch(part, "file", "no such file", f"part {i} of {count} beside {beside}")
    return paths


def check_part(path: str, no: int, count: int, fields: dict[str, Any]) -> None:
    """Whether this file says itself that it is part `no` (from 0) of `count`."""
    for key, expected in (("split.count", count), ("split.no", no)):
        found = _integer(path, fields, key)
        if found != expected:
            raise mismatch(path, key, found, str(expected))


def check_total(path: str, fields: dict[str, Any], found: int) -> None:
    """Whether the parts together hold as many tensors as the first one says."""
    stated = _integer(path, fields, "split.tensors.count")
    if stated != found:
        raise mismatch(path, "split.tensors.count", stated, f"{found}, the tensors in all parts")


def _integer(path: str, fields: dict[str, Any], key: str, default: int | None = None) -> int:
    value = fields.get(key, default)
    if type(value) is not int:
        raise mismatch(path, key, "no such key" if value is None else type(value).__name__, "an integer")
    return value

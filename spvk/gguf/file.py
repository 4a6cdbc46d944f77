"""Open a GGUF model, whole or split, and ask it for keys and tensors."""

from __future__ import annotations

import mmap
import os
import stat
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeVar

import numpy as np

from spvk.gguf import split
from spvk.gguf.mismatch import mismatch, plain
from spvk.gguf.parser import Header, parse_header
from spvk.gguf.tensor import Tensor

T = TypeVar("T")
_REQUIRED: Any = object()
_KINDS = {int: "an integer", float: "a finite number", str: "a string", bool: "a boolean",
          list: "a list of strings", np.ndarray: "an array of numbers"}


@dataclass(frozen=True, eq=False)
class GGUFFile:
    """A checked GGUF model. `path` is what was opened; `paths` all files of a split model, in order."""

    path: str
    paths: tuple[str, ...]
    version: int
    fields: dict[str, Any]  # int, float, bool, str, list[str] or 1-D array; the first part's if split
    tensors: dict[str, Tensor]  # in file order

    @property
    def architecture(self) -> str:
        return self.get("general.architecture", str)

    def get(self, key: str, kind: type[T], default: Any = _REQUIRED) -> T:
        """The value of `key` as int, float, str, bool, list (of str) or np.ndarray (of numbers).

        `default` is returned as it is when the key is absent. An integer is taken where a float is asked
        for; nothing else is converted. Raises GGUFError naming the key: absent without a default, of
        another kind, or a number that is not finite.
        """
        if key not in self.fields:
            if default is not _REQUIRED:
                return default
            raise mismatch(self.path, key, "no such key", _KINDS[kind])
        value = self.fields[key]
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind or (kind is float and not isfinite(value)):
            raise mismatch(self.path, key, _describe(value), _KINDS[kind])
        return value

    def tensor(self, name: str, shape: tuple[int, ...] | None = None) -> Tensor:
        """The tensor called `name`; GGUFError when it is absent or not of `shape` (GGUF order, ne0 first)."""
        if name not in self.tensors:
            raise mismatch(self.path, f"tensor {name}", "no such tensor",
                           "it in the file" if shape is None else f"shape {list(shape)}")
        tensor = self.tensors[name]
        if shape is not None and tensor.shape != tuple(shape):
            raise mismatch(tensor.path, f"tensor {name}: shape", list(tensor.shape), str(list(shape)))
        return tensor


def open_gguf(path: str | os.PathLike[str]) -> GGUFFile:
    """Map a GGUF file and check all of it; any part of a split model opens all its parts.

    Tensors keep the memory map alive; nothing needs closing. Raises GGUFError, always one line, when there
    is no readable GGUF file, when any count, length, offset or size in it is wrong, or a part is missing.
    """
    path = os.fsdecode(path)
    opened = header, map_ = _open_part(path)
    paths = split.part_paths(path, header.fields)
    if len(paths) == 1:
        return GGUFFile(path, paths, header.version, header.fields, _tensors(path, header, map_))
    tensors: dict[str, Tensor] = {}
    parts = []
    for part in paths:
        header, map_ = opened if part == path else _open_part(part)
        split.check_part(part, len(parts), len(paths), header.fields)
        parts.append(header)
        _merge(tensors, _tensors(part, header, map_))
    split.check_total(paths[0], parts[0].fields, len(tensors))
    return GGUFFile(path, paths, parts[0].version, parts[0].fields, tensors)


def _open_part(path: str) -> tuple[Header, mmap.mmap]:
    map_ = _map(path)
    return parse_header(map_, path), map_


def _map(path: str) -> mmap.mmap:
    try:
        status = os.stat(path)  # before opening: to open a pipe would wait for its writer
        if not stat.S_ISREG(status.st_mode):
            what = "a directory" if stat.S_ISDIR(status.st_mode) else "something that is not a regular file"
            raise mismatch(path, "file", what, "a GGUF file")
        if status.st_size == 0:
            raise mismatch(path, "size", "an empty file", "a GGUF file")
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path, or a file emptied meanwhile
        reason = getattr(error, "strerror", None) or "a path that cannot be opened"
        raise mismatch(path, "file", reason, "a readable GGUF file") from None


def _tensors(path: str, header: Header, map_: mmap.mmap) -> dict[str, Tensor]:
    return {
        info.name: Tensor(info.name, info.shape, info.type, info.nbytes, path, info.offset, map_)
        for info in header.tensors.values()
    }


def _merge(tensors: dict[str, Tensor], more: dict[str, Tensor]) -> None:
    for name, tensor in more.items():
        if name in tensors:
            raise mismatch(tensor.path, f"tensor {plain(name)}", f"it also in {tensors[name].path}",
                           "every tensor in one part")
        tensors[name] = tensor


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.size} {value.dtype}"
    if isinstance(value, list):
        return f"a list of {len(value)} strings"
    return f"{type(value).__name__} {value!r}"

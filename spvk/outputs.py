"""Files that commands write: checked before any work, whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import Iterable

from .errors import SpvkError
from .explain import Account, page
from .gguf.mismatch import plain


def require_writable(path: str | None, inputs: Iterable[str | None] = ()) -> None:
    """Raise SpvkError before any work when the output could not be written after it, or would overwrite an input."""
    if path is None or path == "-":
        return
    if not path:
        raise SpvkError("output: found '', expected the name of a file to write")
    require_name(path)
    folder = Path(path).parent
    if Path(path).is_dir():
        raise SpvkError(f"{plain(path)}: a directory, expected the name of a file to write")
    if (
        not folder.is_dir()
        or not os.access(folder, os.W_OK)
        or (os.path.lexists(path) and not os.access(path, os.W_OK))
    ):
        raise SpvkError(f"{plain(path)}: cannot be written, expected a file in a folder that exists")
    for other in inputs:
        if other and os.path.realpath(other) == os.path.realpath(path):
            raise SpvkError(f"{plain(path)}: an input of this run, expected another file to write")


def require_name(path: str) -> None:
    """Raise SpvkError for a name that is too long for the file system."""
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise SpvkError(f"{plain(path)}: {error.strerror}, expected a shorter one") from None


def part_of(path: str) -> str:
    """Where a file is written until it is whole: beside it, under a name of this process that is never too long."""
    return os.path.join(os.path.dirname(path), f".spvk-{os.getpid()}.part")


def require_cached(path: Path) -> None:
    """Raise SpvkError where `path` cannot be written: its folder, a cache directory, is made if need be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except OSError as error:
        raise SpvkError(f"{path}: {error.strerror}, expected a cache directory that can be written") from None


def require_file(flag: str, path: str | None, report: str | None, inputs: Iterable[str | None]) -> None:
    """`require_writable` for what `flag` names: a file that is no terminal's and no other output's."""
    if path in ("", "-"):
        raise SpvkError(f"{flag}: found {path!r}, expected the name of a file to write")
    require_writable(path, inputs)
    if path and report and os.path.realpath(path) == os.path.realpath(report):
        raise SpvkError(f"{flag} {plain(path)}: the file of --json, expected another file to write")


def write_file(path: str, data: bytes) -> None:
    """Write a whole file or nothing: an old one is replaced at the end. SpvkError when that fails."""
    part = part_of(path)
    special = os.path.lexists(path) and not os.path.isfile(path)  # a pipe or a device is written as it is
    try:
        Path(path if special else part).write_bytes(data)
        if not special:
            os.replace(part, os.path.realpath(path))
    except OSError as error:
        Path(part).unlink(missing_ok=True)
        raise SpvkError(f"{plain(path)}: {error.strerror}, expected a file that can be written") from None


def write_json(path: str | None, report: dict) -> None:
    """The report to a file, or with `-` to standard output, as UTF-8 whatever the terminal's encoding."""
    data = (json.dumps(report, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")
    if path == "-":
        if sys.stdout is None:
            raise SpvkError("--json -: standard output is closed, expected it open")
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    elif path is not None:
        write_file(path, data)


def write_page(path: str, account: Account) -> None:
    """The page of explain.py, whole or not at all."""
    write_file(path, page(account).encode("utf-8", "replace"))

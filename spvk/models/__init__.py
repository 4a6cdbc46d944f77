"""One file an architecture, found by the file's `general.architecture`."""

from __future__ import annotations

from types import ModuleType

from ..errors import GGUFError
from ..gguf import GGUFFile
from . import llama, qwen35

ARCHITECTURES: dict[str, ModuleType] = {m.ARCHITECTURE: m for m in (qwen35, llama)}


def architecture_of(file: GGUFFile) -> ModuleType:
    """The module that knows this file's architecture. Raises GGUFError naming the known ones."""
    name = file.architecture
    if name not in ARCHITECTURES:
        raise GGUFError(f"{file.path}: general.architecture: found {name!r}, expected one of {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


def skipped_tensors(file: GGUFFile, names: set[str], layers: int) -> dict[str, list[str]]:
    """Tensors of the file that the model does not compute with, by what they are."""
    groups: dict[str, list[str]] = {}
    for name in file.tensors.keys() - names:
        block = int(name.split(".")[1]) if name.startswith("blk.") and name.split(".")[1].isdigit() else -1
        if name.startswith("mtp.") or ".nextn." in name or block >= layers:
            kind = "MTP"
        elif name.startswith(("v.", "mm.")):
            kind = "vision"
        else:
            kind = "unused"
        groups.setdefault(kind, []).append(name)
    return {kind: sorted(found) for kind, found in sorted(groups.items())}

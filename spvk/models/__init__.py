"""One file an architecture, found by the file's `general.architecture`."""

from __future__ import annotations

import re
from types import ModuleType

from ..gguf import GGUFFile
from ..gguf.mismatch import mismatch, plain
from . import llama, qwen35

ARCHITECTURES: dict[str, ModuleType] = {m.ARCHITECTURE: m for m in (qwen35, llama)}


def architecture_of(file: GGUFFile) -> ModuleType:
    """The module that knows this file's architecture. Raises GGUFError naming the known ones."""
    name = file.architecture
    if name not in ARCHITECTURES:
        raise mismatch(file.path, "general.architecture", name, f"one of {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


def skipped_tensors(file: GGUFFile, config) -> dict[str, list[str]]:
    """Tensors that are left out because they serve something else, by what they are: MTP or vision.

    Raises GGUFError for any other tensor that the model does not compute with: a bias that is left out would
    give wrong answers.
    """
    module = architecture_of(file)
    matrices, vectors = module.tensor_shapes(config)
    groups: dict[str, list[str]] = {}
    for name in file.tensors.keys() - matrices.keys() - vectors.keys() - module.OTHER_TENSORS:
        block = re.match(r"blk\.([0-9]{1,9})\.", name)
        if name.startswith("mtp.") or ".nextn." in name or (block and int(block[1]) >= config.layers):
            groups.setdefault("MTP", []).append(name)
        elif name.startswith(("v.", "mm.")):
            groups.setdefault("vision", []).append(name)
        else:
            raise mismatch(
                file.path,
                f"tensor {name}",
                "a tensor that spvk does not compute with",
                f"only what a {file.architecture} model has",
            )
    return {kind: sorted(found) for kind, found in sorted(groups.items())}


def describe_skipped(file: GGUFFile, config) -> list[str]:
    """One line for each kind of skipped tensors."""
    return [
        f"{len(names)} {kind} tensors skipped ({', '.join(plain(n) for n in names[:3])}{', …' if len(names) > 3 else ''})"
        for kind, names in skipped_tensors(file, config).items()
    ]

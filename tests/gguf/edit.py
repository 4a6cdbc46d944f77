"""Change keys and tensors of a real GGUF file, for tests of what a model refuses."""

from __future__ import annotations

from pathlib import Path

import builder
import numpy as np

from spvk.gguf import open_gguf

CODES = {"int32": "i32", "uint32": "u32", "float32": "f32", "bool": "bool"}


def encode(value) -> bytes:
    if isinstance(value, bool):
        return builder.scalar("bool", int(value))
    if isinstance(value, int):
        return builder.scalar("u32", value) if 0 <= value < 2**32 else builder.scalar("i64", value)
    if isinstance(value, float):
        return builder.scalar("f32", value)
    if isinstance(value, str):
        return builder.string(value)
    if isinstance(value, list):
        return builder.array("str", value)
    return builder.array(CODES[str(value.dtype)], value.tolist())


def edited(source: Path, target: Path, keys: dict | None = None, tensors: dict | None = None) -> Path:
    """Write `source` with these keys set, and with these float32 tensors (NumPy order) set or, None, left out."""
    file = open_gguf(source)
    entries = {n: (t.shape, t.type.id, bytes(t.raw())) for n, t in file.tensors.items()}
    for name, array in (tensors or {}).items():
        if array is None:
            del entries[name]
        else:
            entries[name] = (array.shape[::-1], 0, array.astype(np.float32).tobytes())
    fields = {**file.fields, **(keys or {})}
    made = builder.GGUF(
        keys=[builder.key(k, encode(v)) for k, v in fields.items()],
        tensors=[builder.Entry(n, tuple(shape), kind, data) for n, (shape, kind, data) in entries.items()],
    )
    target.write_bytes(made.bytes())
    return target

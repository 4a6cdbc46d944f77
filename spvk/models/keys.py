"""A model's keys, read with the bounds that the kernels need; every complaint names the key."""

from __future__ import annotations

from typing import Any

from ..errors import GGUFError
from ..gguf import GGUFFile
from ..gguf.mismatch import mismatch

MAX_WIDTH = 2**20  # embedding and feed-forward widths: far above any model, low enough for 32-bit indices
MAX_GROUP = 16  # query heads a KV head, the score kernels' limit
_NONE: Any = object()


class Keys:
    """Reads `<architecture>.<name>` of one file. Every method raises GGUFError for a missing or bad key."""

    def __init__(self, file: GGUFFile, architecture: str) -> None:
        self.file, self.architecture = file, architecture

    def fail(self, name: str, found: object, expected: str) -> GGUFError:
        return mismatch(self.file.path, f"{self.architecture}.{name}", found, expected)

    def get(self, name: str, kind: type, default: Any = _NONE) -> Any:
        full = f"{self.architecture}.{name}"
        return self.file.get(full, kind) if default is _NONE else self.file.get(full, kind, default=default)

    def whole(self, name: str, low: int, high: int, default: Any = _NONE, multiple: int = 1) -> int:
        """An integer from `low` to `high`, a multiple of `multiple`."""
        value = self.get(name, int, default)
        if not low <= value <= high or value % multiple:
            of = f", a multiple of {multiple}" if multiple > 1 else ""
            raise self.fail(name, value, f"{low} to {high}{of}")
        return value

    def positive(self, name: str, default: Any = _NONE) -> float:
        """A number above 0."""
        value = self.get(name, float, default)
        if not value > 0:
            raise self.fail(name, value, "a number above 0")
        return value

    def layers(self) -> int:
        """block_count without the MTP blocks; no more than the file has tensors."""
        blocks = self.whole("block_count", 1, max(1, len(self.file.tensors)))
        return blocks - self.whole("nextn_predict_layers", 0, blocks - 1, default=0)

    def heads(self) -> tuple[int, int]:
        """(query heads, KV heads), in groups that the kernels can take."""
        heads = self.whole("attention.head_count", 1, 4096)
        kv_heads = self.whole("attention.head_count_kv", 1, heads, default=heads)
        if heads % kv_heads or heads // kv_heads > MAX_GROUP:
            raise self.fail(
                "attention.head_count",
                heads,
                f"a multiple of {kv_heads} KV heads, at most {MAX_GROUP} to each",
            )
        return heads, kv_heads

    def rope_scale(self) -> float:
        """What positions are divided by: linear scaling; as in llama.cpp a factor without a type is linear."""
        kind = self.get("rope.scaling.type", str, "linear")
        if kind not in ("none", "linear"):
            raise self.fail("rope.scaling.type", kind, "none or linear")
        factor = self.get("rope.scaling.factor", float, self.get("rope.scale_linear", float, 0.0))
        if factor < 0:
            raise self.fail("rope.scaling.factor", factor, "a number above 0")
        return factor if factor and kind == "linear" else 1.0

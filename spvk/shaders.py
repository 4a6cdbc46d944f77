"""The catalogue of ahead-of-time shader modules.

A module is a source in shaders/ compiled with a set of defines. The build (shaders/build.py) writes
`spirv/<module>.spv` and `spirv/manifest.json`; what a module's push constants and specialisation
constants are is read from its own source, so nothing here mirrors a GLSL struct by hand.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .errors import DeviceError

SPIRV_DIR = Path(__file__).parent / "spirv"

# GGML types that the shaders dequantise; the define TYPE_<name> selects shaders/include/types/<name>.glsl.
WEIGHT_TYPES = (
    "F32",
    "F16",
    "BF16",
    "Q4_0",
    "Q4_1",
    "Q5_0",
    "Q5_1",
    "Q8_0",
    "Q2_K",
    "Q3_K",
    "Q4_K",
    "Q5_K",
    "Q6_K",
    "IQ4_NL",
    "IQ4_XS",
)

# Sources compiled once.
PLAIN = (
    "rms_norm",
    "gated_delta",
    "conv_silu",
    "gated_norm",
    "swiglu",
    "chunk_max",
    "top_k",
    "take_row",
    "gather_rows",
    "gap_decay",
    "probe",
    "norm_rope_store",
    "attention",
    "attention.tiles",
    "attention.coop",
    "attention_merge",
    "score_stats",
    "score_rows",
    "score_max",
    "score_accumulate",
)
# Sources compiled again for the CPU class, which reads through texel views.
VIEWED = ("attention", "gated_delta")
# Sources compiled again for prompts with gaps: the state decays over the tokens that were dropped.
GAPPED = ("gated_delta", "gated_delta.texels")
# Sources that round rows for products, compiled for each layout of these (include/pack_rows.glsl).
ROUNDING = ("quantize_rows", "rms_norm", "swiglu", "gated_norm")
LAYOUTS = ("pairs", "vector", "dot", "half")
# Sources compiled once for each weight type
# (a dot in a stem sets off the variant: shaders/matmul.lanes.comp makes the modules matmul.<type>.lanes).
TYPED = ("matmul.lanes", "matmul.tiles", "matvec.lanes", "matvec.rows", "embed_rows")
# Sources for quantised types alone: the product of plain floats is always exact.
QUANTISED = ("matmul.coop", "matmul.dot")
QUANTS = WEIGHT_TYPES[3:]
# Sources for types whose quants are so small that the sums of several products fit 16 bits.
SMALL_QUANTS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
PAIRED = ("matmul.pairs", "matvec.pairs")


def typed(stem: str, weight_type: str) -> str:
    """The name of the module that source `stem` makes for a weight type."""
    kernel, _, variant = stem.partition(".")
    return f"{kernel}.{weight_type.lower()}" + (f".{variant}" if variant else "")


def catalogue() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Every module: name -> (source stem, defines)."""
    modules = {stem: (stem, ()) for stem in PLAIN}
    modules |= {f"{stem}.texels": (stem, ("TEXELS",)) for stem in VIEWED}
    modules |= {f"{name}.gaps": (modules[name][0], (*modules[name][1], "GAPS")) for name in GAPPED}
    modules |= {f"{stem}.{to}": (stem, ("PACKED", to.upper())) for stem in ROUNDING for to in LAYOUTS}
    modules["attention.vector"] = ("attention", ("TEXELS", "PACKED", "VECTOR"))
    for stem in TYPED:
        modules |= {typed(stem, t): (stem, (f"TYPE_{t}",)) for t in WEIGHT_TYPES}
    for stem in QUANTISED:
        modules |= {typed(stem, t): (stem, (f"TYPE_{t}",)) for t in QUANTS}
    for stem in PAIRED:
        modules |= {typed(stem, t): (stem, (f"TYPE_{t}",)) for t in SMALL_QUANTS}
    return modules


@dataclass(frozen=True)
class Field:
    """A push constant: a buffer's device address (`access` r, w or rw) or a number (`access` empty)."""

    name: str
    kind: str  # 'address', 'uint', 'int' or 'float'
    access: str
    offset: int  # bytes


@dataclass(frozen=True)
class Module:
    """One SPIR-V module: its push constants and its specialisation constants (name -> id).

    `views` names the buffers that it reads through a view of 128-bit texels, in the order of their bindings.
    """

    name: str
    sha256: str
    push: tuple[Field, ...]
    spec: dict[str, int]
    views: tuple[str, ...] = ()

    @property
    def push_bytes(self) -> int:
        last = self.push[-1]
        return last.offset + (8 if last.kind == "address" else 4)

    def spirv(self) -> bytes:
        return (SPIRV_DIR / f"{self.name}.spv").read_bytes()

    def pack(self, values: dict[str, int | float]) -> bytes:
        """Push constants as bytes; `values` has a device address or a number for every field."""
        if values.keys() != {f.name for f in self.push}:
            raise KeyError(f"{self.name}: arguments {sorted(values)}, expected {[f.name for f in self.push]}")
        out = bytearray(self.push_bytes)
        for f in self.push:
            struct.pack_into(
                {"address": "<Q", "uint": "<I", "int": "<i", "float": "<f"}[f.kind],
                out,
                f.offset,
                values[f.name],
            )
        return bytes(out)


@lru_cache(maxsize=None)
def manifest() -> dict[str, Module]:
    """The modules as built. Raises DeviceError when the package was installed without its shaders."""
    path = SPIRV_DIR / "manifest.json"
    if not path.exists():
        raise DeviceError(
            "the package holds no compiled shaders (spirv/manifest.json): reinstall spvk, "
            "or run `make shaders` in a checkout"
        )
    return {
        name: Module(name, m["sha256"], tuple(Field(*f) for f in m["push"]), m["spec"], tuple(m["views"]))
        for name, m in json.loads(path.read_text()).items()
    }


def source_hash(texts: list[str], defines: tuple[str, ...]) -> str:
    """SHA-256 over a module's source, its includes and its defines, as the manifest records it."""
    h = hashlib.sha256()
    for part in (*texts, *defines):
        h.update(part.encode() + b"\0")
    return h.hexdigest()

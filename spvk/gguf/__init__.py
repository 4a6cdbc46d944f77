"""Reading GGUF models: every number in the file is checked before anything is viewed or allocated by it."""

from __future__ import annotations

from spvk.gguf.file import GGUFFile, open_gguf
from spvk.gguf.repack import Repacked, repack
from spvk.gguf.tensor import Tensor
from spvk.gguf.types import TYPES, TensorType

__all__ = ["GGUFFile", "Repacked", "TYPES", "Tensor", "TensorType", "open_gguf", "repack"]

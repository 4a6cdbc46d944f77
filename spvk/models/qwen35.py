"""Qwen3.5 text decoder (architecture `qwen35`): three Gated DeltaNet layers to one of gated attention.

Gated DeltaNet: Yang, Kautz and Hatamizadeh, arXiv 2412.06464. Tensor names are the GGUF's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..gguf import GGUFFile
from ..kernels import conv_silu, gap_decay, gated_delta, gated_norm
from ..kernels.gated_norm import MAX_HEADS
from ..kernels.norm_rope_store import rope_phases
from ..kernels.weights import row_stride
from ..recording import Buffer
from .builder import (
    ATTENTION_INPUTS,
    F32,
    FEED_FORWARD_INPUTS,
    AttentionShape,
    Builder,
    attention_scratch,
    feed_forward_scratch,
    prefixed,
)
from .keys import MAX_WIDTH, Keys

ARCHITECTURE = "qwen35"
MIXER_INPUTS = ("attn_qkv.weight", "attn_gate.weight", "ssm_alpha.weight", "ssm_beta.weight")  # side by side
OTHER_TENSORS: set[str] = set()  # read, or safe to leave, besides tensor_shapes


@dataclass(frozen=True)
class Config:
    """Sizes of one model, straight from its keys (the letters are those of the field's papers)."""

    context_length: int
    width: int  # D
    feed_forward: int  # F
    layers: int
    eps: float
    attention: AttentionShape
    rope_base: float
    rope_scale: float  # linear position scaling: positions are divided by it
    recurrent: tuple[bool, ...]  # per layer: Gated DeltaNet, or attention
    key_heads: int  # Hk
    value_heads: int  # Hv
    state: int  # s
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
    keys = Keys(file, ARCHITECTURE)
    layers, (heads, kv_heads) = keys.layers(), keys.heads()
    dim = keys.whole("attention.key_length", 8, 256, multiple=8)
    keys.whole("attention.value_length", dim, dim, default=dim)
    keys.whole("ssm.conv_kernel", 4, 4)
    state = keys.get("ssm.state_size", int)
    if state not in (32, 64, 128):
        raise keys.fail("ssm.state_size", state, "32, 64 or 128")
    value_heads = keys.whole("ssm.time_step_rank", 1, MAX_HEADS)
    key_heads = keys.whole("ssm.group_count", 1, value_heads)
    if value_heads % key_heads:
        raise keys.fail("ssm.group_count", key_heads, f"a divisor of {value_heads} value heads")
    keys.whole("ssm.inner_size", value_heads * state, value_heads * state)
    return Config(
        context_length=keys.whole("context_length", 1, 2**31 - 1),
        layers=layers,
        width=keys.whole("embedding_length", 8, MAX_WIDTH, multiple=8),
        feed_forward=keys.whole("feed_forward_length", 8, MAX_WIDTH, multiple=8),
        eps=keys.positive("attention.layer_norm_rms_epsilon"),
        rope_base=keys.positive("rope.freq_base"),
        rope_scale=keys.rope_scale(),
        recurrent=recurrent_layers(keys, layers),
        key_heads=key_heads,
        attention=AttentionShape(heads, kv_heads, dim, rotary_dimensions(keys, dim), "half", gated=True),
        value_heads=value_heads,
        state=state,
        vocabulary=file.tensor("token_embd.weight").rows,
        tied="output.weight" not in file.tensors,
    )


def rotary_dimensions(keys: Keys, dim: int) -> int:
    """rope.dimension_count, checked against the M-RoPE sections (3 or 4 integers), which for text are equal."""
    rotary = keys.whole("rope.dimension_count", 2, dim, multiple=2)
    sections = keys.get("rope.dimension_sections", np.ndarray, None)
    if sections is not None:
        whole = np.issubdtype(sections.dtype, np.integer) and (sections >= 0).all()
        if not whole or len(sections) not in (3, 4) or int(np.sum(sections)) != rotary // 2:
            raise keys.fail(
                "rope.dimension_sections",
                sections.tolist(),
                f"3 or 4 integers from 0 that add up to {rotary // 2}, half of rope.dimension_count",
            )
    return rotary


def recurrent_layers(keys: Keys, layers: int) -> tuple[bool, ...]:
    """attention.recurrent_layers where the file has it, else every full_attention_interval-th layer attends."""
    listed = keys.get("attention.recurrent_layers", np.ndarray, None)
    if listed is None:
        interval = keys.whole("full_attention_interval", 1, 2**31 - 1, default=4)
        recurrent = tuple((i + 1) % interval != 0 for i in range(layers))
    elif len(listed) < layers or not np.isin(listed, (0, 1)).all():
        raise keys.fail(
            "attention.recurrent_layers",
            listed.tolist(),
            f"{layers} entries that are true or false, one a layer",
        )
    else:
        recurrent = tuple(bool(x) for x in listed[:layers])
    if all(recurrent):
        raise keys.fail(
            "block_count", layers, "a layer that attends: without one there is nothing to score by"
        )
    return recurrent


def phases(file: GGUFFile, c: Config) -> np.ndarray:
    """RoPE frequencies as 64-bit fixed-point turns, uint32 [rotary/2, 2]."""
    return rope_phases(c.attention.rotary, c.rope_base, np.full(c.attention.rotary // 2, c.rope_scale))


def tensor_shapes(c: Config) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """(matrices, vectors): GGUF shape of every tensor that the model computes with, by name."""
    a, matrices, vectors = (
        c.attention,
        {"token_embd.weight": (c.width, c.vocabulary)},
        {"output_norm.weight": (c.width,)},
    )
    if not c.tied:
        matrices["output.weight"] = (c.width, c.vocabulary)
    for i, recurrent in enumerate(c.recurrent):
        p = f"blk.{i}."
        vectors |= {p + "attn_norm.weight": (c.width,), p + "post_attention_norm.weight": (c.width,)}
        matrices |= {
            p + "ffn_gate.weight": (c.width, c.feed_forward),
            p + "ffn_up.weight": (c.width, c.feed_forward),
            p + "ffn_down.weight": (c.feed_forward, c.width),
        }
        if recurrent:
            matrices |= {
                p + "attn_qkv.weight": (c.width, c.channels),
                p + "attn_gate.weight": (c.width, c.inner),
                p + "ssm_alpha.weight": (c.width, c.value_heads),
                p + "ssm_beta.weight": (c.width, c.value_heads),
                p + "ssm_out.weight": (c.inner, c.width),
            }
            vectors |= {
                p + "ssm_conv1d.weight": (4, c.channels),
                p + "ssm_dt.bias": (c.value_heads,),
                p + "ssm_a": (c.value_heads,),
                p + "ssm_norm.weight": (c.state,),
            }
        else:
            matrices |= {
                p + "attn_q.weight": (c.width, 2 * a.heads * a.dim),
                p + "attn_k.weight": (c.width, a.kv_heads * a.dim),
                p + "attn_v.weight": (c.width, a.kv_heads * a.dim),
                p + "attn_output.weight": (a.heads * a.dim, c.width),
            }
            vectors |= {p + "attn_q_norm.weight": (a.dim,), p + "attn_k_norm.weight": (a.dim,)}
    return matrices, vectors


def side_by_side(c: Config) -> list[tuple[str, ...]]:
    """Names of the matrices that multiply the same x, group by group."""
    names = []
    for i, recurrent in enumerate(c.recurrent):
        names.append(prefixed(i, MIXER_INPUTS if recurrent else ATTENTION_INPUTS))
        names.append(prefixed(i, FEED_FORWARD_INPUTS))
    return names


def cache_bytes(c: Config, context: int, item: int) -> dict[str, int]:
    """Bytes of what is carried from batch to batch: float32, but for the KV cache's elements of `item` bytes."""
    sizes = {}
    for i, recurrent in enumerate(c.recurrent):
        if recurrent:
            sizes |= {
                f"conv_state.{i}": F32 * 3 * c.channels,
                f"delta_state.{i}": F32 * c.value_heads * c.state**2,
            }
        else:
            kv = item * c.attention.kv_heads * context * c.attention.dim
            sizes |= {f"k_cache.{i}": kv, f"v_cache.{i}": kv}
    return sizes


def gap_bytes(c: Config, rows: int) -> dict[str, int]:
    """Bytes of what decays over gaps need besides: a batch's log decays, and what each layer carries."""
    layers = {f"decay_total.{i}": F32 * c.value_heads for i, recurrent in enumerate(c.recurrent) if recurrent}
    return {"gap_decay": F32 * rows * c.value_heads, **layers}


def scratch_phases(c: Config, rows: int) -> list[dict[str, int]]:
    """Bytes of a batch's activations, for the three parts of a layer that never live together."""
    row = F32 * rows
    mixer = {
        "mixer_in": row * row_stride((c.channels, c.inner, c.value_heads, c.value_heads)),
        "convolved": row * c.channels,
        "mixed": row * c.inner,
        "gated": row * c.inner,
    }
    return [attention_scratch(c.attention, rows), mixer, feed_forward_scratch(c.feed_forward, rows)]


def build_layers(b: Builder, c: Config, layers: range) -> None:
    """These blocks over the batch in `x`."""
    for i in layers:
        inputs = prefixed(i, MIXER_INPUTS if c.recurrent[i] else ATTENTION_INPUTS)
        b.norm("x", f"blk.{i}.attn_norm.weight", "h", inputs)
        if c.recurrent[i]:
            delta_mixer(b, c, i)
        else:
            b.attention_mixer(i, c.attention, c.attention_layers.index(i))
        b.feed_forward(i, "post_attention_norm.weight")
        b.end_of_layer(i)


def delta_mixer(b: Builder, c: Config, i: int) -> None:
    """x += ssm_out(gated_norm(gated_delta(conv(attn_qkv h))))."""
    p, w = f"blk.{i}.", b.weights
    (qkv, z, alpha, beta), stride = b.products("h", prefixed(i, MIXER_INPUTS), "mixer_in")
    b.out.append(
        conv_silu.conv_silu(
            b.profile,
            qkv,
            w[p + "ssm_conv1d.weight"],
            b[f"conv_state.{i}"],
            b["convolved"],
            b.step,
            rows=b.rows,
            channels=c.channels,
            stride=stride,
        )
    )
    gaps = decay_over_gaps(b, c, i, alpha, stride) if i >= b.gaps.dense_layers else None
    b.out.append(
        gated_delta.gated_delta(
            b.profile,
            b["convolved"],
            alpha,
            beta,
            w[p + "ssm_dt.bias"],
            w[p + "ssm_a"],
            b[f"delta_state.{i}"],
            b["mixed"],
            b.step,
            rows=b.rows,
            key_heads=c.key_heads,
            value_heads=c.value_heads,
            size=c.state,
            eps=c.eps,
            gate_stride=stride,
            gaps=gaps,
        )
    )
    b.out.append(
        gated_norm.gated_norm(
            b.profile,
            b["mixed"],
            w[p + "ssm_norm.weight"],
            z,
            b["gated"],
            b.step,
            rows=b.rows,
            heads=c.value_heads,
            size=c.state,
            eps=c.eps,
            stride=stride,
            packed=b.room(p + "ssm_out.weight"),
        )
    )
    b.product("gated", p + "ssm_out.weight", "x", accumulate=True)


def decay_over_gaps(b: Builder, c: Config, i: int, alpha: Buffer, stride: int) -> Buffer | None:
    """The log decays of a layer over gaps, where they are wanted."""
    if b.gaps.decay == "off":
        return None
    gates = alpha, b.weights[f"blk.{i}.ssm_dt.bias"], b.weights[f"blk.{i}.ssm_a"]
    buffers = *gates, b["gaps"], b[f"decay_total.{i}"], b["gap_decay"], b.step
    sizes = dict(rows=b.rows, value_heads=c.value_heads, gate_stride=stride)
    b.out.append(gap_decay.gap_decay(b.profile, *buffers, **sizes, estimate=b.gaps.decay))
    return b["gap_decay"]

"""What both architectures share: the builder that turns layers into a recording, and its buffers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, Sequence

from ..kernels import (
    attention,
    embed_rows,
    matmul,
    matvec,
    norm_rope_store,
    quantize_rows,
    rms_norm,
    score_accumulate,
    score_max,
    score_rows,
    score_stats,
    swiglu,
    take_row,
)
from ..kernels.profile import Profile
from ..kernels.weights import row_stride, side_by_side
from ..recording import ALIGNMENT, Buffer, Matrix, Recording

F32 = 4  # bytes
ATTENTION_INPUTS = ("attn_q.weight", "attn_k.weight", "attn_v.weight")  # each group multiplies one x,
FEED_FORWARD_INPUTS = ("ffn_gate.weight", "ffn_up.weight")  # side by side


@dataclass(frozen=True)
class AttentionShape:
    """What the attention kernels need to know of a model."""

    heads: int
    kv_heads: int
    dim: int
    rotary: int
    pairing: str  # "half" (i, i + r/2) or "adjacent" (2i, 2i + 1)
    gated: bool


@dataclass(frozen=True)
class Capture:
    """What a recording keeps besides the last token's activations.

    `importance`: the fused score row (maximum over heads and layers), added up over steps;
    `rows`: every head's softmax row of the last token; `hidden`: each layer's output of the last token.
    """

    importance: bool = False
    rows: bool = False
    hidden: bool = False


@dataclass(frozen=True)
class Gaps:
    """What is done about dropped tokens in recurrent layers, whose states are all that went before.

    `dense_layers`: so many of the first layers, all recurrent, read every token (dense_layers.py);
    `decay`: in the others the state decays over the tokens that were dropped, as an estimate of
    kernels/gap_decay.py has it; or `off`.
    """

    dense_layers: int = 0
    decay: str = "off"


def prefixed(layer: int, names: Sequence[str]) -> tuple[str, ...]:
    """Tensor names of a layer."""
    return tuple(f"blk.{layer}.{name}" for name in names)


def lay_out(name: str, phases: list[dict[str, int]]) -> tuple[Buffer, dict[str, Buffer]]:
    """One buffer that serves phases which never live at the same time, and the ranges of each phase.

    `phases` are dicts name -> bytes; the buffer has the size of the largest phase.
    """

    def aligned(n: int) -> int:
        return -(-n // ALIGNMENT) * ALIGNMENT

    root = Buffer(name, max(sum(aligned(n) for n in phase.values()) for phase in phases))
    ranges = {}
    for phase in phases:
        at = 0
        for key, nbytes in phase.items():
            ranges[key] = root.range(at, nbytes, key)
            at += aligned(nbytes)
    return root, ranges


@dataclass
class Builder:
    """Collects the dispatches of one batch of at most `rows` tokens.

    `weights` has Matrix and Buffer by GGUF tensor name, `buffers` the session's buffers by name.
    """

    profile: Profile
    weights: Mapping[str, Matrix | Buffer]
    buffers: Mapping[str, Buffer]
    rows: int
    context: int
    eps: float
    capture: Capture
    gaps: Gaps = Gaps()
    out: Recording = field(default_factory=list)

    def __getitem__(self, name: str) -> Buffer:
        return self.buffers[name]

    @property
    def step(self) -> Buffer:
        return self.buffers["step"]

    def embed(self, y: str) -> None:
        self.out += embed_rows.embed_rows(
            self.profile,
            self["tokens"],
            self.weights["token_embd.weight"],
            self[y],
            self.step,
            rows=self.rows,
        )

    def norm(self, x: str, weight: str, y: str, readers: Sequence[str], last: bool = False) -> None:
        """y = rms(x) · weight, for products with the matrices of these names."""
        w, rows = self.weights[weight], 1 if last else self.rows
        packed = [self.reads_packed(name, rows) for name in readers]
        self.out.append(
            rms_norm.rms_norm(
                self.profile,
                self[x],
                w,
                self[y],
                self.step,
                rows=self.rows,
                n=w.nbytes // F32,
                eps=self.eps,
                last=last,
                packed=self["packed"] if any(packed) else None,
                keep=not all(packed),
            )
        )

    def product(self, x: str, weight: str, y: str, accumulate: bool = False) -> None:
        """y (+)= x · weightᵀ for every row."""
        self._product(x, self.weights[weight], y, accumulate)

    def products(self, x: str, weights: Sequence[str], y: str) -> tuple[list[Buffer], int]:
        """x · weightᵀ of several weights, side by side in y. Returns where in y each begins, and the row stride."""
        matrices = [self.weights[name] for name in weights]
        for w in side_by_side(matrices):
            self._product(x, w, y)
        starts = [F32 * sum(w.rows for w in matrices[:i]) for i in range(len(matrices))]
        return [self[y].range(at, self[y].nbytes - at) for at in starts], row_stride(
            [w.rows for w in matrices]
        )

    def _product(self, x: str, w: Matrix, y: str, accumulate: bool = False) -> None:
        self.out += matmul.matmul(
            self.profile,
            self[x],
            w,
            self[y],
            self.step,
            rows=self.rows,
            accumulate=accumulate,
            packed=self.packed(x, w, self.rows),
        )

    def head(self, x: str, weight: str, y: str) -> None:
        """y = weight · (row 0 of x)."""
        w = self.weights[weight]
        self.out += matvec.matvec(self.profile, self[x], w, self[y], packed=self.packed(x, w, rows=1))

    def reads_packed(self, weight: str, rows: int) -> bool:
        """Does the product with this matrix read rounded rows?"""
        return quantize_rows.reads_packed(self.profile, rows, self.weights[weight].type)

    def room(self, weight: str) -> Buffer | None:
        """Where a kernel leaves its rows rounded, if all that reads them is the product with this matrix."""
        return self["packed"] if self.reads_packed(weight, self.rows) else None

    def packed(self, x: str, w: Matrix, rows: int) -> Buffer | None:
        """`x` rounded, where the product with `w` reads it so: by the kernel that made x, else once for all."""
        if not quantize_rows.reads_packed(self.profile, rows, w.type):
            return None
        source, target = self[x], self["packed"]
        if not self._current(source, target):
            self.out.append(
                quantize_rows.quantize_rows(self.profile, source, target, self.step, rows=rows, k=w.k)
            )
        return target

    def _current(self, source: Buffer, target: Buffer) -> bool:
        """Does `target` have the rows of `source` as they are now?"""
        for d in reversed(self.out):
            written = [buffer for buffer, access in d.touched() if "w" in access]
            if any(map(target.overlaps, written)):
                return d.rounds is source
            if any(map(source.overlaps, written)):
                return False
        return False

    def feed_forward(self, i: int, norm: str) -> None:
        """x += ffn_down(silu(ffn_gate h) · ffn_up h), h = rms(x) · norm."""
        p = f"blk.{i}."
        self.norm("x", p + norm, "h", prefixed(i, FEED_FORWARD_INPUTS))
        (gate, up), stride = self.products("h", prefixed(i, FEED_FORWARD_INPUTS), "ffn_in")
        self.out.append(
            swiglu.swiglu(
                self.profile,
                gate,
                up,
                self["ffn"],
                self.step,
                rows=self.rows,
                n=self.weights[p + "ffn_up.weight"].rows,
                stride=stride,
                packed=self.room(p + "ffn_down.weight"),
            )
        )
        self.product("ffn", p + "ffn_down.weight", "x", accumulate=True)

    def attention_mixer(self, i: int, shape: AttentionShape, index: int) -> None:
        """x += attn_output(attention(h)); `index` counts the attention layers."""
        p = f"blk.{i}."
        (q_in, k_in, v_in), stride = self.products("h", prefixed(i, ATTENTION_INPUTS), "qkv_in")
        k_cache, v_cache = self[f"k_cache.{i}"], self[f"v_cache.{i}"]
        sizes = dict(
            rows=self.rows, heads=shape.heads, kv_heads=shape.kv_heads, dim=shape.dim, context=self.context
        )
        self.out.append(
            norm_rope_store.norm_rope_store(
                self.profile,
                q_in,
                k_in,
                v_in,
                self["q"],
                k_cache,
                v_cache,
                self["positions"],
                self["phases"],
                self.step,
                **sizes,
                rotary=shape.rotary,
                eps=self.eps,
                q_weight=self.weights.get(p + "attn_q_norm.weight"),
                k_weight=self.weights.get(p + "attn_k_norm.weight"),
                gated=shape.gated,
                pairing=shape.pairing,
                stride=stride,
            )
        )
        self.out += attention.attention(
            self.profile,
            self["q"],
            k_cache,
            v_cache,
            self["attended"],
            self.step,
            **sizes,
            gate=q_in if shape.gated else None,
            gate_stride=stride,
            parts=self["attention_parts"] if self["attention_parts"].nbytes else None,
            packed=self.room(p + "attn_output.weight"),
        )
        self.score(k_cache, sizes, index)
        self.product("attended", p + "attn_output.weight", "x", accumulate=True)

    def score(self, k_cache: Buffer, sizes: dict[str, int], index: int) -> None:
        """The score row of the last token, while its query is still in `q`."""
        if not (self.capture.importance or self.capture.rows):
            return
        args = (self.profile, self["q"], k_cache, self["score_stats"])
        self.out.append(score_stats.score_stats(*args, self.step, **sizes))
        if self.capture.importance:
            heads = F32 * sizes["heads"]
            weights = self["head_weights"].range(index * heads, heads)
            self.out.append(
                score_max.score_max(*args, weights, self["score_row"], self.step, **sizes, first=index == 0)
            )
        if self.capture.rows:
            self.out.append(score_rows.score_rows(*args, self[f"attn_rows.{index}"], self.step, **sizes))

    def end_of_layer(self, i: int) -> None:
        if self.capture.hidden:
            self.out.append(
                take_row.take_row(
                    self.profile,
                    self["x"],
                    self[f"hidden.{i}"],
                    self.step,
                    rows=self.rows,
                    n=self.weights["output_norm.weight"].nbytes // F32,
                )
            )

    def finish(self) -> Recording:
        if self.capture.importance:
            self.out.append(
                score_accumulate.score_accumulate(
                    self.profile, self["score_row"], self["importance"], self.step, context=self.context
                )
            )
        return self.out


def attention_scratch(shape: AttentionShape, rows: int) -> dict[str, int]:
    """Bytes of the activations of an attention mixer."""
    heads = shape.heads * shape.dim
    widths = (heads * (2 if shape.gated else 1), shape.kv_heads * shape.dim, shape.kv_heads * shape.dim)
    row = F32 * rows
    return {"qkv_in": row * row_stride(widths), "q": row * heads, "attended": row * heads}


def feed_forward_scratch(width: int, rows: int) -> dict[str, int]:
    """Bytes of the activations of a feed-forward block; `width` is the hidden one."""
    return {"ffn_in": F32 * rows * row_stride((width, width)), "ffn": F32 * rows * width}


def score_bytes(
    attention_layers: int, layers: int, width: int, shape: AttentionShape, context: int, capture: Capture
) -> dict[str, int]:
    """Bytes of the buffers that `capture` adds."""
    sizes: dict[str, int] = {}
    if capture.importance or capture.rows:
        sizes["score_stats"] = score_stats.stats_bytes(shape.heads, context)
    if capture.importance:
        sizes |= {"score_row": F32 * context, "importance": F32 * context}
        sizes["head_weights"] = F32 * attention_layers * shape.heads
    if capture.rows:
        sizes |= {f"attn_rows.{k}": F32 * shape.heads * context for k in range(attention_layers)}
    if capture.hidden:
        sizes |= {f"hidden.{i}": F32 * width for i in range(layers)}
    return sizes

"""The Qwen3.5 text decoder in PyTorch: three Gated DeltaNet layers to one of gated attention.

The same arithmetic as `spvk/models/qwen35.py` computes from a GGUF file, in the parallel form that training
needs: Gated DeltaNet (Yang, Kautz and Hatamizadeh, arXiv 2412.06464) chunk by chunk as matrix products.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spvk.synth import Shape

EPS = 1e-6
ROPE_BASE = 1e7
TAPS = 4  # of the short convolution
INTERVAL = 4  # every fourth layer attends


def attends(layer: int) -> bool:
    return (layer + 1) % INTERVAL == 0


def normal(rows: int, columns: int, std: float | None = None) -> nn.Parameter:
    """A matrix [rows, columns] that keeps the size of what it maps, unless `std` says otherwise."""
    return nn.Parameter(torch.randn(rows, columns) * (columns**-0.5 if std is None else std))


class RMSNorm(nn.Module):
    def __init__(self, width: int, value: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), value))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), self.weight.shape, self.weight, EPS)


def delta_rule(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, chunk: int) -> Tensor:
    """S = g S + k (beta (v - (g S)^T k))^T and o = S^T q for every token, `chunk` tokens at a time.

    q, k [B, T, Hk, s]; v [B, T, Hv, s]; decay = log g and beta [B, T, Hv]; T a multiple of `chunk`; value head
    j reads key head j mod Hk. float32 in and out: o [B, T, Hv, s]. Within a chunk the updates solve a unit
    triangular system (the WY form of arXiv 2406.06484, with the decays of arXiv 2412.06464).
    """
    b, t, heads, size = v.shape
    repeat = heads // q.shape[2]

    def split(x: Tensor) -> Tensor:  # [B, T, H, ...] -> [chunks, B, H, chunk, ...]
        return x.unflatten(1, (t // chunk, chunk)).movedim(1, 0).transpose(2, 3)

    def per_value_head(x: Tensor) -> Tensor:
        return x.repeat(1, 1, repeat, 1, 1)

    q, k, v, beta = split(q), split(k), split(v), split(beta).unsqueeze(-1)
    total = split(decay).cumsum(-1)  # log decay from the chunk's start, up to and with each token
    causal = torch.ones(chunk, chunk, dtype=torch.bool).tril()
    between = (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(~causal, -math.inf).exp()
    overlap, seen = per_value_head(k @ k.mT), per_value_head(q @ k.mT) * between
    q, k, start = per_value_head(q), per_value_head(k), total.exp().unsqueeze(-1)
    system = (beta * overlap * between).tril(-1)
    both = torch.cat([beta * v, beta * start * k], -1)
    both = torch.linalg.solve_triangular(system, both, upper=False, unitriangular=True)
    writes, reads = both.split(size, -1)
    to_end = (k * (total[..., -1:] - total).exp().unsqueeze(-1)).mT
    whole = total[..., -1].exp()[..., None, None]
    state, states, news = v.new_zeros(b, heads, size, size), [], []
    for write, read, end, g in zip(writes, reads, to_end, whole):
        states.append(state)
        news.append(write - read @ state)
        state = state * g + end @ news[-1]
    out = (q * start) @ torch.stack(states) + seen @ torch.stack(news)
    return out.transpose(2, 3).movedim(0, 1).reshape(b, t, heads, size)


class DeltaNet(nn.Module):
    """Gated DeltaNet. It starts as memories that later layers can read wherever they are.

    Queries equal keys, half of the value channels are shifts, and the gates are open: their weights read the
    embedding's constant component. So do the keys of the second half of the heads, which are then all alike:
    such a head holds a moving average of the values, over 1/beta tokens.
    """

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.s, self.keys, self.inner = s, s.key_heads * s.state, s.value_heads * s.state
        query = torch.randn(self.keys, s.width) * s.width**-0.5
        query[:, 0] = 0.3 * (torch.arange(self.keys) >= self.keys // 2)
        key = query + 0.1 * torch.randn_like(query) * s.width**-0.5
        value = normal(self.inner, s.width).data
        value[:, 0] = 0
        self.qkv = nn.Parameter(torch.cat([query, key, value]))
        self.gate = normal(self.inner, s.width, 0.3 * s.width**-0.5)
        self.gate.data[:, 0] = 0.1
        self.alpha = normal(s.value_heads, s.width, 0.02)
        self.beta = normal(s.value_heads, s.width, 0.02)
        averaging = s.value_heads - s.value_heads // 2
        self.beta.data[averaging:, 0] = torch.linspace(-0.1, -0.22, s.value_heads // 2)
        self.conv = nn.Parameter(self.first_taps())
        step = torch.logspace(
            math.log10(0.002), math.log10(0.7), s.value_heads
        )  # memories of 500 to 1 tokens
        self.dt = nn.Parameter(step + torch.log(-torch.expm1(-step)))  # softplus's inverse
        self.a_log = nn.Parameter(torch.zeros(s.value_heads))
        self.norm = RMSNorm(s.state)
        self.out = normal(s.width, self.inner, 0.5 * self.inner**-0.5)

    def first_taps(self) -> Tensor:
        """Convolution weights [channels, taps], the last tap is the current token."""
        taps = torch.randn(2 * self.keys + self.inner, TAPS) * 0.1
        taps[: 2 * self.keys] += torch.tensor([0.0, 0.0, 0.3, 1.0])
        values = taps[2 * self.keys :]
        values[::2] += torch.tensor([0.4, 0.5, 0.6, 0.6])
        shifts = torch.randint(0, TAPS, (len(values[1::2]), 1))
        values[1::2] = values[1::2].scatter_add(1, shifts, torch.ones_like(shifts, dtype=torch.float32))
        return taps

    def forward(self, h: Tensor) -> Tensor:
        s = self.s
        mixed, z = F.linear(h, self.qkv).float(), F.linear(h, self.gate)
        alpha, beta = F.linear(h, self.alpha).float(), F.linear(h, self.beta).float()
        with torch.autocast("cpu", enabled=False):
            mixed = F.pad(mixed.mT, (TAPS - 1, 0))
            mixed = F.silu(F.conv1d(mixed, self.conv.unsqueeze(1), groups=len(self.conv)).mT)
            q, k, v = mixed.split([self.keys, self.keys, self.inner], -1)
            q = F.normalize(q.unflatten(-1, (s.key_heads, s.state)), dim=-1, eps=EPS) * s.state**-0.5
            k = F.normalize(k.unflatten(-1, (s.key_heads, s.state)), dim=-1, eps=EPS)
            v = v.unflatten(-1, (s.value_heads, s.state))
            decay = -self.a_log.exp() * F.softplus(alpha + self.dt)
            out = self.padded_rule(q, k, v, decay, beta.sigmoid())
        out = self.norm(out) * F.silu(z.unflatten(-1, (s.value_heads, s.state)))
        return F.linear(out.flatten(-2), self.out)

    def padded_rule(self, *inputs: Tensor) -> Tensor:
        """`delta_rule` at any length: zeros are appended, which change nothing before them."""
        t = inputs[0].shape[1]
        chunk = 32 if t < 1024 else 64 if t < 4096 else 128
        fill = -t % chunk
        padded = [F.pad(x, (0, 0) * (x.ndim - 2) + (0, fill)) for x in inputs]
        return delta_rule(*padded, chunk)[:, :t]


class Attention(nn.Module):
    """Gated attention. It starts as a copying circuit: queries like keys, outputs the values' transpose."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.s, group = s, s.heads // s.kv_heads
        self.k = normal(s.kv_heads * s.head_dim, s.width)
        self.v = normal(s.kv_heads * s.head_dim, s.width)
        self.k.data[:, 0] = self.v.data[:, 0] = 0
        keys = self.k.data.unflatten(0, (s.kv_heads, s.head_dim)).repeat_interleave(group, 0)
        query = keys + 0.5 * torch.randn_like(keys) * s.width**-0.5
        query[..., 0] = 0
        gate = torch.randn_like(keys) * s.width**-0.5
        self.q = nn.Parameter(torch.cat([query, gate], 1).flatten(0, 1))
        values = self.v.data.unflatten(0, (s.kv_heads, s.head_dim)).repeat_interleave(group, 0)
        self.out = nn.Parameter(0.4 * values.flatten(0, 1).T.clone())
        self.q_norm, self.k_norm = RMSNorm(s.head_dim, 1.3), RMSNorm(s.head_dim, 1.3)

    def forward(self, h: Tensor, rope: tuple[Tensor, Tensor], look: Look | None) -> Tensor:
        s = self.s
        q, gate = F.linear(h, self.q).unflatten(-1, (s.heads, 2 * s.head_dim)).chunk(2, -1)
        k = F.linear(h, self.k).unflatten(-1, (s.kv_heads, s.head_dim))
        v = F.linear(h, self.v).unflatten(-1, (s.kv_heads, s.head_dim)).transpose(1, 2)
        q, k = self.rotate(self.q_norm(q), rope), self.rotate(self.k_norm(k), rope)
        group = s.heads // s.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        if look is not None:
            look.read(q, k)
        q, k = q.to(v.dtype), k.to(v.dtype)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        return F.linear((out * gate.sigmoid()).flatten(-2), self.out)

    def rotate(self, x: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
        """[B, T, H, d] -> [B, H, T, d], the first components turned in pairs (i, i + r/2)."""
        half, (cos, sin) = self.s.rotary // 2, rope
        a, b, rest = x.transpose(1, 2).split([half, half, x.shape[-1] - 2 * half], -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


class Look:
    """Where attention looks: log probabilities of one key for each chosen query row.

    rows, keys: int64 [B, R], -1 where there is none; first [B, R]: the keys of the first layer that attends.
    `read` appends float32 [B, H, R] a layer to `logs`.
    """

    def __init__(self, rows: Tensor, keys: Tensor, first: Tensor) -> None:
        self.rows, self.keys, self.first, self.logs = rows, keys, first, []

    def read(self, q: Tensor, k: Tensor) -> None:
        rows, keys = self.rows.clamp(min=0), (self.keys if self.logs else self.first).clamp(min=0)
        q = q.gather(2, rows[:, None, :, None].expand(-1, q.shape[1], -1, q.shape[3])).float()
        scores = q @ k.float().mT * q.shape[3] ** -0.5
        later = torch.arange(k.shape[2]) > rows[:, None, :, None]
        logs = scores.masked_fill(later, -math.inf).log_softmax(-1)
        self.logs.append(logs.gather(3, keys[:, None, :, None].expand(-1, q.shape[1], -1, 1)).squeeze(3))

    def loss(self) -> Tensor:
        """Mean of -log p over rows, heads and layers; those that start a chain's answer count five times."""
        there = (self.rows >= 0)[:, None] * torch.where(self.first != self.keys, 5.0, 1.0)[:, None]
        logs = torch.stack(self.logs)
        return -(logs * there).sum() / (there.sum() * logs.shape[0] * logs.shape[2]).clamp(min=1)


class Block(nn.Module):
    def __init__(self, s: Shape, layer: int) -> None:
        super().__init__()
        self.norm, self.post_norm = RMSNorm(s.width), RMSNorm(s.width)
        self.mixer = Attention(s) if attends(layer) else DeltaNet(s)
        self.ffn_gate, self.ffn_up = normal(s.feed_forward, s.width), normal(s.feed_forward, s.width)
        self.ffn_down = normal(s.width, s.feed_forward, 0.5 * s.feed_forward**-0.5)

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor], look: Look | None) -> Tensor:
        attention = isinstance(self.mixer, Attention)
        h = self.norm(x)
        x = x + (self.mixer(h, rope, look) if attention else self.mixer(h))
        h = self.post_norm(x)
        return x + F.linear(F.silu(F.linear(h, self.ffn_gate)) * F.linear(h, self.ffn_up), self.ffn_down)


class Decoder(nn.Module):
    """The whole model; the output head is the embedding."""

    def __init__(self, shape: Shape, vocabulary: int) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = normal(vocabulary, shape.width, 2 * shape.width**-0.5)
        self.embedding.data[:, 0] = 2  # a constant, as these layers have no biases
        self.blocks = nn.ModuleList(Block(shape, i) for i in range(shape.layers))
        self.norm = RMSNorm(shape.width)

    def forward(self, tokens: Tensor, look: Look | None = None) -> Tensor:
        """Token ids int64 [B, T] -> final hidden states float32 [B, T, D]; `logits` maps them on."""
        half = self.shape.rotary // 2
        frequencies = ROPE_BASE ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(tokens.shape[1], dtype=torch.float64)[:, None] * frequencies
        rope, x = (angles.cos().float(), angles.sin().float()), F.embedding(tokens, self.embedding)
        for block in self.blocks:
            x = block(x, rope, look)
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.embedding).float()

"""A qwen35 model in float64 on the host, from the kernels' twins and the file's dequantised weights."""

from __future__ import annotations

import numpy as np

from spvk.gguf import open_gguf
from spvk.kernels import (
    attention,
    conv_silu,
    gap_decay,
    gated_delta,
    gated_norm,
    norm_rope_store,
    rms_norm,
    swiglu,
)
from spvk.models import qwen35


class Reference:
    """One prompt, read whole; dropped tokens in any of the ways that a session knows."""

    def __init__(self, path) -> None:
        self.file = open_gguf(str(path))
        self.config = qwen35.read_config(self.file)
        matrices, vectors = qwen35.tensor_shapes(self.config)
        self.weights = {
            name: self.file.tensor(name, shape).dequantize().astype(np.float64)
            for name, shape in (matrices | vectors).items()
        }
        self.phases = qwen35.phases(self.file, self.config)

    def logits(self, tokens, kept=None, positions=None, dense_layers=0, decay="off") -> np.ndarray:
        """float64 [vocabulary] after the last of the `kept` tokens (default: all), which stand at `positions`
        (default: where they stood). The first `dense_layers` read all; in the others the state decays over
        gaps by the estimate `decay`.
        """
        tokens, c = np.asarray(tokens), self.config
        kept = np.arange(len(tokens)) if kept is None else np.asarray(kept)
        positions = kept if positions is None else np.asarray(positions)
        gaps = np.diff(positions, prepend=-1) - 1
        embedding = self.weights["token_embd.weight"]
        x = embedding[tokens if dense_layers else tokens[kept]]
        for i, recurrent in enumerate(c.recurrent):
            if i == dense_layers and i:
                x = x[kept]
            h = self.norm(x, f"blk.{i}.attn_norm.weight")
            if recurrent:
                x = x + self.delta(i, h, gaps, decay if i >= dense_layers else "off")
            else:
                x = x + self.attention(i, h, positions)
            h = self.norm(x, f"blk.{i}.post_attention_norm.weight")
            w = [self.weights[f"blk.{i}.ffn_{name}.weight"] for name in ("gate", "up", "down")]
            x = x + swiglu.reference(h @ w[0].T, h @ w[1].T) @ w[2].T
        head = embedding if c.tied else self.weights["output.weight"]
        return self.norm(x[-1:], "output_norm.weight")[0] @ head.T

    def norm(self, x: np.ndarray, weight: str) -> np.ndarray:
        return rms_norm.reference(x, self.weights[weight], self.config.eps)

    def delta(self, i: int, h: np.ndarray, gaps: np.ndarray, decay: str) -> np.ndarray:
        c, w = self.config, {name: self.weights[f"blk.{i}.{name}"] for name in DELTA}
        conv = w["ssm_conv1d.weight"].reshape(-1, conv_silu.TAPS)
        qkv, _ = conv_silu.reference(h @ w["attn_qkv.weight"].T, conv, np.zeros((3, c.channels)))
        alpha, beta = h @ w["ssm_alpha.weight"].T, h @ w["ssm_beta.weight"].T
        start, sizes = (
            np.zeros((c.value_heads, c.state, c.state)),
            {"key_heads": c.key_heads, "size": c.state},
        )
        gates = alpha, beta, w["ssm_dt.bias"], w["ssm_a"]
        over = None
        if decay != "off":
            over, _ = gap_decay.reference(alpha, *gates[2:], gaps, np.zeros(c.value_heads), 0, decay)
        y, _ = gated_delta.reference(qkv, *gates, start, **sizes, eps=c.eps, gaps=over)
        shape = (len(h), c.value_heads, c.state)
        z = (h @ w["attn_gate.weight"].T).reshape(shape)
        gated = gated_norm.reference(y.reshape(shape), w["ssm_norm.weight"], z, c.eps)
        return gated.reshape(len(h), -1) @ w["ssm_out.weight"].T

    def attention(self, i: int, h: np.ndarray, positions: np.ndarray) -> np.ndarray:
        c, a = self.config, self.config.attention
        w = {name: self.weights[f"blk.{i}.attn_{name}.weight"] for name in ("q", "k", "v", "output")}
        norms = [self.weights[f"blk.{i}.attn_{name}_norm.weight"] for name in ("q", "k")]
        gate = h @ w["q"].T  # each head's query, then its gate
        q = gate.reshape(len(h), a.heads, 2, a.dim)[:, :, 0]
        k, v = ((h @ w[name].T).reshape(len(h), a.kv_heads, a.dim) for name in ("k", "v"))
        q, k = (
            norm_rope_store.reference(x, positions, self.phases, c.eps, n)
            for x, n in ((q, norms[0]), (k, norms[1]))
        )
        out = attention.reference(q, k.transpose(1, 0, 2), v.transpose(1, 0, 2), 0, gate)
        return out @ w["output"].T


DELTA = ("attn_qkv.weight", "attn_gate.weight", "ssm_conv1d.weight", "ssm_alpha.weight", "ssm_beta.weight",
         "ssm_dt.bias", "ssm_a", "ssm_norm.weight", "ssm_out.weight")  # fmt: skip

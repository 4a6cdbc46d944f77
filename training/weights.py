"""A model's weights under their names in GGUF, and back from a file, quantised or not."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import torch
from torch import Tensor

from .model import Decoder, attends
from .tokenizer import is_gguf

COMMON = {
    "attn_norm.weight": "norm.weight",
    "post_attention_norm.weight": "post_norm.weight",
    "ffn_gate.weight": "ffn_gate",
    "ffn_up.weight": "ffn_up",
    "ffn_down.weight": "ffn_down",
}
ATTENTION = {
    "attn_q.weight": "mixer.q",
    "attn_k.weight": "mixer.k",
    "attn_v.weight": "mixer.v",
    "attn_output.weight": "mixer.out",
    "attn_q_norm.weight": "mixer.q_norm.weight",
    "attn_k_norm.weight": "mixer.k_norm.weight",
}
DELTA = {
    "attn_qkv.weight": "mixer.qkv",
    "attn_gate.weight": "mixer.gate",
    "ssm_beta.weight": "mixer.beta",
    "ssm_alpha.weight": "mixer.alpha",
    "ssm_conv1d.weight": "mixer.conv",
    "ssm_dt.bias": "mixer.dt",
    "ssm_a": "mixer.a_log",
    "ssm_norm.weight": "mixer.norm.weight",
    "ssm_out.weight": "mixer.out",
}


def parameters(layers: int) -> dict[str, str]:
    """The decoder's parameter for each tensor of a file."""
    out = {"token_embd.weight": "embedding", "output_norm.weight": "norm.weight"}
    for i in range(layers):
        names = COMMON | (ATTENTION if attends(i) else DELTA)
        out |= {f"blk.{i}.{name}": f"blocks.{i}.{own}" for name, own in names.items()}
    return out


def tensors(model: Decoder) -> dict[str, np.ndarray]:
    """float32 arrays by their names in GGUF."""
    own = dict(model.named_parameters())
    out = {name: own[mine].detach().float() for name, mine in parameters(len(model.blocks)).items()}
    return {name: (-x.exp() if name.endswith("ssm_a") else x).numpy() for name, x in out.items()}


def state_of(path: Path) -> dict[str, Tensor]:
    """The state of a checkpoint, or of a GGUF file, which `Decoder.load_state_dict` takes.

    Raises ValueError naming the file for anything else.
    """
    try:
        return state_in_gguf(path) if is_gguf(path) else torch.load(path, weights_only=False)["model"]
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}, expected a checkpoint or a GGUF file") from None
    except Exception:  # whatever readers raise for other files
        raise ValueError(f"{path}: found something else, expected a checkpoint or a GGUF file") from None


def state_in_gguf(path: Path) -> dict[str, Tensor]:
    found = {t.name: t for t in gguf.GGUFReader(path).tensors}
    layers = len({name.split(".")[1] for name in found if name.startswith("blk.")})
    out = {}
    for name, own in parameters(layers).items():
        values = gguf.quants.dequantize(found[name].data, found[name].tensor_type)
        out[own] = torch.from_numpy(np.array(values, np.float32))
    return {own: (-x).log() if own.endswith("a_log") else x for own, x in out.items()}

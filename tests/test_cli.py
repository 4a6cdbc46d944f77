"""The command line as a user meets it: outputs, reports, and one line for every mistake."""

import json
import shutil

import numpy as np
import pytest

from conftest import nmse
from models import DRAFT, MIXED, TARGET, TINY, exact
from spvk.gguf import open_gguf

SETTINGS = {
    "mode",
    "select",
    "mass",
    "keep",
    "max_keep",
    "window",
    "lookahead",
    "chunk",
    "boost_first",
    "boost_first_n",
    "boost_last",
    "boost_last_n",
    "guard_first",
    "guard_last",
}


@pytest.fixture(scope="module")
def tokens_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokens") / "tokens.npy"
    np.save(path, exact(DRAFT)["n257/tokens"])
    return path


def test_prefill_reports_on_the_terminal(spvk, tokens_file):
    status, out, err = spvk("prefill", "-m", TARGET, "-md", DRAFT, "--tokens", tokens_file, "-n", "2")
    assert status == 0
    for word in (
        "prompt",
        "257 tokens",
        "kept",
        "device",
        "load",
        "score",
        "select",
        "prefill",
        "decode",
        "time to first token",
    ):
        assert word in err
    assert out.strip() and "tokens" not in out  # the answer alone
    assert "Traceback" not in err


def test_fast_precision_is_said_and_changes_the_outputs(spvk, tokens_file, tmp_path):
    logits = {}
    for precision in ("exact", "fast"):
        out = tmp_path / f"{precision}.npz"
        assert spvk("dump", DRAFT, "--tokens", tokens_file, "-o", out, "--precision", precision)[0] == 0
        logits[precision] = np.load(out)["logits"]
    assert 0 < nmse(logits["fast"], logits["exact"]) < 1e-3
    run = ("prefill", "-m", DRAFT, "--mode", "off", "--tokens", tokens_file, "-n", "0", "--json", "-")
    status, out, _ = spvk(*run, "--precision", "fast")
    assert status == 0 and json.loads(out)["precision"] == "fast"
    status, out, err = spvk(*run, "--precision", "quick")
    assert status == 2 and "'quick' is not one of 'auto', 'exact', 'fast'" in err and not out


def test_keep_alone_means_chunk_mode(spvk, tokens_file, monkeypatch):
    run = (
        "prefill",
        "-m",
        TARGET,
        "-md",
        DRAFT,
        "--tokens",
        tokens_file,
        "-n",
        "1",
        "--json",
        "-",
        "--keep",
        "0.2",
    )
    assert json.loads(spvk(*run)[1])["settings"]["select"] == "chunk"
    assert json.loads(spvk(*run, "--select", "mass")[1])["settings"]["select"] == "mass"
    monkeypatch.setenv("SP_SELECT_MODE", "mass")
    assert json.loads(spvk(*run)[1])["settings"]["select"] == "mass"


def test_json_has_every_promised_key(spvk, tokens_file, tmp_path):
    status, out, err = spvk(
        "prefill",
        "--target",
        TARGET,
        "--draft",
        DRAFT,
        "--tokens",
        tokens_file,
        "-n",
        "3",
        "--select",
        "chunk",
        "--keep",
        "0.2",
        "--json",
        tmp_path / "out.json",
    )
    assert status == 0
    report = json.loads((tmp_path / "out.json").read_text())
    assert set(report) == {
        "status",
        "prompt_tokens",
        "kept_tokens",
        "kept_fraction",
        "kept_spans",
        "selection_sha256",
        "tokens",
        "text",
        "timings",
        "settings",
        "target",
        "draft",
        "device",
        "precision",
        "cache_type",
        "reason",
        "numbers",
        "protected_spans",
    }
    assert report["reason"].startswith(f"kept {report['kept_tokens']} of 257 tokens")
    assert report["numbers"]["kept_tokens"] == report["kept_tokens"] and report["protected_spans"] == []
    assert set(report["timings"]) == {
        "load_ms",
        "score_ms",
        "select_ms",
        "prefill_ms",
        "decode_ms",
        "ttft_ms",
    }
    t = report["timings"]
    assert t["ttft_ms"] == pytest.approx(t["score_ms"] + t["select_ms"] + t["prefill_ms"], abs=0.01)
    assert report["status"] == "active" and report["prompt_tokens"] == 257 and len(report["tokens"]) == 3
    assert report["kept_tokens"] == sum(end - start for start, end in report["kept_spans"]) < 257
    assert SETTINGS <= set(report["settings"]) and report["settings"]["keep"] == 0.2
    assert (report["target"], report["draft"]) == (str(TARGET), str(DRAFT))


def test_json_to_standard_output_stands_alone(spvk, tokens_file):
    status, out, err = spvk(
        "prefill", "-m", TARGET, "--mode", "off", "--tokens", tokens_file, "-n", "1", "--json", "-"
    )
    report = json.loads(out)
    assert (
        status == 0
        and report["status"] == "disabled"
        and report["kept_tokens"] == 257
        and report["draft"] is None
    )


def test_a_text_prompt_through_the_chat_template(spvk, tmp_path):
    (tmp_path / "prompt.txt").write_text("what is the code of the red door ?", encoding="utf-8")
    status, out, err = spvk(
        "prefill", "-m", TINY, "-md", TINY, "-f", tmp_path / "prompt.txt", "-n", "2", "--json", "-"
    )
    report = json.loads(out)
    plain = json.loads(
        spvk(
            "prefill",
            "-m",
            TINY,
            "-md",
            TINY,
            "-p",
            "what is the code of the red door ?",
            "--raw",
            "-n",
            "2",
            "--json",
            "-",
        )[1]
    )
    assert report["prompt_tokens"] > plain["prompt_tokens"] > 5


def test_environment_settings_and_options_before_them(spvk, tokens_file, monkeypatch):
    monkeypatch.setenv("SP_SELECT_MODE", "chunk")
    monkeypatch.setenv("SP_KEEP_PCT", "0.5")
    run = ("prefill", "-m", TARGET, "-md", DRAFT, "--tokens", tokens_file, "-n", "1", "--json", "-")
    assert json.loads(spvk(*run)[1])["settings"]["keep"] == 0.5
    assert json.loads(spvk(*run, "--keep", "0.1")[1])["settings"]["keep"] == 0.1


def test_dump_writes_the_exact_outputs(spvk, tmp_path):
    want = exact(TINY)
    np.save(tmp_path / "t.npy", want["sparse/tokens"])
    np.save(tmp_path / "p.npy", want["sparse/positions"])
    status, out, err = spvk(
        "dump",
        TINY,
        "--tokens",
        tmp_path / "t.npy",
        "--positions",
        tmp_path / "p.npy",
        "--lookahead",
        "4",
        "-o",
        tmp_path / "out.npz",
    )
    assert status == 0
    with np.load(tmp_path / "out.npz") as got:
        assert set(got.files) == {
            "logits",
            "greedy",
            "hidden",
            "importance",
            *(f"attn_rows_step{i}" for i in range(5)),
        }
        assert got["logits"].shape == (5, 512) and got["hidden"].shape == (4, 256)
        assert got["greedy"].tolist() == want["sparse/greedy"].tolist()
        assert got["attn_rows_step4"].shape == want["sparse/attn_rows_step4"].shape
    refused(spvk("dump", TINY, "--tokens", tmp_path / "t.npy", "-o", "-"), "--output: found '-'")


def test_inspect_counts_types_and_bytes(spvk):
    status, out, err = spvk("inspect", MIXED)
    assert status == 0 and "qwen35" in out
    types = {t.type.name for t in open_gguf(MIXED).tensors.values()}
    assert all(name in out for name in types)


def test_devices_names_the_choice(spvk, device):
    status, out, err = spvk("devices")
    assert status == 0 and device.info.name in out and f"would use {device.info.index}" in out


def test_help_names_every_command(spvk):
    status, out, err = spvk("--help")
    assert status == 0 and all(c in out for c in ("prefill", "dump", "inspect", "devices"))


# -- bad input: one line, status 2 -------------------------------------------------------------------------


def refused(result, *words):
    status, out, err = result
    assert status == 2, (status, out, err)
    lines = err.strip().splitlines()
    assert "Traceback" not in err and out == ""
    assert len([line for line in lines if line.startswith("spvk: ")]) == 1 and lines[-1].startswith("spvk: ")
    for word in words:
        assert str(word) in lines[-1], lines[-1]


@pytest.fixture
def prefill(spvk, tokens_file):
    """The command with a good pair and prompt, and the given options instead or besides."""

    def run(*args, target=TARGET, draft=DRAFT, tokens=tokens_file):
        return spvk("prefill", "-m", target, "-md", draft, *(("--tokens", tokens) if tokens else ()), *args)

    return run


def test_no_file(prefill):
    refused(prefill(target="absent.gguf"), "absent.gguf", "No such file")


def test_an_empty_file_and_a_cut_one(prefill, tmp_path):
    (tmp_path / "empty.gguf").write_bytes(b"")
    (tmp_path / "cut.gguf").write_bytes(TARGET.read_bytes()[:100_000])
    (tmp_path / "text.gguf").write_text("not a model")
    refused(prefill(target=tmp_path / "empty.gguf"), "empty.gguf", "empty file")
    refused(prefill(target=tmp_path / "cut.gguf"), "cut.gguf")
    refused(prefill(draft=tmp_path / "cut.gguf"), "cut.gguf")
    refused(prefill(target=tmp_path / "text.gguf"), "text.gguf")
    refused(prefill(target=tmp_path), tmp_path.name, "directory")


def test_another_architecture(prefill, tmp_path):
    other = tmp_path / "other.gguf"
    other.write_bytes(TARGET.read_bytes().replace(b"qwen35", b"qwen99"))
    refused(prefill(target=other), "other.gguf", "general.architecture", "qwen99", "qwen35, llama")


def test_a_draft_with_another_vocabulary(prefill):
    refused(prefill(draft=TINY), TINY.name, TARGET.name, "vocabulary differs")


def test_empty_prompts(spvk, tmp_path):
    (tmp_path / "empty.txt").write_text("\n")
    np.save(tmp_path / "empty.npy", np.zeros(0, np.int32))
    pair = ("prefill", "-m", TINY, "-md", TINY)
    refused(spvk(*pair, "-p", ""), "prompt: empty")
    refused(spvk(*pair, "-f", tmp_path / "empty.txt"), "prompt: empty", "empty.txt")
    refused(spvk(*pair, "--tokens", tmp_path / "empty.npy"), "prompt: empty")
    refused(spvk(*pair), "expected exactly one of -p, -f, --tokens")
    refused(spvk(*pair, "-p", "a", "-f", tmp_path / "empty.txt"), "found -p and -f")
    refused(spvk(*pair, "-f", tmp_path / "absent.txt"), "absent.txt", "No such file")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    refused(spvk(*pair, "-f", tmp_path / "latin.txt"), "latin.txt", "byte 3 is not UTF-8")


def test_a_prompt_beyond_the_context(prefill):
    refused(prefill("-c", "100"), "257 tokens and 32 to follow", "at most 100", "-c")


def test_tokens_out_of_range(spvk, tmp_path):
    np.save(tmp_path / "t.npy", np.array([1, 2, 640]))
    refused(
        spvk("prefill", "-m", TARGET, "-md", DRAFT, "--tokens", tmp_path / "t.npy"),
        "token 2 is 640",
        "0 to 639",
    )
    np.save(tmp_path / "f.npy", np.array([1.0]))
    refused(spvk("dump", TINY, "--tokens", tmp_path / "f.npy", "-o", tmp_path / "o.npz"), "f.npy", "float64")
    (tmp_path / "x.npy").write_bytes(b"junk")
    refused(spvk("dump", TINY, "--tokens", tmp_path / "x.npy", "-o", tmp_path / "o.npz"), "x.npy")
    assert not (tmp_path / "o.npz").exists()


def test_bad_options(prefill, spvk, tmp_path):
    refused(prefill("--keep", "0"), "--keep")
    refused(prefill("--keep", "x"), "--keep")
    refused(prefill("--mass", "1.5"), "--mass")
    refused(prefill("--select", "best"), "--select", "mass, chunk")
    refused(prefill("--mode", "sometimes"), "--mode")
    refused(prefill("--window", "0"), "--window")
    refused(prefill("--max-keep", "3"), "--max-keep")
    refused(prefill("--batch", "0"), "--batch")
    refused(prefill("-n", "-1"), "-n")
    refused(prefill("--device", "no such card"), "--device", "no such card")
    refused(prefill("--json", tmp_path / "absent" / "out.json"), "out.json")
    refused(prefill("--json", ""), "output: found ''")
    refused(prefill("--frobnicate"), "--frobnicate")
    refused(spvk("prefill", "-m", TARGET, "-p", "hello"), "--draft")
    refused(spvk("prefill"), "prompt: found none")
    refused(spvk("prefill", "-md", DRAFT, "-p", "hello"), "--target")
    refused(spvk("frobnicate"), "frobnicate")
    refused(prefill("--system", "be brief"), "--system")


def test_a_bad_environment_variable_is_named(prefill, monkeypatch):
    monkeypatch.setenv("SP_CHUNK", "many")
    refused(prefill(), "SP_CHUNK", "many")


def test_no_vulkan_device(prefill, spvk, monkeypatch, tmp_path):
    monkeypatch.setenv("VK_DRIVER_FILES", str(tmp_path / "none.json"))
    monkeypatch.setenv("VK_ICD_FILENAMES", str(tmp_path / "none.json"))
    refused(prefill(), "no Vulkan d")
    refused(spvk("devices"), "no Vulkan d")


def test_nothing_is_lost_when_the_report_cannot_be_written(prefill, tmp_path):
    refused(prefill("--json", tmp_path), str(tmp_path))


def test_a_model_without_a_template_suggests_raw(spvk, tmp_path):
    path = tmp_path / "plain.gguf"
    shutil.copy(TINY, path)
    path.write_bytes(path.read_bytes().replace(b"tokenizer.chat_template", b"tokenizer.chat_templatX"))
    refused(spvk("prefill", "-m", path, "-md", path, "-p", "hello"), "--raw")

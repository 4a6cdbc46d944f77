"""spvk tune: candidates in turns, what is kept and when it counts, errors. No assertion about speed itself."""

import json
from dataclasses import replace

import numpy as np
import pytest

from conftest import nmse
from models import DRAFT, TARGET
from spvk import embedded, job, tune, tune_pair, tuning
from spvk.kernels.profile import CPU, Profile
from spvk.model import Model
from spvk.vulkan import Commands


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setattr(tuning, "cache_dir", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def clock(monkeypatch):
    """A clock by which the candidate that costs[name] says takes that many ms."""
    now = [0.0]
    monkeypatch.setattr(tune, "perf_counter", lambda: now[0])
    return now


def test_the_fastest_candidate_is_kept_where_it_is_clearly_faster(clock, device, profile, monkeypatch):
    def run_for(costs):
        def fastest(runs):
            return {name: costs[name] for name in runs}

        monkeypatch.setattr(tune, "fastest", fastest)
        return tune.measure(device, profile, "matvec.wide", 1).kept

    assert run_for({"8": 1.0, "4": 0.98, "2": 2.0}) == "8"  # two per cent are noise
    assert run_for({"8": 1.0, "4": 0.9, "2": 2.0}) == "4"


def test_runs_take_turns_and_the_least_time_counts(clock):
    order = []

    def candidate(name, times):
        def run():
            order.append(name)
            clock[0] += times[min(order.count(name) - 1, len(times) - 1)]

        return run

    ms = tune.fastest({"a": candidate("a", [9, 0.3, 0.2, 0.4]), "b": candidate("b", [9, 0.5])})
    assert order[:6] == ["a", "b", "a", "b", "a", "b"]
    assert ms == pytest.approx({"a": 200.0, "b": 500.0})


@pytest.mark.parametrize("profile", [CPU, Profile("scalar", 8, 64)], ids=lambda p: p.name)
def test_every_candidate_gives_the_same_answer(device, profile):
    for choice, candidates in tuning.choices_for(profile).items():
        answers = []
        for name in candidates:
            scratch = tune.Scratch(device)
            recording = tune.LAUNCHES[choice](replace(profile, choices=((choice, name),)), scratch, 33)
            commands = Commands(device, scratch.memory, recording)
            commands.run()
            answers.append(scratch.memory.download(recording[-1].args["y"]))
            commands.free()
            scratch.memory.free()
        assert np.isfinite(answers[0]).all() and answers[0].std() > 0, choice
        assert all(nmse(answer, answers[0]) < 1e-11 for answer in answers), choice


def test_what_is_kept_counts_for_this_device_and_these_shaders(device, profile, monkeypatch):
    assert tuning.tuned(device, profile) == profile
    tuning.save(device, {"matmul.tile": "16x4", "matvec.wide": "3", "unheard.of": "1"})
    assert tuning.tuned(device, profile).choices == (("matmul.tile", "16x4"),)
    monkeypatch.setattr(tuning, "shaders_digest", lambda: "others")
    assert tuning.tuned(device, profile) == profile


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 1}', '{"version": 1, "shaders": 3, "choices": 4}', "[" * 100_000]
    + [
        f'{{"version": 1, "shaders": "s", "choices": {odd}}}'
        for odd in ("4", '[[1, "8"], ["matmul.tile", "8x8"]]')
    ],
)
def test_a_spoilt_file_counts_as_none(device, profile, monkeypatch, text):
    monkeypatch.setattr(tuning, "shaders_digest", lambda: "s")
    tuning.path_for(device).write_text(text)
    assert tuning.tuned(device, profile) == profile


def test_models_use_what_was_kept(device):
    tuning.save(device, {"matmul.tile": "8x8"})
    with Model(device, DRAFT) as model:
        assert model.profile.choice("matmul.tile", "16x8") == "8x8"


def test_the_command_keeps_kernels_and_a_pairs_rates(spvk, cache, monkeypatch, tmp_path):
    monkeypatch.setattr(tune, "CPU_TOKENS", 2)
    monkeypatch.setattr(tune, "SECONDS", 0.0)
    monkeypatch.setattr(tune, "CPU_LENGTHS", (40, 300))
    monkeypatch.setattr(tune_pair, "GROW_MS", 0.0)
    monkeypatch.setattr(tune_pair, "ROUNDS", 1)
    monkeypatch.setenv("SPVK_CACHE_DIR", str(cache))
    monkeypatch.setattr(tune, "choices_for", lambda profile: {"matvec.wide": ("8", "4")})
    status, out, err = spvk("tune", "-m", TARGET, "-md", DRAFT)
    assert status == 0 and out == ""
    assert "matvec.wide" in err and "300 tokens: prefill" in err
    (kept,) = cache.glob("tuning-*.json")
    assert json.loads(kept.read_text())["choices"]["matvec.wide"] in ("8", "4")
    records = json.loads((cache / "rates.json").read_text())["records"]
    counts = {key.rsplit("/", 1)[1]: len(rows) for key, rows in records.items()}
    # Dense and sparse of two lengths; scored once each. What random prompts keep says nothing of others.
    assert counts == {"prefill": 4, "score": 2}


def test_one_model_alone_is_an_error(spvk):
    assert spvk("tune", "-m", TARGET)[::2] == (2, "spvk: --draft: missing, expected both models or none\n")
    assert spvk("tune", "-md", DRAFT)[::2] == (2, "spvk: --target: missing, expected both models or none\n")


def test_a_file_that_is_no_model_is_named_before_the_work(spvk, cache):
    status, _, err = spvk("tune", "-m", TARGET, "-md", __file__)
    assert status == 2 and f"spvk: {__file__}: magic" in err and not list(cache.glob("tuning-*"))


def test_a_cache_that_cannot_be_written_is_named(device, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(tuning, "cache_dir", lambda: tmp_path / "file" / "x")
    with pytest.raises(tuning.SpvkError, match="expected a cache directory that can be written"):
        tuning.save(device, {})


def test_tune_names_a_cache_that_cannot_be_written_before_the_work(spvk, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(tuning, "cache_dir", lambda: tmp_path / "file" / "x")
    monkeypatch.setattr(tune, "measure", lambda *_: pytest.fail("measured before"))
    status, _, err = spvk("tune")
    assert status == 2 and "file/x/tuning-" in err and "expected a cache directory that can be written" in err


def test_a_pair_that_cannot_be_timed_is_named_before_the_work(spvk, cache, monkeypatch):
    monkeypatch.setattr(tune, "measure", lambda *_: pytest.fail("measured before"))
    status, _, err = spvk("tune", "-m", TARGET, "-md", embedded.DRAFT)
    assert status == 2 and "its vocabulary differs" in err
    monkeypatch.setattr(job, "cache_dir", lambda: cache)
    (cache / "rates.json").mkdir()
    status, _, err = spvk("tune", "-m", TARGET, "-md", DRAFT)
    assert status == 2 and "rates.json: Is a directory, expected a cache directory" in err

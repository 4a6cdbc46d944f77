"""spvk tune: candidates in turns, what is kept and when it counts, errors. No assertion about speed itself."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import nmse
from models import DRAFT, TARGET
from spvk import tune, tuning
from spvk.errors import SpvkError
from spvk.kernels.profile import CPU, Profile, profile_for
from spvk.model import Model
from spvk.specprefill import Settings, Timings, prefill_work, score_work
from spvk.specprefill.cost import Rate
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
    monkeypatch.setattr(tune, "GROW_MS", 0.0)
    monkeypatch.setattr(tune, "PAIR_ROUNDS", 1)
    monkeypatch.setattr(tune.job, "cache_dir", lambda: cache)
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


class Screen:
    """What was said."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


@pytest.fixture
def simulated(clock, device, monkeypatch, cache):
    """Run measure_pair where prefills take `rate`'s time; returns (rates, dense lengths read, lines said)."""
    monkeypatch.setattr(tune.job, "cache_dir", lambda: cache)

    def run(rate, lengths, most=10**9):
        read = []

        def prefill(target, draft, tokens, settings, predict):
            n = len(tokens)
            if n > most:
                raise SpvkError("too little memory")
            dense = settings.mode == "off"
            kept = n if dense else 3 * n // 4
            score = 0.0 if dense else rate.ms(score_work(n, settings)) / 5
            clock[0] += (rate.ms(prefill_work(kept)) + score) / 1e3
            read.extend([n] * dense)
            selection = SimpleNamespace(prompt_tokens=n, kept_tokens=kept)
            times = Timings(0.0, score, 0.0, rate.ms(prefill_work(kept)), 0.0)
            importance = None if dense else 1
            return SimpleNamespace(
                selection=selection, timings=times, importance=importance, settings=settings
            )

        monkeypatch.setattr(tune.engine, "prefill", prefill)
        screen = Screen()
        tune.measure_pair(device, str(TARGET), str(DRAFT), lengths, screen)
        settings = Settings(mode="always", select="chunk", keep=0.2)
        profile, config = profile_for(device.info, "auto"), SimpleNamespace(layers=8)
        target = SimpleNamespace(path=str(TARGET), profile=profile, config=config)
        memory = tune.job.RateMemory.of(device, target, str(DRAFT), settings)
        return memory.rates(), read, screen.lines

    return run


def test_a_quick_pair_is_read_at_longer_lengths(simulated):
    rate = Rate(20.0, 1.0, 1e-4)
    rates, read, lines = simulated(rate, (128, 256, 512))
    # 1,024 tokens take 1,149 ms, which is quick; 2,048 take 2,487.
    assert read == [128, *3 * [128], *3 * [256], *3 * [512], *2 * [1024], 2048]
    assert lines[2] == "512 tokens: prefill 558 ms, scoring 144 ms"
    for n in (512, 2048, 4096):
        got = rates.predict(n, Settings(select="chunk", keep=0.2), kept=n // 5)
        assert got.dense_ms == pytest.approx(rate.ms(prefill_work(n)), rel=1e-3)
        assert got.score_ms == pytest.approx(rate.ms(score_work(n, Settings())) / 5, rel=1e-3)


def test_a_slow_pair_is_read_at_the_least_lengths_once(simulated):
    assert simulated(Rate(0.0, 75.0, 0.0), (128, 256))[1] == [128, 128, 256]


def test_lengths_end_at_the_most_and_where_memory_ends(simulated, monkeypatch):
    assert set(simulated(Rate(0.0, 1e-3, 0.0), (512,))[1]) == {512, 1024, 2048, 4096, 8192}
    assert set(simulated(Rate(0.0, 1e-3, 0.0), (128, 256), most=1000)[1]) == {128, 256, 512}
    with pytest.raises(SpvkError, match="too little memory"):
        simulated(Rate(0.0, 1e-3, 0.0), (128, 2000), most=1000)


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

"""Timing a pair: which lengths are read, what is remembered of them, and runs in processes of their own."""

import json
from contextlib import ExitStack, nullcontext
from types import SimpleNamespace

import pytest

from models import DRAFT, TARGET
from spvk import job, tune_pair
from spvk.errors import SpvkError
from spvk.specprefill import Settings, Timings, prefill_work, score_work
from spvk.specprefill.cost import Rate


class Screen:
    """What was said."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


@pytest.fixture
def pair(device):
    with ExitStack() as stack:
        yield job.open_pair(stack, device, str(TARGET), str(DRAFT), "auto")


@pytest.fixture
def simulated(device, pair, monkeypatch, tmp_path):
    """Run measure_pair where prefills take `rate`'s time; returns (rates, dense lengths read, lines said)."""
    now = [0.0]
    monkeypatch.setattr(tune_pair, "perf_counter", lambda: now[0])
    monkeypatch.setattr(tune_pair, "Device", lambda name: nullcontext(device))
    monkeypatch.setattr(tune_pair, "in_process", tune_pair.run_once)
    monkeypatch.setattr(job, "open_pair", lambda *_: pair)
    monkeypatch.setattr(job, "cache_dir", lambda: tmp_path)

    def run(rate, lengths, most=10**9):
        read = []

        def prefill(target, draft, tokens, settings, predict):
            n = len(tokens)
            if n > most:
                raise SpvkError("too little memory")
            dense = settings.mode == "off"
            kept = n if dense else 3 * n // 4
            score = 0.0 if dense else rate.ms(score_work(n, settings)) / 5
            now[0] += (rate.ms(prefill_work(kept)) + score) / 1e3
            read.extend([n] * dense)
            selection = SimpleNamespace(prompt_tokens=n, kept_tokens=kept)
            times = Timings(0.0, score, 0.0, rate.ms(prefill_work(kept)), 0.0)
            importance = None if dense else 1
            decision = SimpleNamespace(is_sparse=not dense)
            return SimpleNamespace(
                selection=selection,
                timings=times,
                importance=importance,
                settings=settings,
                decision=decision,
            )

        monkeypatch.setattr(tune_pair.engine, "prefill", prefill)
        screen = Screen()
        tune_pair.measure_pair(None, str(TARGET), str(DRAFT), lengths, screen)
        settings = Settings(mode="always", select="chunk", keep=0.2)
        return job.RateMemory.of(device, pair[0], str(DRAFT), settings).rates(), read, screen.lines

    return run


def test_a_quick_pair_is_read_at_longer_lengths(simulated):
    rate = Rate(20.0, 1.0, 1e-4)
    rates, read, lines = simulated(rate, (128, 256, 512))
    # 1,024 tokens take 1,149 ms, which is quick; 2,048 take 2,487, and with the sparse run 4.8 s: once more.
    assert read == [*3 * [128], *3 * [256], *3 * [512], *3 * [1024], *2 * [2048]]
    assert lines[2] == "512 tokens: prefill 558 ms, scoring 144 ms"
    for n in (512, 2048, 4096):
        got = rates.predict(n, Settings(select="chunk", keep=0.2), kept=n // 5)
        assert got.dense_ms == pytest.approx(rate.ms(prefill_work(n)), rel=1e-3)
        assert got.score_ms == pytest.approx(rate.ms(score_work(n, Settings())) / 5, rel=1e-3)


def test_a_slow_pair_is_read_at_the_least_lengths_once(simulated):
    assert simulated(Rate(0.0, 75.0, 0.0), (128, 256))[1] == [128, 256]


def test_lengths_end_at_the_most_and_where_memory_ends(simulated):
    assert set(simulated(Rate(0.0, 1e-3, 0.0), (512,))[1]) == {512, 1024, 2048, 4096, 8192}
    assert set(simulated(Rate(0.0, 1e-3, 0.0), (128, 256), most=1000)[1]) == {128, 256, 512}
    with pytest.raises(SpvkError, match="too little memory"):
        simulated(Rate(0.0, 1e-3, 0.0), (128, 2000), most=1000)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SPVK_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_process_of_its_own_gives_its_times_or_its_line(cache):
    dense = tune_pair.in_process(None, str(TARGET), str(DRAFT), 40, "off")
    sparse = tune_pair.in_process(None, str(TARGET), str(DRAFT), 40, "always")
    assert dense.prefill > 0 == dense.score and sparse.prefill > 0 < sparse.score
    records = json.loads((cache / "rates.json").read_text())["records"]
    assert sorted(
        row[-1] for key, rows in records.items() if key.endswith("/prefill") for row in rows
    ) == sorted([dense.prefill, sparse.prefill])
    with pytest.raises(SpvkError, match="^none.gguf: file: found No such file"):
        tune_pair.in_process(None, "none.gguf", str(DRAFT), 40, "off")


def test_a_process_that_dies_is_one_line(monkeypatch):
    monkeypatch.setattr(tune_pair.sys, "executable", "false")
    with pytest.raises(SpvkError, match="tune: a run of 40 tokens ended with status 1, expected its times"):
        tune_pair.in_process(None, str(TARGET), str(DRAFT), 40, "off")


def test_a_context_without_room_for_a_token_is_named(monkeypatch):
    monkeypatch.setattr(job, "read_config", lambda path: (None, SimpleNamespace(context_length=8)))
    with pytest.raises(SpvkError, match="a.gguf: context_length: found 8, expected more than lookahead's 8"):
        tune_pair.measure_pair(None, "a.gguf", "b.gguf", (128,), Screen())

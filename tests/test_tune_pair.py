"""Timing a pair: which lengths are read, what is remembered of them, and runs in processes of their own."""

import os
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
    monkeypatch.setattr(tune_pair, "in_process", lambda function, *args: function(*args))
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


def fail():
    raise SpvkError("models: found none")


def test_a_process_of_its_own_gives_its_value_or_its_error():
    assert tune_pair.in_process(os.getpid) != os.getpid()
    with pytest.raises(SpvkError, match="models: found none"):
        tune_pair.in_process(fail)


def test_a_process_that_dies_is_one_line():
    with pytest.raises(SpvkError, match="tune: a run's process ended, expected times of it"):
        tune_pair.in_process(os._exit, 1)

"""The cost model: fits that can be checked by hand, predictions, and the file of records."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from specprefill.plain import v3
from spvk.errors import SpvkError
from spvk.specprefill import (
    Rates,
    RateStore,
    Settings,
    decide,
    fingerprint,
    prefill_work,
    score_work,
    settings_key,
)
from spvk.specprefill.cost import Rate, Record, Work, expected_kept, fit

TRUE = Rate(4.0, 0.25, 2e-5)  # 4 ms a pass, 4,000 tokens a second, and 2 x 10^-5 ms a pair of tokens
CHUNK_OPTIONS = {"select": "chunk", "keep": 0.2}
CHUNK = v3(**CHUNK_OPTIONS)


def measured(*lengths, rate=TRUE, factor=1.0):
    return [Record(prefill_work(n), rate.ms(prefill_work(n)) * factor) for n in lengths]


def close(rate, other):
    assert (rate.step_ms, rate.token_ms, rate.square_ms) == pytest.approx(
        (other.step_ms, other.token_ms, other.square_ms), rel=1e-6, abs=1e-9)


def test_work():
    assert prefill_work(100) == (1, 100, 10000)
    assert score_work(100, v3(lookahead=8)) == (9, 100, 10000)
    # windows of 40 at stride 20: 0-40, 20-60, 40-80, 60-100
    assert score_work(100, v3(window=40, lookahead=2)) == (12, 160, 4 * 1600)


def test_no_records_no_rate():
    assert fit([]) is None
    assert fit([Record(prefill_work(10), 0.0)]) is None


def test_one_length_gives_a_rate_a_token():
    close(fit([Record(prefill_work(1000), 500.0)] * 3), Rate(0.0, 0.5, 0.0))


def test_two_lengths_give_two_terms():
    close(fit(measured(100, 1000, rate=Rate(0.0, 0.25, 1e-4))), Rate(0.0, 0.25, 1e-4))
    close(fit(measured(100, 1000, rate=Rate(5.0, 0.25, 0.0))), Rate(5.0, 0.25, 0.0))


def test_three_lengths_give_all_three():
    close(fit(measured(100, 1000, 4000)), TRUE)
    close(fit(measured(50, 200, 800, 3200, 12800)), TRUE)


def test_no_term_is_negative():
    got = fit([Record(prefill_work(n), ms) for n, ms in ((100, 100.0), (1000, 500.0), (10000, 3000.0))])
    assert min(got.step_ms, got.token_ms, got.square_ms) >= 0


def test_a_slow_run_does_not_bend_the_curve():
    records = measured(100, 300, 1000, 2000, 3000, 4000, 6000) + measured(1000, factor=4.0)
    got = fit(records)
    for n in (200, 1500, 5000):
        assert got.ms(prefill_work(n)) == pytest.approx(TRUE.ms(prefill_work(n)), rel=0.01)


@hypothesis_settings(deadline=None, max_examples=30)
@given(st.floats(0, 20), st.floats(0.01, 5), st.floats(0, 1e-3), st.integers(0, 10**6))
def test_predictions_stay_within_the_noise(step, token, square, seed):
    rate, rng = Rate(step, token, square), np.random.default_rng(seed)
    lengths = [100, 200, 400, 800, 1600, 3200]
    exact = measured(*lengths * 3, rate=rate)
    records = [r._replace(ms=r.ms * rng.uniform(0.95, 1.05)) for r in exact]
    got = fit(records)
    for n in (150, 500, 1000, 3000):
        assert got.ms(prefill_work(n)) == pytest.approx(rate.ms(prefill_work(n)), rel=0.2)


LENGTHS = (128, 256, 512, 1024, 2048)


def noisy(rate, lengths, rounds, rng):
    """Dense and sparse runs (three quarters kept) on a shared machine: 5 % of noise, every fifth far slower."""
    works = [prefill_work(n) for m in lengths for n in (m, 3 * m // 4)] * rounds
    factors = np.exp(rng.normal(0, 0.05, len(works))) * np.where(
        rng.random(len(works)) < 0.2, rng.uniform(1.3, 4, len(works)), 1
    )
    return [Record(work, rate.ms(work) * factor) for work, factor in zip(works, factors)]


@hypothesis_settings(deadline=None, max_examples=50)
@given(st.floats(0, 40), st.floats(0.2, 2), st.floats(0, 4e-4), st.integers(0, 10**6))
def test_what_tune_measures_on_a_shared_machine_predicts_within_a_fifth(step, token, square, seed):
    rate = Rate(step, token, square)
    got = fit(noisy(rate, LENGTHS, 3, np.random.default_rng(seed)))
    for n in (102, 205, 512, 1024, 2048):
        assert got.ms(prefill_work(n)) == pytest.approx(rate.ms(prefill_work(n)), rel=0.2)


def test_noise_alone_seldom_makes_a_square():
    """Linear times up to 512 tokens, each up to a tenth off: half of such records predict 4,096 within a tenth."""
    errors = []
    for seed in range(100):
        works = [prefill_work(n) for n in (128, 256, 512)] * 3
        factors = np.random.default_rng(seed).uniform(0.9, 1.1, len(works))
        got = fit(Record(w, 0.5 * w.tokens * f) for w, f in zip(works, factors))
        errors.append(abs(got.ms(prefill_work(4096)) / 2048 - 1))
    assert np.median(errors) < 0.1


def test_a_prediction_by_hand():
    rates = Rates(Rate(10.0, 0.5, 1e-4), Rate(2.0, 0.05, 1e-5))
    got = rates.predict(1000, CHUNK, protected=50)
    assert got.kept_tokens == 250
    assert got.dense_ms == pytest.approx(10 + 500 + 100)
    assert got.score_ms == pytest.approx(9 * 2 + 50 + 10)
    assert got.sparse_ms == pytest.approx(78 + 10 + 125 + 6.25)
    assert rates.predict(1000, CHUNK, 100).sparse_ms == pytest.approx(78 + 10 + 50 + 1)


def test_dense_layers_read_the_dropped_tokens_too():
    rates, settings = Rates(Rate(10.0, 0.5, 1e-4), TRUE, layers=24), v3(**CHUNK_OPTIONS, dense_layers=3)
    plain = rates.predict(1000, CHUNK, 200)
    got = rates.predict(1000, settings, 200)
    assert got.sparse_ms - plain.sparse_ms == pytest.approx(3 / 24 * 0.5 * 800)
    assert (got.dense_ms, got.score_ms) == (plain.dense_ms, plain.score_ms)
    assert Rates(TRUE, TRUE).predict(1000, settings, 200) is None  # of how many layers is not known
    assert rates.predict(1000, settings, 1000).sparse_ms == rates.predict(1000, CHUNK, 1000).sparse_ms


def test_unknown_rates_predict_nothing():
    assert Rates().predict(1000, CHUNK) is None
    assert Rates(TRUE).predict(1000, CHUNK) is None
    assert Rates(None, TRUE).predict(1000, CHUNK) is None
    assert Rates(TRUE, TRUE).predict(1000, v3()) is None  # mass: nothing says how much is kept
    assert Rates(TRUE, TRUE, (0.5,)).predict(1000, v3()).kept_tokens == 500


def test_the_users_throughput_stands_for_the_draft():
    settings = v3(select="chunk", keep=0.2, spec_throughput=2000)
    assert Rates(TRUE).predict(1000, settings).score_ms == 500.0
    assert Rates(TRUE, Rate(1e3, 1e3, 1e3)).predict(1000, settings).score_ms == 500.0
    assert Rates().predict(1000, settings) is None


@pytest.mark.parametrize(
    "settings, protected, earlier, kept",
    [
        (CHUNK, 0, (), 200),
        (CHUNK, 900, (), 1000),
        (CHUNK, 100, (0.9,), 300),
        (v3(select="chunk", keep=0.2, max_keep=150), 0, (), 150),
        (v3(), 100, (), None),
        (v3(), 100, (0.2, 0.9, 0.4), 400),
        (v3(select="adaptive"), 100, (0.3001,), 301),
    ],
)
def test_expected_kept(settings, protected, earlier, kept):
    assert expected_kept(1000, settings, protected, earlier) == kept


# --- the file ---


@pytest.fixture
def store(tmp_path):
    return RateStore(tmp_path / "cache", "gpu")


def test_an_empty_store_knows_nothing_and_declines_nothing(store):
    rates = store.rates("t", "d", "s")
    assert rates == Rates()
    assert decide.before(10**5, Settings(preset="auto"), None, rates.predict(10**5, CHUNK)) is None


def test_break_even_declines_where_sparse_was_measured_slower(store):
    auto = Settings(preset="auto", keep=0.5)
    for n in (300, 1000, 3000):
        store.add_prefill("t", prefill_work(n), 0.1 * n + 1e-4 * n * n)
        store.add_score("d", score_work(n, auto), 40.0 + 0.04 * n)
    rates = store.rates("t", "d", settings_key(auto))
    short, long = rates.predict(300, auto), rates.predict(3000, auto)
    assert short.dense_ms == pytest.approx(39, rel=1e-3)
    assert short.sparse_ms == pytest.approx(40 + 12 + 17.25, rel=1e-3)
    assert decide.before(300, auto, None, short).status == "skipped_break_even"
    assert decide.before(3000, auto, None, long) is None


def test_prompts_far_longer_than_any_measured_are_not_covered(store):
    assert store.rates("t", "d", "s").covers(10**6)  # nothing measured, and nothing predicted
    store.add_prefill("t", prefill_work(100), 10.0)
    store.add_score("d", prefill_work(300), 1.0)
    rates = store.rates("t", "d", "s")
    assert rates.longest == 300 and rates.covers(1200) and not rates.covers(1201)


def test_records_are_kept_apart(store, tmp_path):
    store.add_prefill("t", prefill_work(100), 10.0)
    store.add_score("d", prefill_work(100), 1.0)
    store.add_kept("t", "d", "s", 0.25)
    again = RateStore(tmp_path / "cache", "gpu")
    assert again.rates("t", "d", "s") == Rates(fit(measured(100, rate=Rate(0, 0.1, 0))),
                                               fit(measured(100, rate=Rate(0, 0.01, 0))), (0.25,), longest=100)
    assert again.rates("d", "t", "s") == Rates()
    assert again.rates("t", "d", "other").kept == ()
    other = RateStore(tmp_path / "cache", "cpu").rates("t", "d", "s")
    assert (other.target, other.draft, other.kept) == (None, None, (0.25,))  # what is kept has no device


def test_only_the_latest_records_stay(store):
    for i in range(70):
        store.add_kept("t", "d", "s", i / 100)
    assert store.rates("t", "d", "s").kept == tuple(i / 100 for i in range(6, 70))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 2, "records": {}}', '{"version": 1}', '{"version": 1, "records": []}',
     '{"version": 1, "records": {"gpu/t/prefill": 3, "gpu/d/score": [[1, "a", 2, 3], [1], [1, NaN, 1, 1]]}}',
     '{"version": 1, "records": {"gpu/t/prefill": [[1, 10, 100, 5e-324], [1e308, 1e308, 1e308, 1]]}}',
     f'{{"version": 1, "records": {{"gpu/t/prefill": [[1, 1{"0" * 400}, 1, 1]]}}}}', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_file_that_is_no_use_counts_as_empty(store, text):
    store.path.parent.mkdir()
    store.path.write_text(text)
    assert store.rates("t", "d", "s") == Rates()
    store.add_prefill("t", prefill_work(10), 5.0)
    assert store.rates("t", "d", "s").target == Rate(0.0, 0.5, 0.0)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    store = RateStore(tmp_path / "file", "gpu")
    store.add_prefill("t", prefill_work(10), 5.0)
    assert store.rates("t", "d", "s") == Rates()


def test_the_file_is_replaced_whole(store):
    store.add_prefill("t", Work(1.0, 2.0, 4.0), 5.0)
    assert [p.name for p in store.path.parent.iterdir()] == ["rates.json"]
    records = {"gpu/t/prefill": [[1.0, 2.0, 4.0, 5.0]]}
    assert json.loads(store.path.read_text()) == {"version": 1, "records": records}


def test_fingerprints(tmp_path):
    a = tmp_path / "a.gguf"
    a.write_bytes(b"GGUF" + bytes(3 << 20) + b"end")
    data = a.read_bytes()
    want = hashlib.sha256(len(data).to_bytes(8, "little") + data[: 1 << 20] + data[-(1 << 20) :]).hexdigest()
    assert fingerprint(a) == want
    a.write_bytes(data[:-1] + b"?")
    assert fingerprint(a) != want
    a.write_bytes(b"")
    assert fingerprint(str(a)) == hashlib.sha256(bytes(8)).hexdigest()
    with pytest.raises(SpvkError, match="absent.gguf: No such file"):
        fingerprint(tmp_path / "absent.gguf")


def test_settings_have_names():
    assert settings_key(v3()) == settings_key(v3(keep=0.3)) != settings_key(v3(keep=0.2))
    assert len(settings_key(v3())) == 16
    # How much is kept does not depend on what decides whether.
    assert settings_key(v3()) == settings_key(v3(mode="auto", break_even_safety=3, min_tokens=9))
    assert settings_key(v3()) == settings_key(v3(dense_layers=3, gap_decay="typical"))
    assert settings_key(v3()) != settings_key(Settings(preset="auto"))

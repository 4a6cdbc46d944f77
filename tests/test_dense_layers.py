"""Dropped tokens in recurrent layers: the first layers dense, the state's decay over gaps."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import assert_close, nmse
from models import DRAFT, TARGET, TINY, exact, prompts
from reference import Reference
from spvk import engine, job
from spvk.dense_layers import prefill_kept, require_gaps
from spvk.errors import SpvkError
from spvk.model import Model
from spvk.models.builder import Gaps
from spvk.session import Session
from spvk.specprefill import Settings
from test_cli import refused

BUDGET = 1e-8  # NMSE, as in test_fidelity.py
CASE = "n257/tokens"


@pytest.fixture(scope="module")
def models(device):
    with Model(device, TINY) as tiny, Model(device, TARGET) as target:
        yield {TINY: tiny, TARGET: target}


@pytest.fixture(scope="module")
def references():
    return {path: Reference(path) for path in (TINY, TARGET)}


def some(n: int, seed: int = 1) -> np.ndarray:
    """Kept tokens: about a fifth in runs, none in long stretches, the last one among them."""
    rng = np.random.default_rng(seed)
    chunks = rng.permutation(-(-n // 8))[: n // 40]
    kept = np.isin(np.arange(n) // 8, chunks)
    kept[:4] = kept[-2:] = True
    return np.flatnonzero(kept)


def outputs(model, tokens, kept, positions=None, *, gaps=Gaps(), batch=512, lookahead=0):
    """Logits float32 [1 + lookahead, vocabulary] after the kept tokens and each greedy one."""
    kept = np.asarray(kept)
    with Session(model, len(kept) + lookahead, batch, gaps=gaps) as session:
        if gaps.dense_layers:
            token = prefill_kept(session, tokens, kept, positions)
        else:
            token = session.prefill(tokens[kept], kept if positions is None else positions)
        logits = [session.logits()]
        for i in range(lookahead):
            token = session.decode(token, len(tokens) + i)
            logits.append(session.logits())
    return np.stack(logits)


@pytest.mark.parametrize("path", [TINY, TARGET], ids=lambda p: p.stem)
def test_the_reference_model_is_that_of_the_fixtures(references, path):
    want = exact(path)
    assert_close(references[path].logits(want[CASE]), want["n257/logits"], 1e-12, "dense")


@pytest.mark.parametrize("path", [TINY, TARGET], ids=lambda p: p.stem)
@pytest.mark.parametrize(
    "dense_layers,decay",
    [(0, "off"), (0, "typical"), (0, "mean"), (1, "off"), (3, "off"), (2, "typical"), (2, "mean")],
)
def test_matches_the_reference(models, references, path, dense_layers, decay):
    tokens, gaps = exact(path)[CASE], Gaps(dense_layers, decay)
    kept = some(len(tokens))
    got = outputs(models[path], tokens, kept, gaps=gaps)[0]
    want = references[path].logits(tokens, kept, None, dense_layers, decay)
    assert_close(got, want, BUDGET, f"{gaps}")
    if dense_layers or decay != "off":  # what is tested makes a difference
        assert nmse(references[path].logits(tokens, kept), want) > 100 * BUDGET


def test_renumbered_positions_have_no_gap(models):
    tokens = exact(TARGET)[CASE]
    kept = some(len(tokens))
    plain = outputs(models[TARGET], tokens, kept, np.arange(len(kept)))
    assert np.array_equal(
        outputs(models[TARGET], tokens, kept, np.arange(len(kept)), gaps=Gaps(0, "mean")), plain
    )


@pytest.mark.parametrize("gaps", [Gaps(3), Gaps(1, "typical"), Gaps(0, "mean")], ids=str)
@pytest.mark.parametrize("path", [TINY, TARGET], ids=lambda p: p.stem)
def test_keeping_everything_is_bit_identical_to_dense(models, path, gaps):
    """The tokens that are decoded then too."""
    tokens = exact(path)[CASE]
    everything = np.arange(len(tokens))
    for batch in (64, 512):
        dense = outputs(models[path], tokens, everything, batch=batch, lookahead=2)
        assert np.array_equal(
            outputs(models[path], tokens, everything, gaps=gaps, batch=batch, lookahead=2), dense
        )


@pytest.mark.parametrize("gaps", [Gaps(3), Gaps(2, "mean")], ids=str)
def test_fast_precision_keeps_its_promises(device, references, gaps):
    """Everything kept is dense, and however the prompt is cut it is as near to the reference as rounding allows."""
    tokens = exact(TARGET)[CASE]
    everything, kept = np.arange(len(tokens)), np.r_[some(200), 201:257]
    with Model(device, TARGET, "fast") as model:
        dense = outputs(model, tokens, everything, lookahead=1)
        assert np.array_equal(outputs(model, tokens, everything, gaps=gaps, lookahead=1), dense)
        want = references[TARGET].logits(tokens, kept, None, gaps.dense_layers, gaps.decay)
        for batch in (7, 64, 512):
            assert_close(
                outputs(model, tokens, kept, gaps=gaps, batch=batch)[0], want, 3e-4, f"batch {batch}"
            )


@pytest.mark.parametrize("gaps", [Gaps(3), Gaps(2, "mean"), Gaps(0, "mean")], ids=str)
def test_batch_size_does_not_matter(models, gaps):
    """Batches of which nothing is kept, and those that overflow what waits, are among them."""
    tokens = exact(TARGET)[CASE]
    kept = np.r_[some(200), 201:257]
    assert any(len(set(range(at, at + 7)) & set(kept.tolist())) == 0 for at in range(0, 257, 7))
    want = outputs(models[TARGET], tokens, kept, gaps=gaps, lookahead=2)
    for batch in (1, 7, 64):
        got = outputs(models[TARGET], tokens, kept, gaps=gaps, batch=batch, lookahead=2)
        assert_close(got, want, 1e-9, f"batch {batch}")


def test_the_last_token_need_not_be_kept(models, references):
    """The answer's first token then follows the last kept one, and the dense layers have read on."""
    tokens = exact(TARGET)[CASE]
    kept = np.arange(40, 90)
    for batch in (32, 512):
        got = outputs(models[TARGET], tokens, kept, gaps=Gaps(3), batch=batch, lookahead=1)
        assert_close(got[0], references[TARGET].logits(tokens, kept, None, 3), BUDGET, f"batch {batch}")
        after = np.r_[tokens, got[0].argmax()]
        want = references[TARGET].logits(after, np.r_[kept, len(tokens)], None, 3)
        assert_close(got[1], want, BUDGET, "decoded")


def test_decoding_has_no_gap_after_the_prompt(models, references):
    tokens = exact(TARGET)[CASE]
    kept = some(len(tokens))
    first, second = outputs(models[TARGET], tokens, kept, gaps=Gaps(0, "mean"), lookahead=1)
    after = np.r_[tokens, first.argmax()]
    want = references[TARGET].logits(after, np.r_[kept, len(tokens)], None, 0, "mean")
    assert_close(second, want, BUDGET, "decoded")


def test_a_session_that_is_reset_forgets_gaps(models):
    tokens = exact(TINY)[CASE]
    kept = some(len(tokens))
    with Session(models[TINY], len(kept), gaps=Gaps(2, "mean")) as session:
        runs = []
        for _ in range(2):
            session.reset()
            prefill_kept(session, tokens, kept)
            runs.append(session.logits())
    assert np.array_equal(*runs)


def test_progress_is_of_the_kept_tokens(models):
    tokens, seen = exact(TINY)[CASE], []
    with Session(models[TINY], 64, 16, gaps=Gaps(1)) as session:
        prefill_kept(session, tokens, np.arange(0, 80, 2), progress=seen.append)
    assert seen == [16, 32, 40]


def test_what_a_model_has_not_is_refused(models):
    require_gaps(models[TARGET], Gaps(3, "mean"))
    words = "--dense-layers: found 4, expected at most 3, the layers of .* before its first that attends"
    with pytest.raises(SpvkError, match=words):
        require_gaps(models[TARGET], Gaps(4))
    attending = SimpleNamespace(path="m.gguf", config=SimpleNamespace(attention_layers=(0, 1), layers=2))
    require_gaps(attending, Gaps())
    with pytest.raises(SpvkError, match="--dense-layers: found 1, expected at most 0, the layers of m.gguf"):
        require_gaps(attending, Gaps(1))
    with pytest.raises(SpvkError, match="--gap-decay: found mean, expected off, as all layers of m.gguf"):
        require_gaps(attending, Gaps(decay="mean"))


@pytest.mark.parametrize("kept,words", [
    ([], "one or more indices"), ([0.5], "found float64"), ([3, 3], "increasing"), ([0, 4], "of 4 tokens"),
])  # fmt: skip
def test_bad_indices_are_named(models, kept, words):
    with Session(models[TINY], 8, gaps=Gaps(1)) as session, pytest.raises(ValueError, match=words):
        prefill_kept(session, [1, 2, 3, 4], kept)
    assert session.past == 0


def test_kept_tokens_beyond_the_context_are_refused(models):
    with Session(models[TINY], 3, gaps=Gaps(1)) as session:
        with pytest.raises(SpvkError, match="prompt: 4 tokens, expected at most 3"):
            prefill_kept(session, [1, 2, 3, 4, 5], [0, 1, 2, 3])


# -- the engine and the command ----------------------------------------------------------------------------

MENDS = [{"dense_layers": 3}, {"gap_decay": "typical"}, {"dense_layers": 1, "gap_decay": "mean"}]


@pytest.mark.parametrize("options", MENDS, ids=str)
def test_the_engine_reads_what_was_selected(device, models, references, options):
    p, settings = prompts(256, 1, 1)[0], Settings(select="chunk", keep=0.2, **options)
    with Model(device, DRAFT) as draft:
        result = engine.prefill(models[TARGET], draft, p["tokens"], settings, predict=2)
    gaps, kept = engine.gaps_of(settings), result.selection.positions
    assert 0 < len(kept) < 256 and gaps != Gaps()
    tokens = np.array(p["tokens"])
    for i in range(2):
        want = references[TARGET].logits(tokens, kept, None, gaps.dense_layers, gaps.decay)
        assert result.tokens[i] == want.argmax()
        tokens, kept = np.r_[tokens, result.tokens[i]], np.r_[kept, len(tokens)]


@pytest.mark.parametrize("options", MENDS, ids=str)
def test_what_is_read_whole_is_as_without(device, models, options):
    tokens = prompts(256, 1, 1)[0]["tokens"]
    with Model(device, DRAFT) as draft:

        def run(**more):
            return engine.prefill(models[TARGET], draft, tokens, Settings(**more), predict=3)

        dense = run(mode="off").tokens
        everything = run(select="chunk", keep=1.0, **options)
        assert everything.decision.status == "kept_all" and everything.tokens == dense
        assert run(mode="off", **options).tokens == dense


@pytest.fixture
def command(spvk, device, monkeypatch, tmp_path):
    """Run `spvk prefill` with the pair on the suite's device."""
    monkeypatch.setattr(job, "Device", lambda wanted: nullcontext(device))
    monkeypatch.setattr(job, "cache_dir", lambda: tmp_path / "cache")
    np.save(tmp_path / "tokens.npy", exact(DRAFT)[CASE])
    pair = ("prefill", "-m", TARGET, "-md", DRAFT, "--tokens", tmp_path / "tokens.npy", "-n", "1")
    return lambda *args: spvk(*pair, "--json", "-", "--mode", "always", "--keep", "0.2", *args)


def test_the_command_has_the_options_and_learns_no_rate_from_dense_layers(command, tmp_path):
    def records():
        found = json.loads((tmp_path / "cache" / "rates.json").read_text())["records"]
        return {key.rsplit("/")[-1]: len(rows) for key, rows in found.items()}

    status, out, err = command("--dense-layers", "2", "--gap-decay", "typical")
    assert status == 0, err
    settings = json.loads(out)["settings"]
    assert (settings["dense_layers"], settings["gap_decay"]) == (2, "typical")
    assert records() == {"score": 1, "kept": 1}
    status, out, err = command("--gap-decay", "typical")
    assert status == 0 and records() == {"score": 2, "kept": 2, "prefill": 1}
    # The second run's kept fraction and rates predict a run with dense layers: its layers are known.
    status, out, _ = command("--dense-layers", "2")
    numbers = json.loads(out)["numbers"]
    extra = numbers["predicted_sparse_ms"] - numbers["predicted_score_ms"]
    rate = numbers["predicted_dense_ms"] / 257
    kept = numbers["predicted_kept_tokens"]
    assert extra == pytest.approx(rate * (kept + 2 / 8 * (257 - kept)), rel=1e-3)


def test_the_command_refuses_layers_that_attend(command):
    refused(command("--dense-layers", "4"), "--dense-layers: found 4, expected at most 3", str(TARGET))
    refused(command("--gap-decay", "much"), "--gap-decay", "expected one of off, typical, mean")

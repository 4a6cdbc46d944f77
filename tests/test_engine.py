"""Scoring, sparse prefill and decode on the trained pair; memory; refusals."""

from types import SimpleNamespace

import numpy as np
import pytest

from models import DRAFT, TINY, exact, prompts
from spvk import engine
from spvk.errors import SpvkError
from spvk.model import Model
from spvk.models.builder import Capture
from spvk.session import Session, session_bytes
from spvk.specprefill import Settings
from spvk.specprefill.selection import choose


@pytest.fixture(scope="module")
def tiny(device):
    with Model(device, TINY) as model:
        yield model


@pytest.mark.parametrize("length,facts", [(256, 8), (1024, 1)])
def test_dense_prefill_answers_the_trained_questions(pair, length, facts):
    off = Settings(mode="off")
    chosen = prompts(length, facts, 6)
    right = sum(
        engine.prefill(pair[0], None, p["tokens"], off, predict=2).tokens == p["answer"] for p in chosen
    )
    assert right >= len(chosen) - 1


def test_the_main_job_keeps_the_fact_and_answers(pair):
    settings = engine.settle(Settings(select="chunk", keep=0.2), pair[0])
    for p in prompts(1024, 1, 4):
        result = engine.prefill(*pair, p["tokens"], settings, predict=2)
        assert result.selection.kept_fraction <= 0.25
        assert p["value_pos"] in result.selection.positions
        assert (
            result.selection.positions.tolist()
            == choose(engine.score(pair[1], p["tokens"], settings), settings).positions.tolist()
        )


def test_a_hybrid_keeps_what_stands_before_each_chunk_unless_told_not_to(pair):
    tokens = prompts(1024, 1, 1)[0]["tokens"]
    kept = {}
    for halo in (None, 8, 0):
        result = engine.prefill(*pair, tokens, Settings(select="chunk", keep=0.2, halo=halo), predict=1)
        assert result.settings.halo == (8 if halo is None else halo)
        kept[halo] = result.selection
    assert kept[None].sha256 == kept[8].sha256 != kept[0].sha256
    assert kept[8].kept_tokens == kept[0].kept_tokens
    dense = SimpleNamespace(config=SimpleNamespace(layers=2, attention_layers=(0, 1)))
    assert engine.settle(Settings(), dense).halo == 0


@pytest.mark.parametrize("softmax", ["all", "prompt"])  # on the device, and head by head on the host
def test_heads_that_do_not_count_leave_the_importance(pair, softmax):
    tokens, settings = prompts(256, 1, 1)[0]["tokens"], Settings(lookahead=2, softmax=softmax)
    n, config = len(tokens), pair[1].config
    heads = np.zeros((len(config.attention_layers), config.attention.heads), dtype=bool)
    heads[-1, [0, 2]] = True
    got = engine.score(pair[1], tokens, settings, heads=heads)
    out = engine.dump(pair[1], tokens, lookahead=2)
    rows = [out[f"attn_rows_step{i}"][-1, [0, 2], :n].astype(np.float64) for i in range(3)]
    if softmax == "prompt":
        rows = [r / r.sum(-1, keepdims=True) for r in rows]
    np.testing.assert_allclose(got, np.mean([r.max(0) for r in rows], 0), rtol=1e-5, atol=1e-8)
    every = engine.score(pair[1], tokens, settings, heads=np.ones_like(heads))
    assert np.array_equal(every, engine.score(pair[1], tokens, settings)) and (every > got).any()


def test_importance_is_that_of_the_exact_reference(pair):
    want = exact(DRAFT)
    got = engine.score(pair[1], want["n1000/tokens"], Settings(lookahead=4))
    assert np.abs(got - want["n1000/importance"]).max() <= 1e-5


def test_selection_does_not_depend_on_the_batch_size(pair):
    p = prompts(512, 8, 1)[0]
    hashes = {
        choose(engine.score(pair[1], p["tokens"], Settings(), batch=b), Settings()).sha256
        for b in (7, 64, 512)
    }
    assert len(hashes) == 1


@pytest.mark.parametrize("precision", ["exact", "fast"])
def test_scores_are_the_same_bits_for_every_batch_size(device, precision):
    """Of 513 tokens batches of 1, 2, 64 and 512 leave one alone."""
    tokens = np.random.default_rng(0).integers(0, 500, 513)
    with Model(device, str(DRAFT), precision) as draft:
        want = engine.score(draft, tokens, Settings(), batch=600)
        for batch in (1, 2, 7, 64, 512):
            np.testing.assert_array_equal(engine.score(draft, tokens, Settings(), batch=batch), want)


def test_windows_join_into_the_whole_prompt(pair):
    tokens = exact(DRAFT)["n1000/tokens"]
    settings = Settings(window=400, lookahead=2)
    got = engine.score(pair[1], tokens, settings)
    first = engine.score(pair[1], tokens[:400], Settings(lookahead=2))
    last = engine.score(pair[1], tokens[600:], Settings(lookahead=2))
    assert np.array_equal(got[:200], first[:200]) and np.array_equal(got[600:], last)


def test_decode_goes_on_at_the_original_length(pair):
    """Sparse prefill then decode equals one prefill of kept tokens and answer at their own positions."""
    p = prompts(256, 1, 1)[0]
    result = engine.prefill(*pair, p["tokens"], Settings(select="chunk", keep=0.3), predict=3)
    kept = result.selection.positions
    tokens = np.r_[np.array(p["tokens"])[kept], result.tokens[:2]]
    again = engine.dump(pair[0], tokens, np.r_[kept, 256, 257])
    assert again["greedy"][0] == result.tokens[2]


def test_stop_token_ends_the_answer(pair):
    p = prompts(256, 1, 1)[0]
    free = engine.prefill(pair[0], None, p["tokens"], Settings(mode="off"), predict=6).tokens
    stopped = engine.prefill(
        pair[0], None, p["tokens"], Settings(mode="off"), predict=6, stop=[free[1]]
    ).tokens
    assert stopped == free[: free.index(free[1]) + 1]


def test_scoring_memory_grows_only_by_cache_positions_and_scores(tiny):
    """Bytes asked of the device at 1k, 2k, 4k and 8k tokens, measured, against the sum of what may grow."""
    a, layers = tiny.config.attention, len(tiny.config.attention_layers)
    used = {}
    for n in (1024, 2048, 4096, 8192):
        with Session(tiny, n, 512, Capture(importance=True)) as session:
            session.prefill(np.arange(n) % 500)
            used[n] = session.device_bytes
    per_token = layers * 2 * a.kv_heads * a.dim * 4 + 2 * 4  # keys and values; score row and importance
    for n in (1024, 2048, 4096):
        grown = used[2 * n] - used[n]
        splits = (
            session_bytes(tiny, 2 * n, 512, Capture(importance=True))["score_stats"]
            - session_bytes(tiny, n, 512, Capture(importance=True))["score_stats"]
        )
        assert grown == n * per_token + splits
        assert splits <= n


def test_a_prompt_of_32768_tokens_runs(tiny):
    tokens = (np.arange(32768) * 7919) % 500
    got = engine.score(tiny, tokens, Settings(lookahead=1))
    assert got.shape == (32768,) and np.isfinite(got).all() and 0 < got.max() <= 1


def test_weights_in_pieces_give_the_same_logits(device):
    """A device that allows only 192 KiB at once: the embedding and the wide products come in pieces."""
    tokens = exact(TINY)["n64/tokens"]
    with Model(device, TINY) as whole:
        want = engine.dump(whole, tokens, lookahead=2)
    limit, device.max_allocation = device.max_allocation, 96 << 10
    try:
        with Model(device, TINY) as cut:
            assert max(len(w.pieces) for w in cut.weights.values() if hasattr(w, "pieces")) > 1
            device.max_allocation = limit
            got = engine.dump(cut, tokens, lookahead=2)
    finally:
        device.max_allocation = limit
    assert all(np.array_equal(got[name], want[name]) for name in want)


def test_opening_and_closing_gives_all_memory_back(device, tiny):
    with Session(tiny, 64, 16) as session:
        session.prefill([1, 2, 3])
        assert session.device_bytes > 0
    assert session.memory.blocks == [] and session.commands == {}


@pytest.mark.parametrize(
    "tokens,positions,message",
    [
        ([], None, "prompt: empty"),
        ([1, 512], None, "token 1 is 512, expected 0 to 511"),
        ([-1], None, "token 0 is -1, expected 0 to 511"),
        ([1.5], None, "tokens: found float64, expected integers"),
        ([1, 2], [0], "positions: found int64"),
        ([1, 2], [5, 5], "position 1 is 5, expected increasing"),
        ([1, 2], [-1, 5], "position 0 is -1"),
        ([1, 2], [0, 262144], "expected less than 262144"),
    ],
)
def test_bad_tokens_and_positions_are_named(tiny, tokens, positions, message):
    with pytest.raises(SpvkError, match=message):
        engine.dump(tiny, tokens, positions)


def test_nan_in_a_layer_is_an_error_that_names_it(device, tmp_path):
    """One weight of layer 2 made NaN: scoring stops and says where."""
    from spvk.gguf import open_gguf

    data = bytearray(TINY.read_bytes())
    norm = open_gguf(TINY).tensor("blk.2.post_attention_norm.weight")
    data[norm.offset : norm.offset + 4] = np.float32(np.nan).tobytes()
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(data)
    with Model(device, broken) as model, pytest.raises(SpvkError, match=r"NaN.*layer 2 \(blk\.2\)"):
        engine.score(model, exact(TINY)["n64/tokens"], Settings())


def test_decoding_takes_whole_numbers_alone(device):
    with Model(device, TINY) as model, Session(model, 8) as session:
        session.prefill([1, 2])
        with pytest.raises(SpvkError, match="tokens: found float64, expected integers"):
            session.decode(1.5, 2)
        with pytest.raises(SpvkError, match="positions: found float64"):
            session.decode(1, 2.5)
        assert session.past == 2
        session.decode(np.int64(3), np.int32(2))  # NumPy's integers are as good
        assert session.past == 3

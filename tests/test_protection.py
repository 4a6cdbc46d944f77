"""What is protected survives at keep 0.05, through the engine: every kind, in Qwen3.5's real template.

The fixture models know 512 tokens, so they read the ids of the real vocabulary modulo 512: to them a prompt like
any other. The structure is that of the real ids.
"""

from typing import NamedTuple

import numpy as np
import pytest

from specprefill.chats import TOOL, TURNS, chatml, qwen, sentences
from spvk import engine
from spvk.specprefill import Settings, Structure, read_structure
from spvk.specprefill.protect import REASONS

SYSTEM = {"role": "system", "content": "Answer in one sentence. " + sentences(12, "manner of answering")}
LONG = {"role": "user", "content": "Read this. " + sentences(220)}
LAST = {"role": "user", "content": "What should I wear? " + sentences(8, "coat")}
CALLER = (700, 740)  # in the long first turn, which nothing else protects
QWEN_REASONS = tuple(reason for reason in REASONS if reason != "bos")  # Qwen3.5 has no BOS
# No guards, and no more weight at either end: what survives, does so by its protection alone.
SETTINGS = Settings(
    preset="auto",
    mode="always",
    select="chunk",
    keep=0.05,
    guard_first=0,
    guard_last=0,
    boost_first=1.0,
    boost_last=1.0,
)


class Chat(NamedTuple):
    tokens: list[int]
    """As the models read them."""
    structure: Structure

    def places(self, reason: str) -> np.ndarray:
        """Positions of the tokens that this reason protects."""
        return np.flatnonzero(self.structure.labels == 1 + REASONS.index(reason))


@pytest.fixture(scope="module", params=[False, True], ids=["spelled", "tokens"])
def agent(request) -> Chat:
    """System prompt, tools, a call, its result, several turns; markup spelled, or with tokens of its own."""
    tokenizer, template = qwen(request.param)
    ids = tokenizer.encode(template.render([SYSTEM, LONG, *TURNS[2:-1], LAST], tools=[TOOL]))
    structure = read_structure(ids, tokenizer, SETTINGS, ranges=[CALLER])
    return Chat([i % 512 for i in ids], structure)


def run(pair, chat: Chat, structure: Structure | None):
    return engine.prefill(*pair, chat.tokens, SETTINGS, predict=1, structure=structure)


@pytest.fixture(params=["as scored", "worth nothing"])
def scored(request, monkeypatch, agent) -> None:
    """The protected tokens' scores: the draft's own, or none at all."""

    def worthless(*args, **more):
        scores = score(*args, **more)
        scores[agent.structure.protected] = 0.0
        return scores

    score = engine.score
    if request.param == "worth nothing":
        monkeypatch.setattr(engine, "score", worthless)


def test_every_protected_kind_survives_at_keep_5_percent(pair, agent, scored):
    got = run(pair, agent, agent.structure)
    assert got.decision.status == "active"
    for reason in QWEN_REASONS:
        places = agent.places(reason)
        assert places.size and np.isin(places, got.selection.positions).all(), reason
    bought = np.setdiff1d(got.selection.positions, np.flatnonzero(agent.structure.protected))
    assert 0 < bought.size <= -(-len(agent.tokens) // 20)  # the budget buys no more than itself
    assert got.selection.kept_fraction < 0.2


@pytest.mark.parametrize("scored", ["worth nothing"], indirect=True)
def test_without_protection_every_kind_is_lost(pair, agent, scored):
    bare = Structure(np.zeros_like(agent.structure.labels), agent.structure.messages)
    got = run(pair, agent, bare)
    assert got.decision.status == "active" and got.selection.kept_fraction < 0.06
    for reason in QWEN_REASONS:
        assert not np.isin(agent.places(reason), got.selection.positions).all(), reason


def test_bos_survives_too(pair):
    tokenizer, template = chatml()
    turns = [{"role": "user", "content": "word " * 200}, {"role": "assistant", "content": "text " * 100}]
    tokens = tokenizer.encode(template.render([*turns, {"role": "user", "content": "And?"}]))
    chat = Chat(tokens, read_structure(tokens, tokenizer, SETTINGS))
    assert chat.places("bos").tolist() == [0]
    got = run(pair, chat, chat.structure)
    assert got.decision.status == "active" and 0 in got.selection.positions
    assert 0 not in run(pair, chat, None).selection.positions

"""Every status, and every cause of a fallback, through the engine: decision, reason, what was read."""

from dataclasses import replace
from typing import NamedTuple

import pytest

from models import broken_draft
from spvk import engine
from spvk.errors import SpvkError
from spvk.model import Model
from spvk.specprefill import Rates, Settings, choose, read_structure
from spvk.specprefill.cost import Rate
from spvk.specprefill.decide import STATUSES

CHUNK = {"select": "chunk", "keep": 0.2}
AUTO = {"preset": "auto"}
SLOW_DRAFT = Rates(target=Rate(0.0, 1.0, 0.0), draft=Rate(0.0, 0.75, 0.0))  # ms a token


@pytest.fixture(scope="module")
def broken(device, tmp_path_factory):
    path = broken_draft(tmp_path_factory.mktemp("broken") / "broken.gguf")
    with Model(device, path) as draft:
        yield draft


def unprotected(scores, settings, structure, **how):
    """A selection that forgets what is protected."""
    return choose(scores, settings)


class Case(NamedTuple):
    """How a status is reached, and what is said."""

    status: str
    reason: str
    settings: dict
    scored: bool = False
    """Whether the draft scored to the end."""
    draft: str = "whole"
    """Or `broken`, or `none`."""
    tools: str | None = None
    ranges: tuple[tuple[int, int], ...] = ()
    rates: Rates = Rates()
    choose: object = choose


CASES = {
    "active": Case("active", "tokens (", AUTO, scored=True),
    "active in mode always": Case("active", "tokens (", CHUNK | {"mode": "always"}, scored=True),
    "everything chosen": Case("kept_all", "all 256 tokens were kept", CHUNK | {"keep": 1.0}, scored=True),
    "mode off": Case("disabled", "mode is off", {"mode": "off"}),
    "no draft": Case("disabled", "no draft was given", {}, draft="none"),
    "too short": Case(
        "skipped_min_tokens", "256 tokens, sparse prefill begins at 257", AUTO | {"min_tokens": 257}
    ),
    "tools": Case(
        "skipped_tool_guard",
        "a tool call in message 1; tool guard is skip",
        AUTO,
        tools="a tool call in message 1",
    ),
    "break-even as set": Case(
        "skipped_break_even", "256 tokens, break-even was set to 257", AUTO | {"break_even": 257}
    ),
    "break-even as predicted": Case(
        "skipped_break_even",
        "sparse would take 256 ms, dense 256 ms",
        CHUNK | {"keep": 0.25},
        rates=SLOW_DRAFT,
    ),
    "scoring failed": Case("fell_back_dense", "layer 1 (blk.1)", AUTO, draft="broken"),
    "a protected token lost": Case(
        "fell_back_dense", "(caller) was dropped", CHUNK, scored=True, ranges=((30, 200),), choose=unprotected
    ),
    "low confidence": Case(
        "fell_back_dense", "flat scores: confidence", AUTO | {"min_confidence": 1.0}, scored=True
    ),
}


def test_no_status_is_left_out():
    assert list(dict.fromkeys(case.status for case in CASES.values())) == list(STATUSES)


@pytest.mark.parametrize("name", CASES)
def test_every_status(pair, broken, prompt, dense, monkeypatch, name):
    case = CASES[name]
    settings, draft = (
        Settings(**case.settings),
        {"whole": pair[1], "broken": broken, "none": None}[case.draft],
    )
    structure = read_structure(prompt["tokens"], pair[0].tokenizer, settings, ranges=case.ranges)
    structure = replace(structure, tools=case.tools)
    monkeypatch.setattr(engine, "choose", case.choose)
    got = engine.prefill(
        pair[0], draft, prompt["tokens"], settings, predict=2, structure=structure, rates=case.rates
    )
    assert got.decision.status == case.status and case.reason in got.decision.reason
    assert got.decision.numbers["prompt_tokens"] == 256
    assert (got.importance is not None) == case.scored
    assert (got.timings.score_ms > 0) == (case.scored or case.draft == "broken")
    if case.status == "active":
        assert got.selection.kept_tokens < 256 and got.tokens == prompt["answer"]
    else:
        assert got.selection.positions.tolist() == list(range(256)) and got.tokens == dense


@pytest.mark.parametrize("name", ["scoring failed", "low confidence", "too short", "tools"])
def test_mode_always_neither_skips_nor_falls_back(pair, broken, prompt, name):
    """But for a lost protected token, which no mode allows."""
    case = CASES[name]
    settings = Settings(**case.settings | {"mode": "always"})
    structure = replace(read_structure(prompt["tokens"], pair[0].tokenizer, settings), tools=case.tools)
    draft = broken if case.draft == "broken" else pair[1]
    if case.draft == "broken":
        with pytest.raises(SpvkError, match=r"layer 1 \(blk\.1\)"):
            engine.prefill(pair[0], draft, prompt["tokens"], settings, predict=2, structure=structure)
    else:
        got = engine.prefill(pair[0], draft, prompt["tokens"], settings, predict=2, structure=structure)
        assert got.decision.status == "active" and got.selection.kept_tokens < 256


@pytest.mark.parametrize("mode", ["auto", "always"])
def test_a_lost_protected_token_means_a_dense_prefill_in_any_mode(pair, prompt, dense, monkeypatch, mode):
    settings = Settings(**CHUNK, mode=mode)
    structure = read_structure(prompt["tokens"], pair[0].tokenizer, settings, ranges=[(30, 200)])
    monkeypatch.setattr(engine, "choose", unprotected)
    got = engine.prefill(*pair, prompt["tokens"], settings, predict=2, structure=structure)
    assert got.decision.status == "fell_back_dense" and got.tokens == dense
    lost = got.decision.numbers["lost"]
    assert lost["reason"] == "caller" and lost["protected"] == 170 and 0 < lost["lost"] <= 170
    assert 30 <= lost["token"] < 200

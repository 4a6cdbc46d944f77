"""Settings: defaults, the order option > variable > default, and one line for every bad value."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from specprefill.plain import AUTO, V3
from spvk.errors import SpvkError
from spvk.specprefill import Settings

DEFAULTS = V3 | AUTO
ALSO = {"keep": {"select": "chunk"}, "mass": {"select": "mass"}}  # what else a variable changes

VARIABLES = [
    ("SP_CHUNK", "16", "chunk", 16),
    ("SP_LOOKAHEAD", "0", "lookahead", 0),
    ("SP_WINDOW", "2000", "window", 2000),
    ("SP_MAX_KEEP", "512", "max_keep", 512),
    ("SP_KEEP_PCT", "0.2", "keep", 0.2),
    ("SP_SELECT_MODE", "chunk", "select", "chunk"),
    ("SP_CUMULATIVE_MASS", "0.9", "mass", 0.9),
    ("SP_BOOST_FIRST_MULT", "2", "boost_first", 2.0),
    ("SP_BOOST_FIRST_N", "0", "boost_first_n", 0),
    ("SP_BOOST_LAST_MULT", "0.5", "boost_last", 0.5),
    ("SP_BOOST_LAST_N", "7", "boost_last_n", 7),
    ("SP_KEEP_FLOOR", "10", "keep_floor", 0.1),
    ("SP_KEEP_CEILING", "0.9", "keep_ceiling", 0.9),
    ("SP_CODE_FLOOR", "40", "code_floor", 0.4),
    ("SP_HEADS", "My heads.json", "heads", "My heads.json"),
    ("SP_SOFTMAX", "Prompt", "softmax", "prompt"),
    ("SP_POOL", "13", "pool", 13),
    ("SP_NORMALISE", "zscore", "normalise", "zscore"),
    ("SP_EDGES", "overlap", "edges", "overlap"),
    ("SP_POSITIONS", "renumber", "positions", "renumber"),
    ("SP_HALO", "8", "halo", 8),
    ("SP_BACKBONE", "0.25", "backbone", 0.25),
    ("SP_DENSE_ENDS", "1", "dense_ends", 1.0),
    ("SP_DENSE_LAYERS", "3", "dense_layers", 3),
    ("SP_GAP_DECAY", "Typical", "gap_decay", "typical"),
    ("SP_PROTECT", "on", "protect", "on"),
    ("SP_LAST_USER", "0", "last_user", 0),
    ("SP_MIN_TOKENS", "1000", "min_tokens", 1000),
    ("SP_TOOL_GUARD", "protect", "tool_guard", "protect"),
    ("SP_MIN_CONFIDENCE", "0", "min_confidence", 0.0),
    ("SP_SPEC_THROUGHPUT", "2500.5", "spec_throughput", 2500.5),
    ("SP_BREAK_EVEN", "0", "break_even", 0),
    ("SP_BREAK_EVEN_SAFETY", "1.25", "break_even_safety", 1.25),
]


def error_of(options, environ):
    with pytest.raises(SpvkError) as error:
        Settings.resolve(options, environ)
    return str(error.value)


def test_defaults():
    assert Settings().as_dict() == DEFAULTS
    assert Settings.resolve({}, {}) == Settings()
    assert Settings.resolve(dict.fromkeys(DEFAULTS), {"SP_CHUNK": " "}) == Settings()
    assert json.loads(json.dumps(Settings().as_dict())) == DEFAULTS


@pytest.mark.parametrize("variable, text, name, value", VARIABLES)
def test_each_variable(variable, text, name, value):
    got = Settings.resolve({}, {variable: text})
    assert got.as_dict() == DEFAULTS | {name: value} | ALSO.get(name, {})
    assert type(getattr(got, name)) is type(value)


def test_option_beats_variable_beats_default():
    got = Settings.resolve({"chunk": 8, "keep": None}, {"SP_CHUNK": "16", "SP_KEEP_PCT": "0.5"})
    assert (got.chunk, got.keep, got.mass) == (8, 0.5, 0.85)


def test_a_variable_is_not_read_where_its_option_is_given():
    assert Settings.resolve({"chunk": 8}, {"SP_CHUNK": "nonsense"}).chunk == 8


@pytest.mark.parametrize("text, keep", [("0.3", 0.3), ("30", 0.3), ("1", 1.0), ("1.5", 0.015), ("100", 1.0)])
def test_keep_pct_is_a_fraction_or_a_percentage(text, keep):
    assert Settings.resolve({}, {"SP_KEEP_PCT": text}).keep == pytest.approx(keep, rel=1e-15)


@pytest.mark.parametrize(
    "variable, text, expected",
    [
        ("SP_CHUNK", "0", "a whole number from 1 to 2147483647"),
        ("SP_CHUNK", "32.5", "a whole number from 1 to 2147483647"),
        ("SP_CHUNK", "many", "a whole number from 1 to 2147483647"),
        ("SP_CHUNK", "2147483648", "a whole number from 1 to 2147483647"),
        ("SP_LOOKAHEAD", "-1", "a whole number from 0 to 2147483647"),
        ("SP_WINDOW", "0", "a whole number from 1 to 2147483647"),
        ("SP_MAX_KEEP", "nan", "a whole number from 1 to 2147483647"),
        ("SP_BOOST_FIRST_N", "-1", "a whole number from 0 to 2147483647"),
        ("SP_BOOST_LAST_N", "1e3", "a whole number from 0 to 2147483647"),
        ("SP_KEEP_PCT", "0", "a fraction in (0, 1] or a percentage in (1, 100]"),
        ("SP_KEEP_PCT", "101", "a fraction in (0, 1] or a percentage in (1, 100]"),
        ("SP_KEEP_PCT", "nan", "a fraction in (0, 1] or a percentage in (1, 100]"),
        ("SP_KEEP_PCT", "30%", "a fraction in (0, 1] or a percentage in (1, 100]"),
        ("SP_CUMULATIVE_MASS", "1.01", "a number in (0, 1]"),
        ("SP_CUMULATIVE_MASS", "0", "a number in (0, 1]"),
        ("SP_CUMULATIVE_MASS", "NaN", "a number in (0, 1]"),
        ("SP_BOOST_FIRST_MULT", "inf", "a number in (0, 1000]"),
        ("SP_BOOST_LAST_MULT", "-1.3", "a number in (0, 1000]"),
        ("SP_SELECT_MODE", "best", "one of mass, chunk, adaptive"),
        ("SP_PRESET", "v4", "one of auto, v3, paper"),
        ("SP_EDGES", "round", "one of fixed, pooled, peaks, snapped, overlap, dilated"),
        ("SP_NORMALISE", "max", "one of minmax, percentile, zscore"),
        ("SP_POOL", "12", "an odd number from 1 to 2147483647"),
        ("SP_POOL", "-1", "an odd number from 1 to 2147483647"),
        ("SP_KEEP_FLOOR", "0", "a fraction in (0, 1] or a percentage in (1, 100]"),
        ("SP_MIN_CONFIDENCE", "1.1", "a number in [0, 1]"),
        ("SP_MIN_CONFIDENCE", "nan", "a number in [0, 1]"),
        ("SP_SPEC_THROUGHPUT", "0", "a number in (0, 1e+09]"),
        ("SP_BREAK_EVEN", "-1", "a whole number from 0 to 2147483647"),
        ("SP_BREAK_EVEN_SAFETY", "inf", "a number in (0, 1000]"),
        ("SP_TOOL_GUARD", "on", "one of skip, protect, off"),
    ],
)
def test_bad_variables(variable, text, expected):
    assert error_of({}, {variable: text}) == f"{variable}: found '{text}', expected {expected}"


@pytest.mark.parametrize(
    "options, message",
    [
        ({"mode": "on"}, "--mode: found 'on', expected one of always, off, auto"),
        ({"select": 3}, "--select: found 3, expected one of mass, chunk, adaptive"),
        ({"mass": float("nan")}, "--mass: found nan, expected a number in (0, 1]"),
        ({"mass": True}, "--mass: found True, expected a number in (0, 1]"),
        ({"keep": 30}, "--keep: found 30, expected a number in (0, 1]"),
        ({"max_keep": 0}, "--max-keep: found 0, expected a whole number from 1 to 2147483647"),
        ({"window": 2.0}, "--window: found 2.0, expected a whole number from 1 to 2147483647"),
        ({"lookahead": False}, "--lookahead: found False, expected a whole number from 0 to 2147483647"),
        ({"boost_last_n": []}, "--boost-last-n: found [], expected a whole number from 0 to 2147483647"),
        ({"chunk": "a\nb"}, r"--chunk: found 'a\nb', expected a whole number from 1 to 2147483647"),
        ({"mass": 10**400}, "--mass: found 1" + "0" * 56 + "..., expected a number in (0, 1]"),
        ({"kepp": 1}, "settings: found 'kepp', expected one of " + ", ".join(DEFAULTS)),
    ],
)
def test_bad_options(options, message):
    assert error_of(options, {}) == message


def test_a_cap_below_the_guards():
    why = "found 5, expected at least 6, as the first 4 and last 2 tokens are always kept"
    assert error_of({"max_keep": 5}, {}) == f"--max-keep: {why}"
    assert error_of({}, {"SP_MAX_KEEP": "5"}) == f"SP_MAX_KEEP: {why}"
    more = error_of({"guard_last": 3, "max_keep": 6}, {})
    assert more.startswith("--max-keep: found 6, expected at least 7")
    assert Settings.resolve({"max_keep": 6}, {}).max_keep == 6
    with pytest.raises(SpvkError, match="^max_keep: found 5"):
        Settings(max_keep=5)


def test_direct_construction_is_checked_and_frozen():
    with pytest.raises(SpvkError, match=r"^keep: found 2, expected a number in \(0, 1\]$"):
        Settings(keep=2)
    with pytest.raises(SpvkError, match="^mass: found None"):
        Settings(mass=None)
    with pytest.raises(FrozenInstanceError):
        Settings().chunk = 1
    assert Settings(chunk=np.int64(8), keep=np.float64(1), mode=" OFF ").as_dict() == DEFAULTS | {
        "chunk": 8,
        "keep": 1.0,
        "select": "chunk",
        "mode": "off",
    }

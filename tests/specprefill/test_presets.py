"""Presets: what each sets, and what beats them."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from specprefill.plain import AUTO, V3
from spvk.errors import SpvkError
from spvk.specprefill import Settings
from spvk.specprefill.presets import PRESETS

PAPER = {
    "preset": "paper", "select": "chunk", "lookahead": 7, "softmax": "prompt", "pool": 13, "boost_first": 1.0,
    "boost_first_n": 0, "boost_last": 1.0, "boost_last_n": 0, "guard_first": 0, "guard_last": 0, "halo": 0,
}  # fmt: skip



def test_each_preset():
    assert Settings(preset="v3").as_dict() == V3
    assert Settings(preset="paper").as_dict() == V3 | PAPER
    assert Settings(preset=" AUTO ").as_dict() == V3 | AUTO
    assert Settings.resolve({"preset": "paper"}, {}) == Settings.resolve({}, {"SP_PRESET": "paper"})
    assert Settings.resolve({"preset": "paper"}, {"SP_PRESET": "auto"}) == Settings(preset="paper")


def test_presets_name_only_fields_that_exist():
    assert {name for preset in PRESETS.values() for name in preset} <= {f.name for f in fields(Settings)}


def test_options_and_variables_beat_the_preset():
    environ = {"SP_POOL": "5", "SP_CHUNK": "16", "SP_LOOKAHEAD": "3"}
    got = Settings.resolve({"preset": "paper", "lookahead": 8, "guard_first": 4}, environ)
    assert got.as_dict() == V3 | PAPER | {"pool": 5, "chunk": 16, "lookahead": 8, "guard_first": 4}
    assert Settings(preset="paper", lookahead=8).lookahead == 8


def test_a_preset_beats_the_defaults_even_where_an_option_equals_one():
    got = Settings.resolve({"preset": "paper", "boost_first": 1.5}, {})
    assert (got.boost_first, got.boost_last) == (1.5, 1.0)


@pytest.mark.parametrize(
    "options, environ, select",
    [
        ({}, {}, "adaptive"),
        ({"keep": 0.2}, {}, "chunk"),
        ({"mass": 0.9}, {}, "mass"),
        ({"keep": 0.2, "mass": 0.9}, {}, "chunk"),
        ({}, {"SP_KEEP_PCT": "20"}, "chunk"),
        ({"keep": 0.2, "select": "adaptive"}, {}, "adaptive"),
        ({"keep": 0.2}, {"SP_SELECT_MODE": "mass"}, "mass"),
    ],
)
def test_an_explicit_share_is_not_ignored_by_auto(options, environ, select):
    assert Settings.resolve(options | {"preset": "auto"}, environ).select == select


def test_a_share_alone_does_not_change_version_3_1():
    assert Settings.resolve({"preset": "v3", "keep": 0.2}, {}).select == "mass"


def test_replacing_a_field_keeps_the_others():
    assert replace(Settings(preset="paper"), chunk=8).as_dict() == V3 | PAPER | {"chunk": 8}


@pytest.mark.parametrize(
    "options, environ, message",
    [
        ({"preset": "best"}, {}, "--preset: found 'best', expected one of auto, v3, paper"),
        ({"keep": 0.0}, {}, "--keep: found 0.0, expected a number in (0, 1]"),
        ({"keep": 1.01}, {}, "--keep: found 1.01, expected a number in (0, 1]"),
        ({"keep_floor": 0.6}, {}, "--keep-floor: found 0.6, expected at most 0.5, the ceiling"),
        ({}, {"SP_KEEP_CEILING": "10"}, "SP_KEEP_CEILING: found 0.1, expected at least 0.2, the floor"),
        ({"keep_floor": 1}, {}, "--keep-floor: found 1, expected at most 0.5, the ceiling"),
    ],
)
def test_bad_values(options, environ, message):
    with pytest.raises(SpvkError) as error:
        Settings.resolve(options, environ)
    assert str(error.value) == message


def test_bad_values_at_construction():
    with pytest.raises(SpvkError, match="^preset: found 'v4', expected one of auto, v3, paper$"):
        Settings(preset="v4")
    with pytest.raises(SpvkError, match="^keep_floor: found 0.2, expected at most 0.1, the ceiling$"):
        Settings(keep_ceiling=0.1)
    assert Settings(keep_floor=0.4, keep_ceiling=0.4).keep_floor == 0.4

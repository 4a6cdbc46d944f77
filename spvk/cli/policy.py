"""The policy's options, one for each setting: flag, values, default and variable come from `Settings`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from ..specprefill import Settings
from ..specprefill.rules import Choice, FileOr, Whole

HELP = {
    "preset": "Named settings; every other option, and every variable, goes before them.",
    "mode": "always scores and selects, off reads every token, auto is sparse where that helps.",
    "select": "mass: the best chunks up to --mass; chunk: the best --keep; adaptive: as the scores say.",
    "mass": "Select mass: share of the summed score to keep.",
    "keep": "Select chunk: fraction to keep; given alone it means --select chunk.",
    "keep_floor": "Select adaptive: least fraction kept.",
    "keep_ceiling": "Select adaptive: most that is kept.",
    "code_floor": "Select adaptive: least fraction kept of code.",
    "max_keep": "Keep at most N tokens.",
    "window": "Score in overlapping windows of N tokens.",
    "lookahead": "Tokens the draft decodes while it scores.",
    "heads": "Heads of the draft that count: all, or those that `spvk calibrate` found (auto: if it did).",
    "softmax": "Keys of a score row: all that the query sees, or the prompt's alone.",
    "pool": "Average scores over N neighbouring tokens, odd.",
    "normalise": "How scores are brought to a common scale.",
    "chunk": "Tokens in a chunk.",
    "edges": "Where kept pieces begin and end.",
    "halo": "Keep the N tokens before each kept chunk with it, out of the same budget (none given: 8 where the "
    "target has recurrent layers).",
    "backbone": "Fraction of the budget for evenly spaced chunks.",
    "dense_ends": "Fraction of the budget for the prompt's first and last tokens.",
    "boost_first": "Factor on the scores of the first tokens.",
    "boost_first_n": "How many these are.",
    "boost_last": "Factor on the scores of the last tokens.",
    "boost_last_n": "How many these are.",
    "guard_first": "Tokens at the start that are always kept.",
    "guard_last": "Tokens at the end that are always kept.",
    "positions": "original: kept tokens stand where they were; renumber: at 0, 1, ..., to compare.",
    "dense_layers": "The target's first N layers, all recurrent, read every token.",
    "gap_decay": "Recurrent states decay over dropped tokens: typical, as the weights alone say of a token; "
    "mean, as over those read before.",
    "last_user": "With --protect on: tokens kept at the end of a long last user turn.",
    "min_tokens": "Mode auto: shorter prompts are read whole.",
    "tool_guard": "Mode auto, prompts with tools: read them whole, protect what is theirs, or ignore it.",
    "min_confidence": "Mode auto: flatter scores than this are not trusted.",
    "spec_throughput": "Mode auto: tokens a second that the draft scores, in place of what was measured.",
    "break_even": "Mode auto: prompt length from which sparse is taken to pay, in place of the prediction.",
    "break_even_safety": "Mode auto: how many times faster than dense sparse must be predicted.",
}
PROTECT = click.option(
    "--protect",
    multiple=True,
    metavar="START:END|on|off",
    help="Always keep prompt tokens START to END (as often as needed); on: a chat's structure too. "
    "[on; SP_PROTECT]",
)


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def default_of(field: Any) -> str:
    """The default as a user would type it; `none` where there is none."""
    value = field.metadata["default"]
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _option(field: Any):
    rule, variable = field.metadata["rule"], field.metadata["variable"]
    values = "N" if isinstance(rule, Whole) else "X"
    if isinstance(rule, Choice):
        values = "|".join(rule.names)
    elif isinstance(rule, FileOr):
        values = "|".join(("FILE", *rule.words))
    hint = default_of(field) + (f"; {variable}" if variable else "")
    return click.option(flag_of(field.name), metavar=values, help=f"{HELP[field.name]} [{hint}]")


# No types: `Settings` reads the text, so that a variable and an option are refused in the same words.
POLICY_OPTIONS = (*(_option(f) for f in fields(Settings) if f.name in HELP), PROTECT)

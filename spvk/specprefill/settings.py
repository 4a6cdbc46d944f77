"""The settings of the policy: options first, then `SP_*` environment variables, the preset, the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from spvk.errors import SpvkError
from spvk.specprefill.presets import PRESETS, effective
from spvk.specprefill.rules import Choice, FileOr, Odd, Percent, Real, Whole, read, shown

MAX_BOOST = 1000.0
POSITIONS = ("original", "renumber")
GAP_DECAY = ("off", "typical", "mean")
EDGES = ("fixed", "pooled", "peaks", "snapped", "overlap", "dilated")


class _Unset:
    """Not given: the preset decides."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()


def _setting(default: Any, rule: Any, variable: str | None = None, variable_rule: Any = None) -> Any:
    return field(default=UNSET, metadata={
        "default": default, "rule": rule, "variable": variable, "variable_rule": variable_rule or rule})


@dataclass(frozen=True)
class Settings:
    """What the policy depends on. Immutable; every field is checked on construction.

    A field that is not given has the value of the preset, else its default, which is that of preset `auto`.
    Raises SpvkError (one line: field, flag or variable, found, expected) for anything out of range.
    """

    preset: str = _setting("auto", Choice(tuple(PRESETS)), "SP_PRESET")
    """`auto`: keeps as the scores say; `v3`: version 3.1; `paper`: Speculative Prefill as published."""
    mode: str = _setting("auto", Choice(("always", "off", "auto")))
    """`always`: score and select; `off`: dense, nothing is scored; `auto`: sparse where it helps."""
    select: str = _setting("adaptive", Choice(("mass", "chunk", "adaptive")), "SP_SELECT_MODE")
    """`mass`: chunks until `mass` of the score is covered; `chunk`: the top `keep` of the chunks; `adaptive`:
    the top of a fraction that the scores themselves give, between `keep_floor` and `keep_ceiling`."""
    mass: float = _setting(0.85, Real(1.0), "SP_CUMULATIVE_MASS")
    """Fraction of the summed score to cover, in (0, 1]."""
    keep: float = _setting(0.3, Real(1.0), "SP_KEEP_PCT", Percent(100.0))
    """Share of chunks, in (0, 1]; `SP_KEEP_PCT` also takes percentages above 1: 30 is 0.3, but 1 is all."""
    keep_floor: float = _setting(0.2, Real(1.0), "SP_KEEP_FLOOR", Percent(100.0))
    """Least that `adaptive` keeps, of whatever text."""
    keep_ceiling: float = _setting(0.5, Real(1.0), "SP_KEEP_CEILING", Percent(100.0))
    """Most that `adaptive` keeps; it beats both floors."""
    code_floor: float = _setting(0.3, Real(1.0), "SP_CODE_FLOOR", Percent(100.0))
    """Least that `adaptive` keeps of a prompt that is largely code."""
    max_keep: int | None = _setting(None, Whole(1, optional=True), "SP_MAX_KEEP")
    """Most tokens kept, guards and protected tokens included; None: no cap."""
    window: int | None = _setting(None, Whole(1, optional=True), "SP_WINDOW")
    """Tokens scored at a time; None: the whole prompt at once."""
    lookahead: int = _setting(8, Whole(0), "SP_LOOKAHEAD")
    """Tokens the draft generates; its queries and the prompt's last one make `lookahead + 1` score rows."""
    heads: str = _setting("all", FileOr(("auto", "all")), "SP_HEADS")
    """Whose rows count: `all` heads', those in a file of `spvk calibrate`, or (`auto`) those in the cache's
    file for this draft, all where there is none."""
    softmax: str = _setting("all", Choice(("all", "prompt")), "SP_SOFTMAX")
    """Keys of a score row's softmax: `all` that the query sees, or the `prompt`'s alone."""
    pool: int = _setting(1, Odd(1), "SP_POOL")
    """Width of the average over neighbouring positions, odd; 1: none."""
    normalise: str = _setting("minmax", Choice(("minmax", "percentile", "zscore")), "SP_NORMALISE")
    """How scores are brought to a common scale; see `importance.normalise`."""
    chunk: int = _setting(12, Whole(1), "SP_CHUNK")
    """Tokens in a chunk."""
    edges: str = _setting("snapped", Choice(EDGES), "SP_EDGES")
    """Where kept pieces begin and end; see edges.py."""
    halo: int | None = _setting(None, Whole(0, optional=True), "SP_HALO")
    """Tokens before each kept chunk that are kept with it, out of the same budget; see spread.py. None: as many as
    help a target with recurrent layers (`engine.settle`), none for others."""
    backbone: float = _setting(0.0, Real(1.0, zero=True), "SP_BACKBONE")
    """Fraction of the kept budget that goes to evenly spaced chunks, in [0, 1]."""
    dense_ends: float = _setting(0.0, Real(1.0, zero=True), "SP_DENSE_ENDS")
    """Fraction of the kept budget that goes to the prompt's ends, half to each, in [0, 1]."""
    boost_first: float = _setting(1.0, Real(MAX_BOOST), "SP_BOOST_FIRST_MULT")
    """Factor on the scores of the first `boost_first_n` tokens."""
    boost_first_n: int = _setting(0, Whole(0), "SP_BOOST_FIRST_N")
    boost_last: float = _setting(1.0, Real(MAX_BOOST), "SP_BOOST_LAST_MULT")
    """Factor on the scores of the last `boost_last_n` tokens."""
    boost_last_n: int = _setting(0, Whole(0), "SP_BOOST_LAST_N")
    guard_first: int = _setting(4, Whole(0))
    """Tokens at the start that are always kept."""
    guard_last: int = _setting(2, Whole(0))
    """Tokens at the end that are always kept."""
    positions: str = _setting("original", Choice(POSITIONS), "SP_POSITIONS")
    """Where kept tokens stand for the target: where they were, or (`renumber`) at 0, 1, ... without gaps."""
    dense_layers: int = _setting(0, Whole(0), "SP_DENSE_LAYERS")
    """The target's first layers, all recurrent, that read every token; the others read the kept ones."""
    gap_decay: str = _setting("off", Choice(GAP_DECAY), "SP_GAP_DECAY")
    """How the target's recurrent states decay over dropped tokens: `off`, not; `typical`, as the weights alone
    say of a token; `mean`, as they did on the mean over those read before. See kernels/gap_decay.py."""
    protect: str = _setting("on", Choice(("on", "off")), "SP_PROTECT")
    """`on`: the chat's structure is always kept (see protect.py). Ranges that a caller names always are."""
    last_user: int = _setting(64, Whole(0), "SP_LAST_USER")
    """Tokens at the end of a long last user turn that are protected; a short turn is protected whole."""
    min_tokens: int = _setting(256, Whole(0), "SP_MIN_TOKENS")
    """Mode auto: shorter prompts go dense."""
    tool_guard: str = _setting("skip", Choice(("skip", "protect", "off")), "SP_TOOL_GUARD")
    """Mode auto, prompts with tools: `skip` sparse prefill, `protect` what is theirs, or `off`."""
    min_confidence: float = _setting(0.2, Real(1.0, zero=True), "SP_MIN_CONFIDENCE")
    """Mode auto: scores flatter than this go dense; see `adaptive.Evidence`. 0 accepts all."""
    spec_throughput: float | None = _setting(None, Real(1e9, optional=True), "SP_SPEC_THROUGHPUT")
    """Prompt tokens a second that the draft scores, in place of the measured rate."""
    break_even: int | None = _setting(None, Whole(0, optional=True), "SP_BREAK_EVEN")
    """Mode auto: prompt length from which sparse is taken to pay, in place of the prediction; 0: always."""
    break_even_safety: float = _setting(1.0, Real(1000.0), "SP_BREAK_EVEN_SAFETY")
    """Mode auto: factor by which sparse must be predicted faster than dense, and on `break_even`."""

    def __post_init__(self) -> None:
        explicit = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not UNSET:
                explicit[f.name] = read(f.metadata["rule"], value, f.name)
        for name, value in _complete(explicit, {}).items():
            object.__setattr__(self, name, value)

    @classmethod
    def resolve(cls, options: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
        """Settings from `options` (field name to value; None: not given), then `environ`, then the preset.

        An empty variable counts as unset, and a variable is not read where its option is given.
        Raises SpvkError naming the flag (`--max-keep`) or the variable (`SP_MAX_KEEP`) that is wrong.
        """
        unknown = sorted(set(options) - {f.name for f in fields(cls)})
        if unknown:
            known = ", ".join(f.name for f in fields(cls))
            raise SpvkError(f"settings: found {shown(unknown[0])}, expected one of {known}")
        explicit, labels = {}, {}
        for f in fields(cls):
            variable = f.metadata["variable"]
            if options.get(f.name) is not None:
                label, rule, value = "--" + f.name.replace("_", "-"), f.metadata["rule"], options[f.name]
            elif variable and environ.get(variable, "").strip():
                label, rule, value = variable, f.metadata["variable_rule"], environ[variable]
            else:
                continue
            explicit[f.name], labels[f.name] = read(rule, value, label), label
        return cls(**_complete(explicit, labels))

    @property
    def heads_file(self) -> str | None:
        """The file that `heads` names; None where it names none."""
        return None if self.heads in ("auto", "all") else self.heads

    def as_dict(self) -> dict[str, Any]:
        """Every effective setting by its field name, ready for JSON."""
        return asdict(self)


def _complete(explicit: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """All settings for the `explicit` ones; SpvkError, by the names in `labels`, where they contradict."""
    values = effective(explicit, {f.name: f.metadata["default"] for f in fields(Settings)})
    label = labels.get("max_keep", "max_keep")
    _check_cap(values["max_keep"], values["guard_first"], values["guard_last"], label)
    _check_floor(values["keep_floor"], values["keep_ceiling"], labels)
    _check_shares(values["backbone"], values["dense_ends"], labels)
    return values


def _check_cap(max_keep: int | None, guard_first: int, guard_last: int, label: str) -> None:
    guards = guard_first + guard_last
    if max_keep is not None and max_keep < guards:
        why = f"the first {guard_first} and last {guard_last} tokens are always kept"
        raise SpvkError(f"{label}: found {max_keep}, expected at least {guards}, as {why}")


def _check_shares(backbone: float, dense_ends: float, labels: Mapping[str, str]) -> None:
    if backbone + dense_ends > 1.0 + 1e-12:
        label, other = labels.get("backbone", "backbone"), labels.get("dense_ends", "dense_ends")
        raise SpvkError(f"{label}: found {backbone:g}, expected at most {1 - dense_ends:g} beside {other} "
                        f"{dense_ends:g}, as both are of one budget")


def _check_floor(floor: float, ceiling: float, labels: Mapping[str, str]) -> None:
    if floor <= ceiling:
        return
    if "keep_ceiling" in labels and "keep_floor" not in labels:
        label = labels["keep_ceiling"]
        raise SpvkError(f"{label}: found {ceiling:g}, expected at least {floor:g}, the floor")
    label = labels.get("keep_floor", "keep_floor")
    raise SpvkError(f"{label}: found {floor:g}, expected at most {ceiling:g}, the ceiling")

"""The settings of the policy: options first, then `SP_*` environment variables, then the defaults."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from spvk.errors import SpvkError

INT32_MAX = 2**31 - 1
MAX_BOOST = 1000.0


def _shown(value: Any) -> str:
    """`value` as it stands in an error line: one line, never longer than a terminal's."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class _Choice:
    names: tuple[str, ...]

    @property
    def expected(self) -> str:
        return "one of " + ", ".join(self.names)

    def read(self, value: Any) -> str:
        name = value.strip().lower() if isinstance(value, str) else value
        if name not in self.names:
            raise ValueError
        return name


@dataclass(frozen=True)
class _Whole:
    low: int
    optional: bool = False

    @property
    def expected(self) -> str:
        return f"a whole number from {self.low} to {INT32_MAX}"

    def read(self, value: Any) -> int | None:
        if value is None and self.optional:
            return None
        if isinstance(value, (bool, np.bool_)):
            raise ValueError
        number = int(value) if isinstance(value, str) else operator.index(value)
        if not self.low <= number <= INT32_MAX:
            raise ValueError
        return number


@dataclass(frozen=True)
class _Real:
    high: float  # the range is (0, high]

    @property
    def expected(self) -> str:
        return f"a number in (0, {self.high:g}]"

    def read(self, value: Any) -> float:
        if isinstance(value, (bool, np.bool_)):
            raise ValueError
        number = float(value)
        if not 0.0 < number <= self.high:  # false for NaN too
            raise ValueError
        return number


class _Percent(_Real):
    """`0.3` and `30` both mean 30 %: what is above 1 can only be a percentage."""

    @property
    def expected(self) -> str:
        return "a fraction in (0, 1] or a percentage in (1, 100]"

    def read(self, value: Any) -> float:
        number = super().read(value)
        return number if number <= 1.0 else number / 100.0


def _read(rule: Any, value: Any, label: str) -> Any:
    try:
        return rule.read(value)
    except (ValueError, TypeError, OverflowError):
        raise SpvkError(f"{label}: found {_shown(value)}, expected {rule.expected}") from None


def _setting(default: Any, rule: Any, variable: str | None = None, variable_rule: Any = None) -> Any:
    metadata = {"rule": rule, "variable": variable, "variable_rule": variable_rule or rule}
    return field(default=default, metadata=metadata)


def _check_cap(max_keep: int | None, guard_first: int, guard_last: int, label: str) -> None:
    guards = guard_first + guard_last
    if max_keep is not None and max_keep < guards:
        why = f"the first {guard_first} and last {guard_last} tokens are always kept"
        raise SpvkError(f"{label}: found {max_keep}, expected at least {guards}, as {why}")


@dataclass(frozen=True)
class Settings:
    """What the selection of version 3.1 depends on. Immutable; every field is checked on construction.

    Raises SpvkError (one line: field, flag or variable, found, expected) for anything out of range.
    """

    mode: str = _setting("always", _Choice(("always", "off")))
    """`always`: score and select; `off`: dense prefill, nothing is scored."""
    select: str = _setting("mass", _Choice(("mass", "chunk")), "SP_SELECT_MODE")
    """`mass`: chunks until `mass` of the score is covered; `chunk`: the top `keep` of the chunks."""
    mass: float = _setting(0.85, _Real(1.0), "SP_CUMULATIVE_MASS")
    """Fraction of the summed score to cover, in (0, 1]."""
    keep: float = _setting(0.3, _Real(1.0), "SP_KEEP_PCT", _Percent(100.0))
    """Share of chunks, in (0, 1]; `SP_KEEP_PCT` also takes percentages above 1: 30 is 0.3, but 1 is all."""
    max_keep: int | None = _setting(None, _Whole(1, optional=True), "SP_MAX_KEEP")
    """Most tokens kept, guards included; None: no cap."""
    window: int | None = _setting(None, _Whole(1, optional=True), "SP_WINDOW")
    """Tokens scored at a time; None: the whole prompt at once."""
    lookahead: int = _setting(8, _Whole(0), "SP_LOOKAHEAD")
    """Tokens the draft generates; its queries and the prompt's last one make `lookahead + 1` score rows."""
    chunk: int = _setting(32, _Whole(1), "SP_CHUNK")
    """Tokens in a chunk."""
    boost_first: float = _setting(1.5, _Real(MAX_BOOST), "SP_BOOST_FIRST_MULT")
    """Factor on the scores of the first `boost_first_n` tokens."""
    boost_first_n: int = _setting(64, _Whole(0), "SP_BOOST_FIRST_N")
    boost_last: float = _setting(1.3, _Real(MAX_BOOST), "SP_BOOST_LAST_MULT")
    """Factor on the scores of the last `boost_last_n` tokens."""
    boost_last_n: int = _setting(128, _Whole(0), "SP_BOOST_LAST_N")
    guard_first: int = _setting(4, _Whole(0))
    """Tokens at the start that are always kept."""
    guard_last: int = _setting(2, _Whole(0))
    """Tokens at the end that are always kept."""

    def __post_init__(self) -> None:
        for f in fields(self):
            object.__setattr__(self, f.name, _read(f.metadata["rule"], getattr(self, f.name), f.name))
        _check_cap(self.max_keep, self.guard_first, self.guard_last, "max_keep")

    @classmethod
    def resolve(cls, options: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
        """Settings from `options` (field name to value; None: not given), then `environ`, then the defaults.

        An empty variable counts as unset, and a variable is not read where its option is given.
        Raises SpvkError naming the flag (`--max-keep`) or the variable (`SP_MAX_KEEP`) that is wrong.
        """
        unknown = sorted(set(options) - {f.name for f in fields(cls)})
        if unknown:
            known = ", ".join(f.name for f in fields(cls))
            raise SpvkError(f"settings: found {_shown(unknown[0])}, expected one of {known}")
        values = {f.name: f.default for f in fields(cls)}
        cap_label = "max_keep"
        for f in fields(cls):
            flag, variable = "--" + f.name.replace("_", "-"), f.metadata["variable"]
            if options.get(f.name) is not None:
                label, rule, value = flag, f.metadata["rule"], options[f.name]
            elif variable and environ.get(variable, "").strip():
                label, rule, value = variable, f.metadata["variable_rule"], environ[variable]
            else:
                continue
            values[f.name] = _read(rule, value, label)
            if f.name == "max_keep":
                cap_label = label
        _check_cap(values["max_keep"], values["guard_first"], values["guard_last"], cap_label)
        return cls(**values)

    def as_dict(self) -> dict[str, Any]:
        """Every effective setting by its field name, ready for JSON."""
        return asdict(self)

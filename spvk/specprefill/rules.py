"""What a setting may be: each rule reads a value or says what was expected."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from spvk.errors import SpvkError

INT32_MAX = 2**31 - 1


def shown(value: Any) -> str:
    """`value` as it stands in an error line: one line, never longer than a terminal's."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class Choice:
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
class FileOr:
    """The name of a file, or one of some words, which are matched as they are."""

    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        return f"a file's name, {' or '.join(self.words)}"

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise ValueError
        return value.strip()


@dataclass(frozen=True)
class Whole:
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


class Odd(Whole):
    """A width with a middle."""

    @property
    def expected(self) -> str:
        return f"an odd number from {self.low} to {INT32_MAX}"

    def read(self, value: Any) -> int | None:
        number = super().read(value)
        if number is not None and number % 2 == 0:
            raise ValueError
        return number


@dataclass(frozen=True)
class Real:
    high: float  # the range is (0, high], or [0, high] with `zero`
    zero: bool = False
    optional: bool = False

    @property
    def expected(self) -> str:
        return f"a number in {'[' if self.zero else '('}0, {self.high:g}]"

    def read(self, value: Any) -> float | None:
        if value is None and self.optional:
            return None
        if isinstance(value, (bool, np.bool_)):
            raise ValueError
        number = float(value)
        if not (0.0 < number <= self.high or (self.zero and number == 0.0)):  # false for NaN too
            raise ValueError
        return number


class Percent(Real):
    """`0.3` and `30` both mean 30 %: what is above 1 can only be a percentage."""

    @property
    def expected(self) -> str:
        return "a fraction in (0, 1] or a percentage in (1, 100]"

    def read(self, value: Any) -> float:
        number = super().read(value)
        return number if number <= 1.0 else number / 100.0


def read(rule: Any, value: Any, label: str) -> Any:
    """`value` by `rule`; SpvkError naming `label`, what was found and what was expected."""
    try:
        return rule.read(value)
    except (ValueError, TypeError, OverflowError):
        raise SpvkError(f"{label}: found {shown(value)}, expected {rule.expected}") from None

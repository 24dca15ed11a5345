"""What the keys of a case file may hold: each kind says so in words and knows a right value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol


class Kind(Protocol):
    """What a key may hold."""

    @property
    def allowed(self) -> str:
        """In words, to follow "must be"."""

    def accepts(self, value: Any) -> bool:
        """Whether a value read from TOML is one."""


@dataclass(frozen=True)
class Real:
    """A finite number, bounded where asked."""

    above: float = -math.inf
    at_least: float = -math.inf
    below: float = math.inf

    @property
    def allowed(self) -> str:
        """In words."""
        bounds = [
            f"{sign} {bound:g}"
            for sign, bound in ((">", self.above), (">=", self.at_least), ("<", self.below))
            if math.isfinite(bound)
        ]
        return " ".join(["a number", " and ".join(bounds)]).strip()

    def accepts(self, value: Any) -> bool:
        """Whether a value read from TOML is one."""
        return (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and _is_finite(value)
            and self.above < value < self.below
            and value >= self.at_least
        )


def _is_finite(value: int | float) -> bool:
    """Whether it is a number within the range of float64."""
    try:
        return math.isfinite(value)
    except OverflowError:  # whole numbers have any size
        return False


@dataclass(frozen=True)
class Whole:
    """A whole number."""

    at_least: int

    @property
    def allowed(self) -> str:
        """In words."""
        return f"a whole number >= {self.at_least}"

    def accepts(self, value: Any) -> bool:
        """Whether a value read from TOML is one."""
        return isinstance(value, int) and not isinstance(value, bool) and value >= self.at_least


@dataclass(frozen=True)
class Choice:
    """One of some values."""

    options: tuple[Any, ...]

    @property
    def allowed(self) -> str:
        """In words."""
        return "one of " + ", ".join(map(repr, self.options))

    def accepts(self, value: Any) -> bool:
        """Whether a value read from TOML is one; 2.0 and true are no 2 and 1."""
        return any(type(value) is type(option) and value == option for option in self.options)


@dataclass(frozen=True)
class Truth:
    """true or false."""

    allowed: str = "true or false"

    def accepts(self, value: Any) -> bool:
        """Whether a value read from TOML is one."""
        return isinstance(value, bool)


@dataclass(frozen=True)
class Text:
    """A text."""

    allowed: str = "a text in quotes"

    def accepts(self, value: Any) -> bool:
        """Whether a value read from TOML is one."""
        return isinstance(value, str)


@dataclass(frozen=True)
class Numbers:
    """A list of numbers; or a single one, where asked."""

    each: Real = Real()
    or_one: bool = False

    @property
    def allowed(self) -> str:
        """In words."""
        return (
            f"{self.each.allowed}, or a list of such"
            if self.or_one
            else ("a list, each entry " + self.each.allowed)
        )

    def accepts(self, value: Any) -> bool:
        """Whether a value read from TOML is one."""
        if self.or_one and self.each.accepts(value):
            return True
        return isinstance(value, list) and bool(value) and all(map(self.each.accepts, value))


@dataclass(frozen=True)
class Rows:
    """A matrix, or points, by rows."""

    allowed: str = "a list of equally long lists of numbers"

    def accepts(self, value: Any) -> bool:
        """Whether a value read from TOML is one."""
        return (
            isinstance(value, list)
            and bool(value)
            and all(Numbers().accepts(row) for row in value)
            and len({len(row) for row in value}) == 1
        )


@dataclass(frozen=True)
class Square:
    """A square matrix by rows, or its diagonal alone."""

    allowed: str = "a square matrix as a list of rows, or its diagonal as a list of numbers"

    def accepts(self, value: Any) -> bool:
        """Whether a value read from TOML is one."""
        return Numbers().accepts(value) or (Rows().accepts(value) and len(value) == len(value[0]))

"""What a study says of what it measured: bars, which decide its exit status, and findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Bar:
    """A measured value and the limit that it should keep.

    sense : "<=" or ">="
    """

    what: str
    value: float
    sense: str
    limit: float

    @classmethod
    def at_most(cls, what: str, value: Any, limit: float) -> Bar:
        """The bar value <= limit."""
        return cls(what, float(value), "<=", float(limit))

    @classmethod
    def at_least(cls, what: str, value: Any, limit: float) -> Bar:
        """The bar value >= limit."""
        return cls(what, float(value), ">=", float(limit))

    @property
    def met(self) -> bool:
        """Whether the value keeps the limit; nan never does."""
        return self.value <= self.limit if self.sense == "<=" else self.value >= self.limit

    def __str__(self) -> str:
        verdict = "met   " if self.met else "MISSED"
        return f"{verdict}  {self.what}: {self.value:.3g} {self.sense} {self.limit:.3g}"


@dataclass(frozen=True)
class Finding:
    """What a claim says, what was measured, and whether the two agree."""

    text: str
    agrees: bool | np.bool_

    def __str__(self) -> str:
        return f"{'shown    ' if self.agrees else 'NOT SHOWN'}  {self.text}"

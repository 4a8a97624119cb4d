"""Checks of constructor parameters: one sentence that quotes the bad value."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from schirn.exceptions import InputError


@dataclass(frozen=True)
class Number:
    """A finite number of at least (or more than) `low` and at most `high`."""

    low: float = 0.0
    high: float = float("inf")
    open_low: bool = False
    integer: bool = False
    none: bool = False

    def check(self, name: str, value: Any) -> None:
        """Raise InputError if the value is not allowed."""
        if value is None and self.none:
            return
        kind = Integral if self.integer else Real
        if isinstance(value, kind) and not isinstance(value, bool):
            number = float(value)
            above = number > self.low if self.open_low else number >= self.low
            if above and number <= self.high and number != float("inf"):
                return
        article = "an integer" if self.integer else "a number"
        bound = f"{'more than' if self.open_low else 'at least'} {self.low:g}"
        top = "" if self.high == float("inf") else f" and at most {self.high:g}"
        none = " or None" if self.none else ""
        raise InputError(f"{name} must be {article} of {bound}{top}{none}, got {value!r}")


@dataclass(frozen=True)
class OneOf:
    """One of a few values."""

    values: tuple[Any, ...]

    def check(self, name: str, value: Any) -> None:
        """Raise InputError if the value is not allowed."""
        if not any(
            value is v or (isinstance(value, str | np.bool_) and value == v) for v in self.values
        ):
            allowed = ", ".join(map(repr, self.values))
            raise InputError(f"{name} must be one of {allowed}, got {value!r}")


@dataclass(frozen=True)
class Seed:
    """A whole number of at least 0, a `numpy.random.RandomState`, or None."""

    def check(self, name: str, value: Any) -> None:
        """Raise InputError if the value is not allowed."""
        if isinstance(value, np.random.RandomState):
            return
        Number(high=2**32 - 1, integer=True, none=True).check(name, value)


@dataclass(frozen=True)
class Jobs:
    """How many processes or threads: at least 1, or counted down from all by -1, -2, ..."""

    def check(self, name: str, value: Any) -> None:
        """Raise InputError if the value is not allowed."""
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if value is not None and not (whole and value != 0):
            raise InputError(
                f"{name} must be at least 1, or -1 for all processors, or None, got {value!r}"
            )


Constraint = Number | OneOf | Seed | Jobs


def check_params(values: dict[str, Any], constraints: dict[str, Constraint]) -> None:
    """Check every parameter that has a constraint."""
    for name, constraint in constraints.items():
        constraint.check(name, values[name])

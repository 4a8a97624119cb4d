"""People's decisions apart from answers: a target, limits, rules and requested changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from schirn._files import brief
from schirn._input import Array, Number, OneOf, suggest
from schirn.exceptions import InputError

PRECISION = 0.9
KEEP, DROP, ASK = RULES = ("keep", "drop", "ask")


@dataclass(frozen=True, eq=False)
class Policy:
    """A target, limits, rules and requested changes.

    Attributes
    ----------
    precision : float
        Share of the removals that should be right.
    keep_one : bool
        True if each row keeps at least one tag that nobody called wrong.
    rules : dict from label name to {"keep", "drop"}
        Labels whose tags are all kept or all removed.
    removals, additions : bool arrays or None
        Requested changes: listed tags to remove, and missing tags to add. None leaves them to the
        answers.
    is_checked : bool
        True if removals and additions follow from answers.
    """

    precision: float = PRECISION
    keep_one: bool = True
    rules: Mapping[str, str] = field(default_factory=dict)
    removals: Array | None = None
    additions: Array | None = None
    is_checked: bool = True

    def at(self, precision: float | None, keep_one: bool | None) -> "Policy":
        """Return the policy with another target or limit, without requested changes.

        Parameters
        ----------
        precision : float or None
            Target precision, in (0, 1]; None leaves it unchanged.
        keep_one : bool or None
            True if a row keeps its likeliest tag; None leaves this unchanged.

        Returns
        -------
        Policy
        """
        precision = self.precision if precision is None else precision
        Number(0, high=1, open_low=True).check("precision", precision)
        keep_one = self.keep_one if keep_one is None else bool(keep_one)
        return Policy(float(precision), keep_one, self.rules)

    def with_rule(self, label: str, rule: str, label_names: list[str]) -> "Policy":
        """Return the policy with a rule about a label.

        Parameters
        ----------
        label : str
            Name of the label.
        rule : {"keep", "drop", "ask"}
            Keep or remove all its tags; "ask" removes the rule.
        label_names : list of str
            Names of all labels.

        Returns
        -------
        Policy
        """
        OneOf(RULES).check("rule", rule)
        if label not in label_names:
            hint = suggest(str(label), label_names)
            raise InputError(f"there is no label {brief(str(label))}; {hint}", parameter="label")
        rules: dict[str, Any] = {**self.rules, label: rule}
        if rule == ASK:
            del rules[label]
        return replace(self, rules=rules)

    def columns(self, rule: str, label_names: list[str]) -> Array:
        """Return the columns of the labels with a rule.

        Parameters
        ----------
        rule : {"keep", "drop"}
            The rule.
        label_names : list of str
            Names of all labels, in the order of their columns.

        Returns
        -------
        (k,) int array
        """
        named = [j for j, name in enumerate(label_names) if self.rules.get(name) == rule]
        return np.array(named, dtype=np.int64)

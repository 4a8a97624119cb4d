"""The library's own methods, one per file, and the registry of all methods."""

from schirn._entry_points import METHODS, registered
from schirn._input import find_name, suggest
from schirn.estimators._base import (
    Fit,
    LinearMethod,
    MethodInfo,
    PartialMultiLabelClassifier,
    RowSpaceMethod,
)
from schirn.estimators._base import sees_truth as sees_truth
from schirn.estimators._ridge import CandidateRidge, OracleRidge
from schirn.estimators._training_rows import TrainingRows as TrainingRows
from schirn.estimators.schirn import Schirn
from schirn.estimators.sieve import Sieve
from schirn.exceptions import InputError

__all__ = [
    "CandidateRidge",
    "Fit",
    "LinearMethod",
    "MethodInfo",
    "OracleRidge",
    "PartialMultiLabelClassifier",
    "RowSpaceMethod",
    "Schirn",
    "Sieve",
    "methods",
]

Methods = dict[str, type[PartialMultiLabelClassifier]]

_OWN: Methods = {"Sieve": Sieve, "Schirn": Schirn}
_REFERENCES: Methods = {"CandidateRidge": CandidateRidge, "OracleRidge": OracleRidge}
CORE_METHODS: Methods = {**_OWN, **_REFERENCES}


def methods() -> Methods:
    """Return all methods by name: Sieve, Schirn, the rival methods and the two references.

    Returns
    -------
    dict from str to class

    Examples
    --------
    >>> list(methods())[:3], list(methods())[-2:]
    (['Sieve', 'Schirn', 'NLR'], ['CandidateRidge', 'OracleRidge'])
    """
    others = {name: cls for name, cls in registered(METHODS).items() if name not in CORE_METHODS}
    return {**_OWN, **others, **_REFERENCES}


def method_named(name: str) -> type[PartialMultiLabelClassifier] | None:
    """Return the method with exactly this name, or None. Rivals are imported only if needed."""
    return CORE_METHODS.get(name) or methods().get(name)


def find_method(name: str) -> type[PartialMultiLabelClassifier]:
    """Return the method with this name, ignoring case and hyphens.

    >>> find_method("sieve").__name__, find_method("PML-MA").__name__
    ('Sieve', 'PMLMA')
    """
    known = find_name(name, CORE_METHODS) or find_name(name, methods())
    if known is None:
        raise InputError(
            f"there is no method {name!r}; {suggest(name, methods())}", parameter="method"
        )
    return CORE_METHODS[known] if known in CORE_METHODS else methods()[known]

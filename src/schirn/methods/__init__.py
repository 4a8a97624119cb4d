"""All methods, one per file."""

from schirn._input import find_name, suggest
from schirn.exceptions import InputError
from schirn.methods._base import (
    Fit,
    LinearMethod,
    MethodInfo,
    PartialMultiLabelClassifier,
    RowSpaceMethod,
)
from schirn.methods.fpml import FPML
from schirn.methods.glc import GLC
from schirn.methods.nlr import NLR
from schirn.methods.paks import PAKS
from schirn.methods.pard import PARD
from schirn.methods.particle import ParticleMAP, ParticleVLS
from schirn.methods.pmllenfn import PMLLENFN
from schirn.methods.pmllrs import PMLLRS
from schirn.methods.pmlma import PMLMA
from schirn.methods.pmlni import PMLNI
from schirn.methods.pmlplr import PMLPLR
from schirn.methods.ridge import CandidateRidge, OracleRidge
from schirn.methods.schirn import Schirn
from schirn.methods.sieve import Sieve

__all__ = [
    "FPML",
    "GLC",
    "NLR",
    "PAKS",
    "PARD",
    "PMLLENFN",
    "PMLLRS",
    "PMLMA",
    "PMLNI",
    "PMLPLR",
    "CandidateRidge",
    "Fit",
    "LinearMethod",
    "MethodInfo",
    "OracleRidge",
    "PartialMultiLabelClassifier",
    "ParticleMAP",
    "ParticleVLS",
    "RowSpaceMethod",
    "Schirn",
    "Sieve",
    "methods",
]

_METHODS: tuple[type[PartialMultiLabelClassifier], ...] = (
    Sieve,
    Schirn,
    NLR,
    FPML,
    PMLLRS,
    PMLNI,
    ParticleMAP,
    ParticleVLS,
    PAKS,
    GLC,
    PARD,
    PMLLENFN,
    PMLPLR,
    PMLMA,
    CandidateRidge,
    OracleRidge,
)


def methods() -> dict[str, type[PartialMultiLabelClassifier]]:
    """Return all methods by name: Sieve, Schirn, the compared methods and the two references.

    >>> list(methods())[:3], list(methods())[-2:]
    (['Sieve', 'Schirn', 'NLR'], ['CandidateRidge', 'OracleRidge'])
    """
    return {method.__name__: method for method in _METHODS}


def find_method(name: str) -> type[PartialMultiLabelClassifier]:
    """Return the method of this name, ignoring case and hyphens.

    >>> find_method("sieve").__name__, find_method("PML-MA").__name__
    ('Sieve', 'PMLMA')
    """
    known = find_name(name, methods())
    if known is None:
        raise InputError(
            f"there is no method {name!r}; {suggest(name, methods())}", parameter="method"
        )
    return methods()[known]

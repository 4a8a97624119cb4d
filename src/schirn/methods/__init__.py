"""The methods, one file each, and the list of them."""

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
from schirn.methods.particle import ParticleMAP, ParticleVLS
from schirn.methods.pmllrs import PMLLRS
from schirn.methods.pmlni import PMLNI
from schirn.methods.ridge import CandidateRidge, OracleRidge
from schirn.methods.schirn import Schirn

__all__ = [
    "FPML",
    "GLC",
    "NLR",
    "PMLLRS",
    "PMLNI",
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
    "methods",
]

_METHODS: tuple[type[PartialMultiLabelClassifier], ...] = (
    Schirn,
    NLR,
    FPML,
    PMLLRS,
    PMLNI,
    ParticleMAP,
    ParticleVLS,
    GLC,
    CandidateRidge,
    OracleRidge,
)


def methods() -> dict[str, type[PartialMultiLabelClassifier]]:
    """All methods by name, the baselines last.

    >>> list(methods())[:5]
    ['Schirn', 'NLR', 'FPML', 'PMLLRS', 'PMLNI']
    >>> list(methods())[5:]
    ['ParticleMAP', 'ParticleVLS', 'GLC', 'CandidateRidge', 'OracleRidge']
    """
    return {method.__name__: method for method in _METHODS}

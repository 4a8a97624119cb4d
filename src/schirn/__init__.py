"""Partial multi-label learning: train on noisy label sets and find the wrong labels."""

from schirn import datasets, metrics
from schirn.methods import (
    FPML,
    GLC,
    NLR,
    PAKS,
    PARD,
    PMLLRS,
    PMLNI,
    CandidateRidge,
    OracleRidge,
    ParticleMAP,
    ParticleVLS,
    Schirn,
    Sieve,
    methods,
)
from schirn.persist import load, save

__version__ = "0.1.0.dev0"

__all__ = [
    "FPML",
    "GLC",
    "NLR",
    "PAKS",
    "PARD",
    "PMLLRS",
    "PMLNI",
    "CandidateRidge",
    "OracleRidge",
    "ParticleMAP",
    "ParticleVLS",
    "Schirn",
    "Sieve",
    "__version__",
    "datasets",
    "load",
    "methods",
    "metrics",
    "save",
]

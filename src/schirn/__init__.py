"""Partial multi-label learning: train on noisy label sets and find the wrong labels."""

from schirn import datasets, metrics
from schirn.cleaning import CleanThenFit, find_noisy_labels
from schirn.methods import (
    FPML,
    GLC,
    NLR,
    PAKS,
    PARD,
    PMLLENFN,
    PMLLRS,
    PMLMA,
    PMLNI,
    PMLPLR,
    CandidateRidge,
    OracleRidge,
    ParticleMAP,
    ParticleVLS,
    Schirn,
    Sieve,
    methods,
)
from schirn.persist import load, save

__version__ = "0.2.0"

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
    "CleanThenFit",
    "OracleRidge",
    "ParticleMAP",
    "ParticleVLS",
    "Schirn",
    "Sieve",
    "__version__",
    "datasets",
    "find_noisy_labels",
    "load",
    "methods",
    "metrics",
    "save",
]

"""Partial multi-label learning: train on noisy label sets and find the wrong labels."""

from schirn import datasets, metrics
from schirn._plugins import moved_names
from schirn.cleaning import CleanThenFit, find_noisy_labels
from schirn.methods import CandidateRidge, OracleRidge, Schirn, Sieve, methods
from schirn.persist import load, save

__version__ = "0.2.0"

__all__ = [
    "CandidateRidge",
    "CleanThenFit",
    "OracleRidge",
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

__getattr__ = moved_names(__name__)

"""Partial multi-label learning: train on noisy label sets and find the wrong labels."""

from typing import TYPE_CHECKING

from schirn._plugins import lazy_names, moved_names

if TYPE_CHECKING:
    from schirn import datasets, metrics
    from schirn.cleaning import find_noisy_labels
    from schirn.methods import CandidateRidge, OracleRidge, Schirn, Sieve, methods
    from schirn.persist import load, save

__version__ = "0.3.0"

__all__ = [
    "CandidateRidge",
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

# scikit-learn takes seconds to import, so the names are imported when they are used.
_HOMES = {
    **dict.fromkeys(("CandidateRidge", "OracleRidge", "Schirn", "Sieve"), "schirn.methods"),
    "find_noisy_labels": "schirn.cleaning",
    **dict.fromkeys(("load", "save"), "schirn.persist"),
    **{name: f"schirn.{name}" for name in ("datasets", "methods", "metrics")},
    # Rooms that `import schirn` alone makes available.
    **{name: f"schirn.{name}" for name in ("cleaning", "exceptions", "features", "persist")},
    **{name: f"schirn.{name}" for name in ("labels", "linalg", "noise", "scale", "tables")},
}

__getattr__ = moved_names(__name__, lazy_names(__name__, _HOMES))

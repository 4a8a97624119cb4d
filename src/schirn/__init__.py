"""Partial multi-label learning: train on noisy label sets and find the wrong labels."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schirn import datasets, metrics
    from schirn.cleaning import find_noisy_labels
    from schirn.estimators import CandidateRidge, OracleRidge, Schirn, Sieve, methods
    from schirn.persist import load, save

__version__ = "0.4.0"

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

_PACKAGES = (
    *("cleaning", "datasets", "estimators", "exceptions", "features", "labels", "linalg"),
    *("metrics", "model_selection", "noise", "persist", "scale", "solvers"),
)
_HOMES = {
    "CandidateRidge": "schirn.estimators",
    "OracleRidge": "schirn.estimators",
    "Schirn": "schirn.estimators",
    "Sieve": "schirn.estimators",
    "find_noisy_labels": "schirn.cleaning",
    "load": "schirn.persist",
    "methods": "schirn.estimators",
    "save": "schirn.persist",
}


def __getattr__(name: str) -> Any:
    # scikit-learn takes seconds to import, so names are imported when they are used.
    if name in _PACKAGES:
        return import_module(f"schirn.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_PACKAGES})

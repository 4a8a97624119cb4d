"""Data sets: built-in, generated and from files, and noise. Files are read in the lab."""

from typing import Any

from schirn._plugins import from_plugins, moved_names
from schirn.datasets._digits import load_digits_attributes
from schirn.datasets._synthetic import make_partial_multilabel
from schirn.datasets.dataset import Dataset
from schirn.datasets.noise import add_noise

__all__ = [
    "Available",
    "Dataset",
    "add_noise",
    "available",
    "load",
    "load_digits_attributes",
    "make_partial_multilabel",
    "read_arff",
    "read_mat",
    "read_npz",
    "read_svmlight",
    "read_table",
]

_moved = moved_names(__name__)


def __getattr__(name: str) -> Any:
    """Find what reads files in the lab, and names that have moved there."""
    if name in __all__:
        return from_plugins("data", "NAMES")[name]
    return _moved(name)

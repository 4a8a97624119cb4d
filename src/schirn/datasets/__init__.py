"""Data sets: built-in, generated and from files, and noise. Files are read in the lab."""

from typing import Any

from schirn._entry_points import DATASETS, registered
from schirn.datasets._dataset import Dataset
from schirn.datasets._digits import load_digits_attributes
from schirn.datasets._synthetic import make_partial_multilabel
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


def __getattr__(name: str) -> Any:
    """Look up the readers of files, and other names that have moved to the lab."""
    # Readers of files are registered by the lab.
    value = registered(DATASETS).get(name) if name in __all__ else None
    if value is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return value

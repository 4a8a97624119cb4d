"""Data sets: readers, built-in and generated sets, noise, data cards, downloads."""

from schirn.datasets._dataset import Dataset
from schirn.datasets._digits import load_digits_attributes
from schirn.datasets._noise import add_noise
from schirn.datasets._npz import read_npz
from schirn.datasets._registry import available, load

__all__ = [
    "Dataset",
    "add_noise",
    "available",
    "load",
    "load_digits_attributes",
    "read_npz",
]

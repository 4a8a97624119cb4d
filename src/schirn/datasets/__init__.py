"""Readers of data files, built-in and generated data sets, and noise."""

from schirn._plugins import moved_names
from schirn.datasets._arff import read_arff
from schirn.datasets._dataset import Dataset
from schirn.datasets._dataset import label_matrix as label_matrix
from schirn.datasets._digits import load_digits_attributes
from schirn.datasets._mat import read_mat
from schirn.datasets._svmlight import read_svmlight
from schirn.datasets._synthetic import make_partial_multilabel
from schirn.datasets._table import read_table
from schirn.datasets.noise import add_noise
from schirn.datasets.npz import read_npz
from schirn.datasets.registry import Available, available, load

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

__getattr__ = moved_names(__name__)

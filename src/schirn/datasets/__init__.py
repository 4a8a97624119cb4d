"""Readers of data files, built-in and generated data sets, noise, data cards and downloads."""

from schirn.datasets._arff import read_arff
from schirn.datasets._card import MAX_RANK_BYTES, DataCard, data_card
from schirn.datasets._dataset import Dataset
from schirn.datasets._digits import load_digits_attributes
from schirn.datasets._fetch import fetch
from schirn.datasets._mat import read_mat
from schirn.datasets._noise import add_noise
from schirn.datasets._npz import read_npz
from schirn.datasets._prepare import make_cooccurrence, noise_levels, prepare_yeast
from schirn.datasets._registry import Available, available, load
from schirn.datasets._svmlight import read_svmlight
from schirn.datasets._synthetic import make_partial_multilabel
from schirn.datasets.tables import read_table

__all__ = [
    "MAX_RANK_BYTES",
    "Available",
    "DataCard",
    "Dataset",
    "add_noise",
    "available",
    "data_card",
    "fetch",
    "load",
    "load_digits_attributes",
    "make_cooccurrence",
    "make_partial_multilabel",
    "noise_levels",
    "prepare_yeast",
    "read_arff",
    "read_mat",
    "read_npz",
    "read_svmlight",
    "read_table",
]

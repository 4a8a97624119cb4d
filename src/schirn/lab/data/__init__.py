"""Data of published experiments: downloads, data cards, and preparation as in the papers."""

from typing import Any

from schirn.lab.data._card import MAX_RANK_BYTES, data_card
from schirn.lab.data._emoji import EMOJI_SETS as DOWNLOADABLE  # noqa: F401
from schirn.lab.data._fetch import fetch
from schirn.lab.data._prepare import make_cooccurrence, prepare_yeast
from schirn.lab.data.arff import read_arff
from schirn.lab.data.mat import read_mat
from schirn.lab.data.npz import read_npz
from schirn.lab.data.svmlight import read_svmlight
from schirn.lab.data.table import read_table

# Readers that `schirn.datasets` offers.
READERS: dict[str, Any] = {
    reader.__name__: reader for reader in (read_arff, read_mat, read_npz, read_svmlight, read_table)
}

__all__ = [
    "MAX_RANK_BYTES",
    "data_card",
    "fetch",
    "make_cooccurrence",
    "prepare_yeast",
]

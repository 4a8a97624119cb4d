"""Data of published experiments: downloads, data cards, and preparation as in the papers."""

from schirn.lab.data._card import MAX_RANK_BYTES, DataCard, data_card
from schirn.lab.data._fetch import fetch
from schirn.lab.data._prepare import make_cooccurrence, noise_levels, prepare_yeast

__all__ = [
    "MAX_RANK_BYTES",
    "DataCard",
    "data_card",
    "fetch",
    "make_cooccurrence",
    "noise_levels",
    "prepare_yeast",
]

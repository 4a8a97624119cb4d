"""Data of published experiments: downloads, data cards, and preparation as in the papers."""

from typing import Any

from schirn.lab.data._card import MAX_RANK_BYTES, data_card
from schirn.lab.data._fetch import fetch
from schirn.lab.data._prepare import make_cooccurrence, prepare_yeast
from schirn.lab.data._registry import READERS, Available, available, load

# Names that `schirn.datasets` offers.
NAMES: dict[str, Any] = {
    **{"Available": Available, "available": available, "load": load},
    **{reader.__name__: reader for reader in READERS.values()},
}

__all__ = [
    "MAX_RANK_BYTES",
    "data_card",
    "fetch",
    "make_cooccurrence",
    "prepare_yeast",
]

"""Named tuples that the compared methods add to model files."""

from typing import Any

from schirn.lab.rivals import AnchorMap, HalfTheOdds, LabelModel, Network, PairModels

# Named tuples by their names in model files, as in `schirn.persist.RECORDS`.
RECORDS: dict[str, type[Any]] = {
    "AnchorMap": AnchorMap,
    "HalfTheOdds": HalfTheOdds,
    "PARDLabelModel": LabelModel,
    "PARDNetwork": Network,
    "PairModels": PairModels,
}

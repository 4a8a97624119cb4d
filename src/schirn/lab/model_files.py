"""What the compared methods add to model files."""

from typing import Any

from schirn.lab.rivals.particle import HalfTheOdds
from schirn.lab.rivals.solvers.anchors import AnchorMap
from schirn.lab.rivals.solvers.pairwise import PairModels
from schirn.lab.rivals.solvers.pard import LabelModel, Network

# Named tuples by their names in model files, as in `schirn.persist.RECORDS`.
RECORDS: dict[str, type[Any]] = {
    "AnchorMap": AnchorMap,
    "HalfTheOdds": HalfTheOdds,
    "PARDLabelModel": LabelModel,
    "PARDNetwork": Network,
    "PairModels": PairModels,
}

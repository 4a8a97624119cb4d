"""What the compared methods add to model files."""

from typing import Any

from schirn.lab.rivals.particle import HalfTheOdds
from schirn.lab.rivals.solvers.anchors import AnchorMap
from schirn.lab.rivals.solvers.pairwise import PairModels
from schirn.lab.rivals.solvers.pard import LabelModel, Network
from schirn.persist import RECORDS as CORE_RECORDS

# Named tuples and the descriptions of their fields, as in `schirn.persist.RECORDS`.
RECORDS: dict[str, tuple[type[Any], dict[str, str]]] = {
    "AnchorMap": (
        AnchorMap,
        {
            "factor": "float (d)",
            "shift": "float (d)",
            "anchors": "sparse float (m, d)",
            "width": "float 0..",
            "centre": "float (m)",
        },
    ),
    "HalfTheOdds": (HalfTheOdds, CORE_RECORDS["LabelThreshold"].fields),
    "PARDLabelModel": (
        LabelModel,
        {
            "pi": "float 0..1 (l)",
            "rho": "float 0..1 (l)",
            "beta_y": "float 0..",
            "beta_0": "float 0..",
        },
    ),
    "PARDNetwork": (
        Network,
        {"W1": "float (d, h)", "b1": "float (h)", "W2": "float (h, l)", "b2": "float (l)"},
    ),
    "PairModels": (
        PairModels,
        {
            "pairs": "int 0..l (p, 2)",
            "basis": "sparse float? (m, d)",
            "coef": "sparse float (m, p) | (d, p)",
            "intercept": "float (p)",
            "accuracy": "float 0..1 (p)",
            "uncontested": "int 0..l (l+1)",
            "n_capped": "int 0..",
        },
    ),
}

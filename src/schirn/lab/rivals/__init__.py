"""The compared methods, one per file; their algorithms are in `solvers`."""

from schirn.estimators import PartialMultiLabelClassifier
from schirn.lab.rivals._comes import COMES, OracleCOMES
from schirn.lab.rivals._confidence_ranking import PMLFP, PMLLC
from schirn.lab.rivals._fpml import FPML
from schirn.lab.rivals._glc import GLC
from schirn.lab.rivals._muser import MUSER
from schirn.lab.rivals._nlr import NLR
from schirn.lab.rivals._paks import PAKS
from schirn.lab.rivals._pard import PARD
from schirn.lab.rivals._particle import HalfTheOdds as HalfTheOdds
from schirn.lab.rivals._particle import ParticleMAP, ParticleVLS
from schirn.lab.rivals._plain import PLAIN
from schirn.lab.rivals._pmllenfn import PMLLENFN
from schirn.lab.rivals._pmllrs import PMLLRS
from schirn.lab.rivals._pmlma import PMLMA
from schirn.lab.rivals._pmlni import PMLNI
from schirn.lab.rivals._pmlplr import PMLPLR
from schirn.lab.rivals.solvers._anchors import AnchorMap as AnchorMap
from schirn.lab.rivals.solvers._comes import priors_from_answers as priors_from_answers
from schirn.lab.rivals.solvers._pairwise import PairModels as PairModels
from schirn.lab.rivals.solvers._pard import LabelModel as LabelModel
from schirn.lab.rivals.solvers._pard import Network as Network

_CLASSES: tuple[type[PartialMultiLabelClassifier], ...] = (
    *(NLR, FPML, PMLLRS, PMLNI, ParticleMAP, ParticleVLS, PAKS, GLC, PARD),
    *(PMLLENFN, PMLPLR, PMLMA, PMLLC, PMLFP, COMES, OracleCOMES, MUSER, PLAIN),
)
METHODS = {cls.__name__: cls for cls in _CLASSES}
"""The compared methods by name, in the order of lists."""

"""The compared methods, one per file; their algorithms are in `solvers`."""

from schirn.lab.rivals.comes import COMES, OracleCOMES
from schirn.lab.rivals.confidence_ranking import PMLFP, PMLLC
from schirn.lab.rivals.fpml import FPML
from schirn.lab.rivals.glc import GLC
from schirn.lab.rivals.muser import MUSER
from schirn.lab.rivals.nlr import NLR
from schirn.lab.rivals.paks import PAKS
from schirn.lab.rivals.pard import PARD
from schirn.lab.rivals.particle import ParticleMAP, ParticleVLS
from schirn.lab.rivals.pmllenfn import PMLLENFN
from schirn.lab.rivals.pmllrs import PMLLRS
from schirn.lab.rivals.pmlma import PMLMA
from schirn.lab.rivals.pmlni import PMLNI
from schirn.lab.rivals.pmlplr import PMLPLR
from schirn.lab.rivals.solvers.comes import priors_from_answers as priors_from_answers
from schirn.methods import PartialMultiLabelClassifier

_CLASSES: tuple[type[PartialMultiLabelClassifier], ...] = (
    *(NLR, FPML, PMLLRS, PMLNI, ParticleMAP, ParticleVLS, PAKS, GLC, PARD),
    *(PMLLENFN, PMLPLR, PMLMA, PMLLC, PMLFP, COMES, OracleCOMES, MUSER),
)
METHODS = {cls.__name__: cls for cls in _CLASSES}
"""The compared methods by name, in the order of lists."""

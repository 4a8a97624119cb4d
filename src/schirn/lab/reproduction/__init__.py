"""Rerun of the experiments of the Schirn paper.

`experiments` lists what the paper ran; `plan` selects what can run here; `studies` and `ablations`
are the studies besides the tables; `run` executes the plan, and `page` and `findings` write it up.
"""

from schirn.lab.reproduction._experiments import FULL as FULL
from schirn.lab.reproduction._experiments import METHODS as METHODS
from schirn.lab.reproduction._experiments import QUICK as QUICK
from schirn.lab.reproduction._plan import STUDIES as STUDIES
from schirn.lab.reproduction._plan import Plan as Plan
from schirn.lab.reproduction._plan import make_plan
from schirn.lab.reproduction._run import reproduce

__all__ = ["make_plan", "reproduce"]

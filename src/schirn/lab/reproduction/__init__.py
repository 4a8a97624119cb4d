"""Rerun of the experiments of the Schirn paper.

`experiments` lists what the paper ran; `plan` selects what can run here; `studies` and `ablations`
are the studies besides the tables; `run` executes the plan, and `page` and `findings` write it up.
"""

from schirn.lab.reproduction.plan import make_plan
from schirn.lab.reproduction.run import reproduce

__all__ = ["make_plan", "reproduce"]

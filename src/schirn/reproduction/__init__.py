"""The experiments of the Schirn paper, rerun."""

from schirn.reproduction.plan import make_plan
from schirn.reproduction.run import reproduce

__all__ = ["make_plan", "reproduce"]

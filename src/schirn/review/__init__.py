"""A page on this machine to decide doubtful tags; see `schirn review`."""

from schirn.review._journal import Journal
from schirn.review._open import open_session
from schirn.review._order import review_order
from schirn.review._project import Project, read_project
from schirn.review._serve import serve
from schirn.review._session import Conflict, Session

__all__ = [
    "Conflict",
    "Journal",
    "Project",
    "Session",
    "open_session",
    "read_project",
    "review_order",
    "serve",
]

"""A local web page on which a person decides about doubtful tags; see `schirn review`."""

from schirn.app.review._begin import begin_review
from schirn.app.review._project import checksum as checksum
from schirn.app.review._project import was_made_by as was_made_by
from schirn.app.review._project import write_project as write_project
from schirn.app.review._serve import serve
from schirn.app.review._session import CERTIFY as CERTIFY
from schirn.app.review._session import FIRST as FIRST
from schirn.app.review._session import Session as Session
from schirn.app.review._session import open_session
from schirn.app.review._table import TableRoles as TableRoles

__all__ = ["begin_review", "open_session", "serve"]

"""A local web page on which a person decides doubtful tags; see `schirn review`."""

from schirn.review._serve import serve
from schirn.review.session import open_session

__all__ = ["open_session", "serve"]

"""Reports as HTML pages."""

from schirn.app.report._clean import CleanReport
from schirn.app.report._demo_page import demo_page

__all__ = ["CleanReport", "demo_page"]

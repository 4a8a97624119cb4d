"""Pages for people to look at."""

from schirn.report.clean import CleanReport
from schirn.report.demo_page import demo_page

__all__ = ["CleanReport", "demo_page"]

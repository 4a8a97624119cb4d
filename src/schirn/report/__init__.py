"""Pages for people to look at."""

from schirn.report.demo_page import demo_page

__all__ = ["demo_page"]

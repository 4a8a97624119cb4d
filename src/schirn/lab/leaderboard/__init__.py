"""Results of others: `submission` checks them, and `pages` makes static pages of them."""

from schirn.lab.leaderboard.pages import build_leaderboard
from schirn.lab.leaderboard.submission import Check, check_results

__all__ = ["Check", "build_leaderboard", "check_results"]

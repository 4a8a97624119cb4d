"""Results of others: `packing` and `submission` send and check them, `pages` shows them."""

from schirn.lab.leaderboard.packing import pack_results
from schirn.lab.leaderboard.pages import build_leaderboard
from schirn.lab.leaderboard.submission import Check, check_results

__all__ = ["Check", "build_leaderboard", "check_results", "pack_results"]

"""Results of others: `packing` and `submission` send and check them, `pages` shows them."""

from schirn.lab.leaderboard._packing import pack_results
from schirn.lab.leaderboard._pages import Board as Board
from schirn.lab.leaderboard._pages import Place as Place
from schirn.lab.leaderboard._pages import build_leaderboard
from schirn.lab.leaderboard._pages import make_board as make_board
from schirn.lab.leaderboard._pages import read_results as read_results
from schirn.lab.leaderboard._submission import TOLERANCE as TOLERANCE
from schirn.lab.leaderboard._submission import Check, check_results

__all__ = ["Check", "build_leaderboard", "check_results", "pack_results"]

"""Results of a suite: pack, check and show them, and continue where they end.

`update_leaderboard` runs a suite and packs its results, `check_results` verifies files of others,
and `build_leaderboard` writes the page that compares methods setting by setting.
"""

from schirn.lab.leaderboard._evidence import TOLERANCE as TOLERANCE
from schirn.lab.leaderboard._packing import pack_results
from schirn.lab.leaderboard._pages import Board as Board
from schirn.lab.leaderboard._pages import Place as Place
from schirn.lab.leaderboard._pages import build_leaderboard
from schirn.lab.leaderboard._pages import make_board as make_board
from schirn.lab.leaderboard._pages import read_results as read_results
from schirn.lab.leaderboard._standing import Progress
from schirn.lab.leaderboard._standing import Standing as Standing
from schirn.lab.leaderboard._submission import Check, check_results
from schirn.lab.leaderboard._update import Update, update_leaderboard

__all__ = [
    "Check",
    "Progress",
    "Update",
    "build_leaderboard",
    "check_results",
    "pack_results",
    "update_leaderboard",
]

"""Commands of the program that compare methods, one per file."""

import schirn.lab.cli.bench as bench
import schirn.lab.cli.data as data
import schirn.lab.cli.leaderboard as leaderboard
import schirn.lab.cli.methods as methods
import schirn.lab.cli.reproduce as reproduce

COMMANDS = {
    "bench": bench,
    "leaderboard": leaderboard,
    "reproduce": reproduce,
    "methods": methods,
    "data": data,
}

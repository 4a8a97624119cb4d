"""Commands of the program that compare methods, one per file."""

_SUMMARIES = {
    "bench": "compare methods on data sets",
    "leaderboard": "check result files and build a leaderboard of methods",
    "reproduce": "rerun the published experiments",
    "methods": "list the methods, or show the parameters of one",
    "data": "list, describe or download data sets",
}
COMMANDS = {name: (summary, f"schirn.lab.cli._{name}") for name, summary in _SUMMARIES.items()}
"""Summary and module of each command."""

"""Commands of the program that compare methods, one per file."""

COMMANDS: dict[str, tuple[str, ...]] = {
    "bench": ("compare methods on data sets", "schirn.lab.cli._bench"),
    "leaderboard": (
        "check result files and build a leaderboard of methods",
        "schirn.lab.cli._leaderboard",
    ),
    "reproduce": ("rerun the published experiments", "schirn.lab.cli._reproduce"),
    "methods": ("list the methods, or show the parameters of one", "schirn.lab.cli._methods"),
    "data": ("list, describe or download data sets", "schirn.lab.cli._data", "list"),
}
"""Summary and module of each command, and the command below it that runs if none is named."""

"""`schirn undo`: revert a list of changes in a copy of a table."""

import argparse

from schirn.app.cli._apply import OPTIONS as OPTIONS
from schirn.app.cli._apply import change_table


def run(args: argparse.Namespace) -> int:
    """Restore the tags as they were before schirn apply, in a copy of the table.

    If the tags of a changed row differ from what schirn apply wrote, nothing is written. Without
    --output, the changes are only checked.

    Examples
    --------
    schirn undo changes.csv cleaned.csv -o restored.csv
    """
    return change_table(args, forward=False)

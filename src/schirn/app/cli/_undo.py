"""`schirn undo`: revert a list of changes in a copy of a table."""

import argparse

from schirn.app.cli._apply import OPTIONS as APPLY_OPTIONS
from schirn.app.cli._apply import change_table, keep_undone
from schirn.app.tables import read_changes
from schirn.exceptions import InputError
from schirn.program.output import note, number

OPTIONS = f"""
{APPLY_OPTIONS}
[later updates]
--keep FILE  add to this .jsonl file of decisions that the removed tags are right and the added ones
    wrong; without it, the next schirn update makes the same changes again
--name NAME  name of the person who decided, stored with the decisions
"""


def run(args: argparse.Namespace) -> int:
    """Restore the tags as they were before schirn apply, in a copy of the table.

    If the tags of a changed row differ from what schirn apply wrote, nothing is written. Without
    --output, or --commit for a database, the changes are only checked.

    Examples
    --------
    schirn undo changes.csv cleaned.csv -o restored.csv
    schirn undo changes.csv sqlite:shop.db --write-back items.tags --commit --keep decisions.jsonl
    """
    if args.keep is None:
        return change_table(args, forward=False)
    if not args.keep.endswith(".jsonl"):
        raise InputError(f"{args.keep}: the name of the decisions must end in .jsonl")
    if args.partial or not (args.output or args.commit):
        raise InputError(
            "--keep needs a list that is undone completely; add --output or --commit, and omit "
            "--partial",
            parameter="keep",
        )
    changes = read_changes(args.changes)
    if len(changes) and not changes.id_column:
        raise InputError(
            f"{args.changes}: decisions are kept by row id, but the list was made without --id",
            parameter="keep",
        )
    code = change_table(args, forward=False)
    n = keep_undone(args.keep, args.name or "", changes)
    note(f"added {number(n, 'decision')} to {args.keep}")
    return code

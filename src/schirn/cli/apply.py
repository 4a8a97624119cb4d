"""`schirn apply`: make the changes of a list in a copy of a table."""

import argparse
from typing import Any

from schirn.cleaning import ChangeList
from schirn.cli.output import facts, note, print_json
from schirn.cli.parser import add_command
from schirn.cli.reading import TEXT_FORMAT, check_copy, check_not_input
from schirn.exceptions import InputError
from schirn.tables.files import open_table

_EXAMPLES = """
schirn apply changes.csv items.csv
schirn apply changes.csv items.csv -o cleaned.csv
"""
# `schirn undo` has the same options.
OPTIONS = f"""
changes CHANGES  list of changes, .csv or .jsonl
data TABLE  table; it is never changed
-o, --output FILE  write the copy, in the same format
[how to read the table]
{TEXT_FORMAT}
"""


def add(found: Any) -> None:
    """Add the command."""
    parser = add_command(
        found,
        "apply",
        run,
        help="make the changes of a list in a copy of a table",
        description="Make the changes that schirn clean --changes has listed, in a copy of the "
        "table. You may first delete lines of CHANGES or edit their column 'after'. If the tags of "
        "a changed row are not what the list says, nothing is written. All other cells stay as "
        "they are. Without --output, the changes are only checked.",
        examples=_EXAMPLES,
        options=OPTIONS,
    )
    parser.set_defaults(forward=True)


def run(args: argparse.Namespace) -> None:
    """Check the list against the table, and write the copy; `schirn undo` does too."""
    if args.output:
        check_copy(args.data, args.output)
        check_not_input(args.output, args.changes)
    changes = ChangeList.read(args.changes)
    table = open_table(args.data, encoding=args.encoding, delimiter=args.delimiter)
    new, name = {}, changes.column
    same_table = True
    if len(changes):
        if name not in table.columns:
            raise InputError(
                f"{args.data}: there is no column {name!r}, which {args.changes} is about"
            )
        cells = table.column(name)
        exchange = changes.apply if args.forward else changes.undo
        try:
            new[name] = exchange(cells, spreadsheet=not table.lists)
        except InputError as error:
            raise InputError(f"{args.data}: {error}") from None
        same_table = changes.fits(cells if args.forward else new[name])
    if args.output:
        table.write(args.output, new, {})
    _print(args, changes, same_table)


def _print(args: argparse.Namespace, changes: ChangeList, same_table: bool) -> None:
    counts = changes.counts()
    if args.json:
        summary = {"n_changes": len(changes), **{f"{kind}s": n for kind, n in counts.items()}}
        summary |= {"rows_changed": len(changes.cells), "same_table": same_table}
        print_json({"list": args.changes, "data": args.data, **summary, "output": args.output})
        return
    kinds = [f"{n:,} {kind}{'' if n == 1 else 's'}" for kind, n in counts.items() if n]
    done = "applied" if args.forward else "undone"
    facts(
        [
            ("table", args.data),
            (done if args.output else "checked", ", ".join(kinds) or "no changes"),
            ("rows changed", f"{len(changes.cells):,}"),
        ]
    )
    if not same_table:
        note(
            "note: the tags of other rows are not those for which the changes were listed; the "
            "changed rows are"
        )
    if args.output:
        note(f"wrote the output to {args.output}")
    else:
        note("all changed rows are as expected; nothing is written without --output")

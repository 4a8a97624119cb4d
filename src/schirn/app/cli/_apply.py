"""`schirn apply`: apply a list of changes to a copy of a table."""

import argparse
from typing import Any

from schirn._files import brief
from schirn.app.cli._reading import check_outputs
from schirn.app.tables import (
    foreign_separators,
    is_database,
    open_table,
    read_changes,
    row_keys,
    with_tag_column,
    write_back,
    write_copy,
)
from schirn.app.workflow import RIGHT, WRONG, Decision, Decisions
from schirn.cleaning import ChangeList
from schirn.exceptions import InputError
from schirn.program.data import TEXT_FORMAT
from schirn.program.output import facts, note, number, print_json

# The exit code if --partial has skipped rows.
CONFLICTS = 3
# `schirn undo` has the same options, and more.
OPTIONS = f"""
changes CHANGES  list of changes, .csv
data TABLE  table; a file is never changed, and a database only with --commit
-o, --output FILE  write the copy, in the format given by its suffix
--partial  skip rows of a file that differ from the list instead of stopping, with exit code 3
--write-back COLUMN  table and column of tags in a database, such as items.tags; TABLE is then
    duckdb:FILE, sqlite:FILE or postgresql://HOST/NAME, and the changes are checked in a transaction
    that is rolled back
--commit  with --write-back, write the changes
[how to read the table]
{TEXT_FORMAT}
"""


def run(args: argparse.Namespace) -> int:
    """Apply the changes listed by schirn clean --changes to a copy of the table.

    You may first delete lines of CHANGES or edit their column 'after'. Rows are found by their id,
    or else by their other cells, so rows may have been added, deleted or moved. If the tags of a
    row differ from the list, an error names the row and nothing is written. All other cells stay
    unchanged. Without --output, the changes are only checked.

    Examples
    --------
    schirn apply changes.csv items.csv
    schirn apply changes.csv items.csv -o cleaned.csv
    schirn apply changes.csv duckdb:shop.db --write-back items.tags --commit
    """
    return change_table(args, forward=True)


def keep_undone(path: str, who: str, changes: ChangeList) -> int:
    """Store undone changes as a person's answers; return the number of new ones.

    Parameters
    ----------
    path : str
        File of decisions.
    who : str
        Name of the person.
    changes : ChangeList
    """
    decisions = []
    for change in changes:
        if change.change in ("removal", "addition"):
            tag, answer = (change.before, RIGHT) if change.before else (change.after, WRONG)
            decisions.append(Decision(changes.keys[change.row], tag, answer, who))
    return Decisions(path).add(decisions)


def change_table(args: argparse.Namespace, forward: bool) -> int:
    """Check the list against the table, and write the copy; forward=False reverts the changes."""
    if is_database(args.data):
        return _change_database(args, forward)
    if args.write_back or args.commit:
        raise InputError(
            f"{args.data}: only a database such as duckdb:shop.db can be written back",
            parameter="write_back",
        )
    check_outputs({"copy": args.output}, [args.data, args.changes])
    changes = read_changes(args.changes)
    table = open_table(args.data, encoding=args.encoding, delimiter=args.delimiter)
    new = {}
    raw = {}
    n_rows = 0
    name = changes.column
    conflicts = list[str]()
    if len(changes):
        table = with_tag_column(table, name)
        for needed in filter(None, (name, changes.id_column)):
            if needed not in table.columns:
                raise InputError(
                    f"{args.data}: there is no column {needed!r}, which {args.changes} names"
                )
        cells = table.column(name)
        exchange = changes.apply if forward else changes.undo
        keys = row_keys(table, name, changes.id_column) if changes.keys else None
        about = table.cell_options(name)
        skipped = conflicts if args.partial else None
        try:
            new[name] = exchange(cells, keys=keys, conflicts=skipped, **about)
        except InputError as error:
            raise InputError(f"{args.data}: {error}", parameter="partial") from None
        pairs = zip(cells, new[name], strict=True)
        n_rows = sum(old is not cell and repr(old) != repr(cell) for old, cell in pairs)
        if forward:
            _warn_of_separators(changes, cells, about)
        if not forward:
            raw[name] = changes.raw_places(len(cells), keys)
    for conflict in conflicts:
        note(f"{args.data}: {conflict}", error=True)
    if args.output:
        write_copy(args.output, table, new, {}, separator=changes.separator, raw=raw)
    verb = "listed" if conflicts else "applied" if forward else "undone"
    _print(args, changes, len(conflicts), n_rows, verb)
    return CONFLICTS if conflicts else 0


def _warn_of_separators(changes: ChangeList, cells: list[Any], about: dict[str, Any]) -> None:
    """Warn of a new tag that holds another separator, as an edited list may."""
    foreign = foreign_separators(changes, cells, **about)
    if foreign:
        row, tag, mark = foreign[0]
        others_text = (
            f", and {number(len(foreign) - 1, 'more such tag')}" if len(foreign) > 1 else ""
        )
        note(
            f"note: row {row + 1} gets the new tag {brief(tag)}, which contains {mark!r}, but the "
            f"separator of the list is {changes.separator!r}{others_text}",
            error=True,
        )


def _change_database(args: argparse.Namespace, forward: bool) -> int:
    """Check the list against a database; with --commit, apply or revert the changes."""
    if args.output or args.partial or not args.write_back:
        raise InputError(
            f"{args.data}: a database needs --write-back TABLE.COLUMN, and does not support "
            f"--output or --partial"
        )
    changes = read_changes(args.changes)
    target = args.write_back
    written = write_back(args.data, target, changes, undo=not forward, commit=args.commit)
    if args.json:
        document = {"list": args.changes, "data": args.data, "n_changes": len(changes)}
        document |= {"rows_changed": written.n_rows, "committed": written.is_committed}
        document["already_done"] = written.is_done
        print_json(document)
        return 0
    verb = "applied" if forward else "undone"
    did = f"already {verb}" if written.is_done else verb if written.is_committed else "checked"
    facts(
        {
            "database": args.data,
            did: number(len(changes), "change"),
            "rows changed": f"{written.n_rows:,}",
        }
    )
    if written.is_done:
        note("all rows of the list already hold these tags; there is nothing to write")
    elif not written.is_committed:
        note("all changed rows are as expected; nothing is written without --commit")
    return 0


def _print(
    args: argparse.Namespace, changes: ChangeList, n_conflicts: int, n_rows: int, verb: str
) -> None:
    counts = changes.counts()
    if args.json:
        summary = {
            "n_changes": sum(counts.values()),
            **{f"{kind}s": n for kind, n in counts.items()},
        }
        summary |= {"rows_changed": n_rows, "conflicts": n_conflicts}
        print_json({"list": args.changes, "data": args.data, **summary, "output": args.output})
        return
    kinds = ", ".join(number(n, kind) for kind, n in counts.items() if n)
    facts(
        {
            "table": args.data,
            verb if args.output else "checked": kinds or "no changes",
            "rows changed": f"{n_rows:,}",
            "not changed": f"{n_conflicts:,}" if n_conflicts else "",
        }
    )
    if args.output:
        note(f"wrote the output to {args.output}")
    elif not n_conflicts:
        note("all changed rows are as expected; nothing is written without --output")

"""`schirn certificate`: check what an audit certified."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from schirn._files import spreadsheet_safe
from schirn.cleaning import Certificate, read_merges
from schirn.cleaning.audit import TAGS, tags_digest
from schirn.cleaning.columns import TagTable
from schirn.cli.output import facts, print_json, say
from schirn.cli.parser import add_command
from schirn.cli.reading import MERGE, TEXT_FORMAT
from schirn.exceptions import InputError
from schirn.labels.tags import read_tags, split_tags
from schirn.tables.files import open_table

_EXAMPLES = """
schirn certificate check cleaned.csv.certificate.json
schirn certificate check cleaned.csv.certificate.json items.csv
"""
_OPTIONS = f"""
certificate FILE  certificate (.json)
--labels COLUMN  column of tags
--separator TEXT:separator = ;  text between tags
{MERGE}
{TEXT_FORMAT}
"""
_MAX_BYTES = 100_000


def add(found: Any) -> None:
    """Add the command and the one below it."""
    parser = add_command(
        found,
        "certificate",
        None,
        help="check the certificate of an audit",
        examples=_EXAMPLES,
        json=False,
    )
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    check = add_command(
        below,
        "check",
        run,
        help="compute the bound again and compare the tags with those of a table",
        description="Check a certificate that schirn clean --audit or schirn review --audit wrote: "
        "compute its bound again from its numbers, and compare its hash with the tags of TABLE, "
        "the table that was cleaned or its cleaned copy. Exit code 0: the certificate holds; 1: it "
        "does not; 2: a file cannot be read.",
        examples=_EXAMPLES,
        options=_OPTIONS,
    )
    check.add_argument("table", metavar="TABLE", nargs="?", help="table that it is about")


def run(args: argparse.Namespace) -> int:
    """Check a certificate; return 1 if it does not hold."""
    path = Path(args.certificate)
    if path.stat().st_size > _MAX_BYTES:
        raise InputError(f"{path}: too large for a certificate")
    try:
        certificate = Certificate.from_json(path.read_text("utf-8"))
    except (InputError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a certificate ({error})") from None
    problem = None
    try:
        certificate.verify()
    except InputError as error:
        problem = str(error)
    if problem is None and args.table and _digest(args) != certificate.table_sha256:
        problem = f"{args.table} does not hold the tags that the certificate is about"
    if args.json:
        print_json({"valid": problem is None, "problem": problem, **asdict(certificate)})
    elif problem is not None:
        say(f"Not valid: {problem}.")
    else:
        facts(_lines(args, certificate))
    return int(problem is not None)


def _digest(args: argparse.Namespace) -> str:
    """Hash of the tags of the table; the changes of a cleaned copy are undone."""
    opened = open_table(args.table, encoding=args.encoding, delimiter=args.delimiter)
    roles = {"labels": args.labels, "separator": args.separator}
    source = TagTable(opened, args.table, **roles)
    is_copy = f"{source.labels}_removed" in opened.columns
    # The tags of a copy are merged already.
    if args.merge and not is_copy:
        source = TagTable(opened, args.table, **roles, merge=read_merges(args.merge))
    rows = source.tags()
    if is_copy:

        def tags_of(column: str) -> list[list[str]]:
            cells = opened.column(column) if column in opened.columns else [None] * len(rows)
            return [split_tags(_as_typed(cell), args.separator) for cell in cells]

        names = (source.labels, f"{source.labels}_removed", f"{source.labels}_added")
        rows = [
            [*(tag for tag in tags if tag not in added), *removed]
            for tags, removed, added in zip(*map(tags_of, names), strict=True)
        ]
    table = read_tags(rows, None)
    return tags_digest(table.n_rows, table.names, table.row, table.column)


def _as_typed(cell: Any) -> Any:
    """Return a cell without the apostrophe that keeps a spreadsheet from running it."""
    is_safe = isinstance(cell, str) and cell[:1] == "'" and spreadsheet_safe(cell[1:]) == cell
    return cell[1:] if is_safe else cell


def _lines(args: argparse.Namespace, certificate: Certificate) -> list[tuple[str, str]]:
    untold = f"; {certificate.n_untold:,} could not be told" if certificate.n_untold else ""
    counted = "wrong" if certificate.of == TAGS else "correct"
    table = f"the tags of {args.table}" if args.table else "not compared; give the table as well"
    return [
        ("valid", str(certificate)),
        ("bound", certificate.method),
        (
            "answers",
            f"{certificate.n_answers:,} on tags drawn at random, "
            f"{certificate.n_wrong:,} of them {counted}{untold}",
        ),
        ("date", certificate.date),
        ("table", table),
    ]

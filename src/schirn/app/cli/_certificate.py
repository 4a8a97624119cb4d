"""`schirn certificate`: check what answers certify."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from schirn._files import brief
from schirn._text import read_text
from schirn.app.cli._reading import VOCABULARY, vocabulary_roles
from schirn.app.tables import open_table
from schirn.app.workflow import TagTable
from schirn.cleaning import Certificate
from schirn.cleaning.certificate import tags_digest
from schirn.exceptions import InputError
from schirn.labels.tags import read_tags
from schirn.program.data import TEXT_FORMAT
from schirn.program.output import facts, print_json, say

_OPTIONS = f"""
certificate FILE  certificate (.json)
table COPY  cleaned copy of the table
--original TABLE  the table before cleaning; needed if COPY has no column of removed tags
--labels COLUMN  column of tags
--separator TEXT:separator = ;  text between tags
{VOCABULARY}
{TEXT_FORMAT}
"""
_MAX_BYTES = 50_000_000
# The exit code if a certificate is not verified.
NOT_VERIFIED = 3


def run(args: argparse.Namespace) -> int:
    """Check a certificate that schirn clean or schirn review wrote.

    The check recomputes the e-value from the answers and compares the certificate with COPY: the
    table and the removals must be the same, and the answers in the order of drawing. Checksums
    detect mistakes, not invented answers. Exit code 0: verified; 3: not verified; 2: a file cannot
    be read.

    Examples
    --------
    schirn certificate check cleaned.csv.certificate.json cleaned.csv
    schirn certificate check cleaned.csv.certificate.json cleaned.csv --original items.csv
    """
    content = read_text(Path(args.certificate), _MAX_BYTES)
    certificate = None
    problem = None
    try:
        certificate = Certificate.from_json(content)
        original, removed, added = _changes(args, certificate)
        _check_lines(args, certificate, len(original), _tags(removed), _tags(added))
        table = read_tags(original, None)
        digest = tags_digest(table.n_rows, table.names, table.row, table.column)
        certificate.verify(digest, _tags(original), _tags(removed), _tags(added))
    except InputError as error:
        problem = str(error)
    if args.json:
        document = {} if certificate is None else certificate.to_dict()
        print_json({"verified": problem is None, "problem": problem, **document})
    elif problem is not None:
        say(f"Not verified: {problem}.")
    elif certificate is not None:
        facts(_lines(args, certificate))
    return NOT_VERIFIED if problem is not None else 0


def _changes(
    args: argparse.Namespace, certificate: Certificate
) -> tuple[list[list[str]], list[list[str]], list[list[str]]]:
    """Return the tags of each row before the changes, and the removed and added tags."""
    roles = {"labels": args.labels, "separator": args.separator}
    reading = {"encoding": args.encoding, "delimiter": args.delimiter}
    source = TagTable(open_table(args.table, **reading), args.table, **roles)
    table = source.table
    prefix = source.table.prefix(source.labels)

    def cells(column: str) -> list[list[str]]:
        values = table.column(column) if column in table.columns else [None] * table.n_rows
        return [list(dict.fromkeys(source.tag_cells.split(value))) for value in values]

    copy = cells(source.labels)
    if args.original:
        original = open_table(args.original, **reading)
        old_tags = TagTable(original, args.original, **roles, **vocabulary_roles(args)).tags()
        if len(old_tags) != len(copy):
            raise InputError(f"{args.original} has {len(old_tags):,} rows, not {len(copy):,}")
        pairs = list(zip(old_tags, copy, strict=True))
        removed = [[tag for tag in old if tag not in new] for old, new in pairs]
        return old_tags, removed, [[tag for tag in new if tag not in old] for old, new in pairs]
    if f"{prefix}_removed" in table.columns:
        removed = cells(f"{prefix}_removed")
        added = cells(f"{prefix}_added")
    elif certificate.changes:
        removed = [[] for _ in copy]
        added = [[] for _ in copy]
        _check_rows(args, certificate.changes, len(copy))
        for (row, tag), is_added in certificate.changes.items():
            (added if is_added else removed)[row].append(tag)
    else:
        raise InputError(
            f"{args.table} has no column of removed tags, so the removals cannot be compared; pass "
            f"the table before cleaning as --original, and the --vocabulary if there was one"
        )
    for i, (tags, old, new) in enumerate(zip(copy, removed, added, strict=True), start=1):
        unchanged = [tag for tag in old if tag in tags] + [tag for tag in new if tag not in tags]
        if unchanged:
            raise InputError(f"{brief(unchanged[0])} of row {i:,} is not changed in {args.table}")
    old_tags = [
        [*(tag for tag in tags if tag not in new), *old]
        for tags, old, new in zip(copy, removed, added, strict=True)
    ]
    return old_tags, removed, added


def _check_lines(
    args: argparse.Namespace,
    certificate: Certificate,
    n_rows: int,
    removed: list[tuple[int, str]],
    added: list[tuple[int, str]],
) -> None:
    """Raise InputError if the certificate lists rows or changes that the copy does not have."""
    _check_rows(args, [*certificate.answers, *certificate.earlier], n_rows)
    changes = {**dict.fromkeys(removed, False), **dict.fromkeys(added, True)}
    if certificate.changes and certificate.changes != changes:
        raise InputError(f"the certificate lists other changes than those of {args.table}")


def _check_rows(args: argparse.Namespace, tags: Iterable[tuple[int, str]], n_rows: int) -> None:
    """Raise InputError for a tag of a row that the copy does not have."""
    last = max((row for row, _ in tags), default=-1)
    if last >= n_rows:
        raise InputError(f"{args.table} has {n_rows:,} rows, but no row {last + 1:,}")


def _tags(rows: list[list[str]]) -> list[tuple[int, str]]:
    return [(i, tag) for i, tags in enumerate(rows) for tag in tags]


def _lines(args: argparse.Namespace, certificate: Certificate) -> dict[str, Any]:
    method = brief(certificate.options.get("method"))
    return {
        "verified": certificate,
        "evidence": f"e-value {certificate.e_value:.3g}, needed {certificate.needed:.3g}",
        "draw": f"number {certificate.draw}, {len(certificate.answers):,} answers",
        "table": f"the tags and changes of {args.table}",
        "not checked": f"ranked by {method}, begun on {certificate.date}",
    }


COMMANDS = {"check": ("compare a certificate with a cleaned table", run, _OPTIONS)}

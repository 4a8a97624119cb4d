"""`schirn review`: decide doubtful tags in the browser."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from schirn._files import check_writable
from schirn.cli.output import note, printable, say
from schirn.cli.parser import add_command
from schirn.exceptions import InputError
from schirn.report.records import csv_lines, json_lines, write_lines
from schirn.review.session import CERTIFICATE_FILE
from schirn.tables.changes import SUFFIXES

_EXAMPLES = """
schirn review photos-review
schirn review photos-review --port 8000 --no-browser
schirn review photos-review --audit 50
schirn review photos-review --export cleaned.csv
schirn review photos-review --changes changes.csv --decisions decisions.csv
"""
_OPTIONS = """
folder DIR  project folder
--port N:port = 0  port of the page (default: a free one)
--no-browser  print the address without opening a browser
--retrain-every N:natural = 20  retrain after every N decisions (default: 20; 0: never)
--audit N:positive  first ask about N tags drawn at random; the answers certify the removals
--name NAME  name of the person who decides (default: the page asks)
--image-root DIR  folder of the image files, if it has moved
[write files instead of opening the page]
--export FILE  the whole table with the final tags, in the format of the table
--decisions FILE  tags kept, removed, checked and added, and notes, as .csv or .jsonl
--changes FILE  a .csv or .jsonl list of changes for schirn apply
"""
_FORMATS = {".csv": csv_lines, ".jsonl": json_lines}


def add(found: Any) -> None:
    """Add the command."""
    add_command(
        found,
        "review",
        run,
        help="decide doubtful tags in the browser",
        description="Decide doubtful and suggested tags by keyboard, most informative first, on a "
        "page that only this machine can open; search, decide all doubtful tags of one kind at "
        "once, add and rename tags, and compare the decisions of several people. schirn clean "
        "--project writes the folder DIR. Every decision is saved immediately in "
        "DIR/journal.jsonl; stop with Ctrl-C and continue whenever you like.",
        examples=_EXAMPLES,
        json=False,
        options=_OPTIONS,
    )


def run(args: argparse.Namespace) -> None:
    """Serve the page, or write the final tags."""
    if args.export or args.decisions or args.changes:
        if args.audit is not None:
            raise InputError("give only one of --audit and --export")
        _write(args)
        return
    from schirn.review import serve

    decided = serve(
        args.folder,
        port=args.port,
        browser=not args.no_browser,
        retrain_every=args.retrain_every,
        audit=args.audit,
        name=args.name or "",
        image_root=args.image_root,
        ready=lambda address: _announce(args.folder, address, args.audit),
    )
    tags = "1 tag" if decided == 1 else f"{decided:,} tags"
    note(f"stopped; the decisions on {tags} are in {Path(args.folder, 'journal.jsonl')}")
    certificate = Path(args.folder, CERTIFICATE_FILE)
    if certificate.is_file():
        note(f"the certificate of the audit is in {certificate}")


def _announce(folder: str, address: str, audit: int | None) -> None:
    say(f"Review page: {address}")
    journal = printable(str(Path(folder, "journal.jsonl")))
    say(f"Decisions are saved in {journal}. Press Ctrl-C to stop.")
    if audit is not None:
        say("The page first asks about tags drawn at random, which certify the removals.")
    sys.stdout.flush()


def _write(args: argparse.Namespace) -> None:
    """Write the table, the decisions and the changes, after checking all paths."""
    from schirn.review import open_session

    for path, kinds in ((args.decisions, _FORMATS), (args.changes, SUFFIXES)):
        if path and Path(path).suffix.lower() not in kinds:
            raise InputError(f"{path}: the file name must end in {' or '.join(kinds)}")
    outputs = [path for path in (args.export, args.decisions, args.changes) if path]
    if len({os.path.realpath(path) for path in outputs}) < len(outputs):
        raise InputError(f"{outputs[-1]}: is given twice")
    for path in outputs:
        check_writable(path)
    session = open_session(args.folder, write=False)
    table, decisions = session.table, args.decisions
    if args.export and table is None:
        # A project of version 1 knows tags and texts only.
        if Path(args.export).suffix.lower() not in _FORMATS:
            raise InputError(f"{args.export}: the file name must end in {' or '.join(_FORMATS)}")
        note("note: this project keeps no other columns; create it again to export them all")
        write_lines(_FORMATS[Path(args.export).suffix.lower()](session.final_tags()), args.export)
    elif args.export and table is not None:
        suffix = table.path.name.removeprefix("table")
        if not args.export.lower().endswith(suffix):
            raise InputError(
                f"{args.export}: the table of this project is {suffix}, so the file name must end "
                f"in that; --decisions writes .csv and .jsonl"
            )
        session.write_table(args.export)
    if decisions:
        write_lines(_FORMATS[Path(decisions).suffix.lower()](session.final_tags()), decisions)
    if args.changes:
        session.changes().write(args.changes)
    view = session.view()
    decided, items = view["progress"]["decided"], len(session.project.items)
    note(f"wrote {items:,} items to {outputs[0]}; {decided:,} tags decided by hand")
    for path in outputs[1:]:
        note(f"wrote {path}")
    if view["disagreements"]:
        note(f"note: people disagree about {view['disagreements']:,} tags; settle them on the page")
    if session.certificate is not None:
        session.certificate.to_json(f"{outputs[0]}.certificate.json")
        note(f"wrote the certificate to {outputs[0]}.certificate.json")
    elif view["audit"] is not None:
        note(f"the audit is not complete, so there is no certificate ({view['audit']['words']})")

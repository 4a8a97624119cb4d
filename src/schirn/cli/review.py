"""`schirn review`: decide doubtful tags in the browser."""

import argparse
import sys
from pathlib import Path
from typing import Any

from schirn._files import check_writable
from schirn.cli._output import note, printable, say
from schirn.cli._parser import add_command, natural, positive
from schirn.exceptions import InputError
from schirn.report.records import csv_lines, json_lines, write_lines
from schirn.review._session import CERTIFICATE_FILE

_EXAMPLES = """
schirn review photos-review
schirn review photos-review --port 8000 --no-browser
schirn review photos-review --audit 50
schirn review photos-review --export tags.csv
"""
_FORMATS = {".csv": csv_lines, ".jsonl": json_lines}


def add(found: Any) -> None:
    """Add the command."""
    parser = add_command(
        found,
        "review",
        run,
        help="decide doubtful tags in the browser",
        description="Decide doubtful and suggested tags by keyboard, most informative first, on a "
        "page that only this machine can open. schirn clean --project writes the folder DIR. Every "
        "decision is saved immediately in DIR/journal.jsonl; stop with Ctrl-C and continue "
        "whenever you like.",
        examples=_EXAMPLES,
        json=False,
    )
    parser.add_argument("folder", metavar="DIR", help="project folder")
    parser.add_argument(
        "--port", type=_port, default=0, metavar="N", help="port of the page (default: a free one)"
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address without opening a browser"
    )
    parser.add_argument(
        "--retrain-every",
        type=natural,
        default=20,
        metavar="N",
        help="retrain after every N decisions (default: 20; 0: never)",
    )
    parser.add_argument(
        "--audit",
        type=positive,
        metavar="N",
        help="ask N tags drawn at random first; the answers certify the removals",
    )
    parser.add_argument(
        "--export",
        metavar="FILE",
        help="write the final tags to a .csv or .jsonl file instead of opening the page",
    )


def run(args: argparse.Namespace) -> None:
    """Serve the page, or export the final tags."""
    if args.export is not None:
        if args.audit is not None:
            raise InputError("give only one of --audit and --export")
        _export(args.folder, args.export)
        return
    from schirn.review import serve

    decided = serve(
        args.folder,
        port=args.port,
        browser=not args.no_browser,
        retrain_every=args.retrain_every,
        audit=args.audit,
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


def _export(folder: str, output: str) -> None:
    kind = Path(output).suffix.lower()
    if kind not in _FORMATS:
        raise InputError(f"{output}: the file name must end in {' or '.join(_FORMATS)}")
    check_writable(output)
    from schirn.review import open_session

    session = open_session(folder, write=False)
    write_lines(_FORMATS[kind](session.final_tags()), output)
    view = session.view()
    decided = view["progress"]["decided"]
    note(
        f"wrote {len(session.project.items):,} items to {output}; {decided:,} tags decided by hand"
    )
    if session.certificate is not None:
        session.certificate.to_json(f"{output}.certificate.json")
        note(f"wrote the certificate to {output}.certificate.json")
    elif view["audit"] is not None:
        note(f"the audit is not complete, so there is no certificate ({view['audit']['words']})")


def _port(text: str) -> int:
    value = natural(text)
    if value > 65535:
        raise argparse.ArgumentTypeError(f"must be a port from 0 to 65535, not {text!r}")
    return value

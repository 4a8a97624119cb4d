"""`schirn review`: rank the tags of a table, ask about them, and act on the answers."""

import argparse
import os
import shlex
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from schirn._files import check_new_folder
from schirn._optional import optional
from schirn._text import base_name
from schirn.app.cli._reading import (
    COLUMNS,
    DECISIONS,
    REMOVALS,
    ROWS,
    Outputs,
    check_opinions,
    check_outputs,
    early_advice,
    write_changes,
)
from schirn.app.cli._terminal import ask
from schirn.app.review import Session, begin_review, open_session, serve, was_made_by
from schirn.app.tables import is_database
from schirn.app.workflow import CleaningOptions, TableCleaning, read_vocabulary
from schirn.cleaning.certificate import Certificate
from schirn.exceptions import InputError
from schirn.program.output import note, printable, say, working

HAS_JSON = False
OPTIONS = f"""
data TABLE  a table, or a project folder
--terminal  ask in the terminal instead of on a page
--order first|suspicious|tag|suggested|swaps|certify = first  what to ask in the terminal: the
    first fifty questions, the most suspicious tags, one tag at a time, missing tags, pairs of a
    wrong tag and its likely replacement, or removed tags for a certificate
--port N:port = 0  port of the page (default: a free one)
--no-browser  print the address without opening a browser
--name NAME  name of the person who decides (default: none)
--project DIR  folder for ranks and decisions (default: TABLE-review, next to the table)
{COLUMNS}
{ROWS}
{DECISIONS}
{REMOVALS}
--opinions FILE...  opinions of a language model or another source about some tags (repeatable)
--fresh  rank again, even if the ranking of an earlier run is stored in .schirn beside TABLE
[write files instead of asking]
--export FILE  the whole table with the final tags, in the format given by the suffix
--changes FILE  a .csv list of changes for schirn apply
--save-vocabulary FILE  a .csv file of the vocabulary with all answers and rules, for --vocabulary
"""


def run(args: argparse.Namespace) -> None:
    """Rank the tags of a table and ask about them on a page that only this machine can open.

    The program chooses the first fifty questions; after that, you choose the order. Every answer
    updates the ranking, the estimated number of wrong tags and the possible removals. A second
    page lists proposals for the vocabulary to accept or reject. TABLE is never changed; every
    answer is saved immediately in TABLE-review/journal.jsonl. Stop with Ctrl-C and continue
    whenever you like.

    Examples
    --------
    schirn review items.csv --labels tags --text description
    schirn review items.csv --terminal
    schirn review items.csv --export cleaned.csv
    schirn review items.csv --text description --vocabulary vocabulary.csv
    schirn review items.csv --save-vocabulary vocabulary.csv
    schirn review photos-review --port 8000 --no-browser
    schirn review photos-review --changes changes.csv
    schirn review items.csv --id sku --decisions decisions.jsonl
    schirn review items.csv --text description --opinions replies.jsonl
    """
    if not (args.terminal or _writes(args)):
        # Before the table is ranked, which takes long.
        optional("starlette", "review", "The review page")
        optional("uvicorn", "review", "The review page")
    options = CleaningOptions.from_args(args)
    check_opinions(options.opinions)
    folder, session = _project(args, options)
    if _writes(args):
        _write(args, folder)
        return
    if session is None:
        session = open_session(
            folder,
            name=options.name or "",
            image_root=options.image_root,
            decisions=options.decisions,
        )
    if args.terminal:
        decided = ask(session, args.order)
    else:
        decided = serve(
            folder,
            port=args.port,
            browser=not args.no_browser,
            ready=lambda address: _announce(folder, address),
            session=session,
        )
    place = ["--project", args.project] if args.project else []
    tags = "1 tag" if decided == 1 else f"{decided:,} tags"
    note(
        f"stopped; the decisions on {tags} are in {Path(folder, 'journal.jsonl')}; to write the "
        f"table: {shlex.join(['schirn', 'review', args.data, *place])} --export FILE"
    )


def _project(args: argparse.Namespace, options: CleaningOptions) -> tuple[str, Session | None]:
    """Return the project folder: the argument itself, or the folder of a table, ranked first.

    A new project is returned with its session.
    """
    path = Path(args.data)
    words = options.ranking_words()
    if (path / "project.json").is_file():
        if typed := _typed(args, [*words, "--project"]):
            raise InputError(
                f"{args.data}: is a project with its own options; leave out {' and '.join(typed)}"
            )
        return str(args.data), None
    is_damaged = (path / "tags.npz").exists() or not any(path.rglob("*.parquet"))
    if path.is_dir() and is_damaged:
        # Not a table either; opening it reports what is missing.
        return str(args.data), None
    if not path.exists():
        if is_database(args.data):
            raise InputError(
                f"{args.data}: a review needs a file; export the query to a .parquet file, or use "
                f"schirn clean --questions"
            )
        raise InputError(f"{args.data}: there is no such table or project folder")
    folder = args.project or str(path.with_name(f"{_name_of(path)}-review"))
    if Path(folder, "project.json").is_file():
        vocabulary = read_vocabulary(args.vocabulary) if args.vocabulary else None
        if was_made_by(folder, words, args.data, vocabulary):
            return folder, None
        if options.decisions is None or _writes(args):
            raise InputError(
                f"{folder}: belongs to another version of {args.data}, or to other options; move "
                f"it away, or choose another folder with --project, or keep its answers with "
                f"--decisions"
            )
        _set_aside(folder, options.decisions)
    if _writes(args):
        raise InputError(f"{args.data}: has not been reviewed yet, so there is nothing to write")
    check_new_folder(folder)
    with working(f"ranking {path.name}", args):
        cleaning = TableCleaning(args.data, options)
        cleaning.on_note = lambda sentence: note(f"note: {sentence}")
        session = begin_review(cleaning, folder)
    say(cleaning.ranked.sentence)
    if advice := early_advice(cleaning):
        say(f"{advice[0].upper()}{advice[1:]}.")
    return folder, session


def _typed(args: argparse.Namespace, words: list[str]) -> list[str]:
    """Return the options among some words that were typed, and not taken from a configuration."""
    options = dict.fromkeys(word for word in words if word.startswith("--"))
    return [o for o in options if any(w == o or w.startswith(f"{o}=") for w in args.typed)]


def _name_of(path: Path) -> str:
    """Return the name of a table without its suffixes."""
    return path.name if path.is_dir() else base_name(path)


def _set_aside(folder: str, decisions: str) -> None:
    """Move the project of an earlier table away, once all its answers are stored elsewhere."""
    session = open_session(folder, decisions=decisions)
    session.journal.close()
    aside = f"{folder}-{datetime.now():%Y%m%d-%H%M%S}"
    os.rename(folder, aside)
    note(f"the table or the options have changed; the old project is now {aside}")
    if session.room.is_changed:
        saving = ["schirn", "review", aside, "--save-vocabulary", "FILE"]
        note(f"its answers about the vocabulary are there as well: {shlex.join(saving)}")


def _announce(folder: str, address: str) -> None:
    say(f"Review page: {address}", always=True)
    journal = printable(str(Path(folder, "journal.jsonl")))
    say(f"Decisions are saved in {journal}. Press Ctrl-C to stop.", always=True)
    sys.stdout.flush()


def _writes(args: argparse.Namespace) -> bool:
    """Check whether files are written instead of asking questions."""
    return any((args.export, args.changes, args.save_vocabulary))


def _write(args: argparse.Namespace, folder: str) -> None:
    """Write the table, the decisions and the changes, after checking all paths."""
    session = open_session(folder, write=False)
    outputs = Outputs(copy=args.export, changes=args.changes)
    files = outputs.named() | {"vocabulary": args.save_vocabulary}
    check_outputs(files, [str(session.table.path)])
    if args.export:
        session.write_table(args.export)
    if args.changes:
        changes = session.changes()
        write_changes(changes, args.changes)
        note(f"wrote {len(changes):,} changes to {args.changes}")
    if args.save_vocabulary:
        _write_vocabulary(session, args.save_vocabulary)
    certificate = session.certificate()
    if args.export and certificate is not None:
        _write_certificate(certificate, session, f"{args.export}.certificate.json")
    known = session.known()
    if args.export:
        note(f"wrote {len(session.project.ids):,} items to {args.export}")
    by_rule = f" ({known['by_rule']:,} by rule)" if known["by_rule"] else ""
    note(
        f"{session.n_decided:,} tags decided by hand, {known['removed']:,} removed{by_rule}, "
        f"{known['added']:,} added"
    )
    if ready := known["remove"]["new"]:
        note(f"note: the answers allow removing {ready:,} more tags; open the review to do so")


def _write_vocabulary(session: Session, path: str) -> None:
    """Write the lines with their answers, and print the number of answers."""
    session.write_vocabulary(path)
    counts = session.room.counts()
    n_open = counts["open"] + counts["settled"]
    note(
        f"wrote the vocabulary to {path}: {counts['accepted']:,} accepted, "
        f"{counts['rejected']:,} rejected, {n_open:,} without an answer"
    )


def _write_certificate(certificate: Certificate, session: Session, path: str) -> None:
    """Write the certificate of the removed tags, if it matches the exported table."""
    try:
        session.verify(certificate)
    except InputError as error:
        earlier = f"; {path} is from an earlier export" if Path(path).exists() else ""
        note(f"the removals are not certified: {error}{earlier}")
        return
    replace(certificate, changes=session.tag_changes()).to_json(path)
    note(f"wrote the certificate to {path}")

"""`schirn vocabulary`: propose what to change in the list of tags."""

import argparse
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from schirn._files import check_writable
from schirn._progress import stage
from schirn.app.cli._reading import COLUMNS, check_not_input
from schirn.app.tables import open_table
from schirn.app.workflow import TagTable, read_vocabulary, write_vocabulary
from schirn.cleaning import AppliedVocabulary, Vocabulary, VocabularyLine, propose_vocabulary
from schirn.exceptions import InputError
from schirn.program.output import facts, note, print_json, say, table, working

OPTIONS = f"""
data TABLE  table whose tags to look at
-o, --output FILE  write the proposals to a .csv file; fill in its column 'accept' with yes or no.
    If the file exists, its answers are kept, and nothing that was answered is proposed again
--number N:natural = 100  number of proposals
{COLUMNS}
"""
_ROLES = (
    *("labels", "separator", "text", "columns", "categories", "features"),
    *("image", "image_root", "encoder"),
)
_SHOWN = 20
_WIDTH = 60


def run(args: argparse.Namespace) -> int:
    """Propose what to change in the list of tags: merge, imply, exclude, drop, split.

    Nothing is changed. Each proposal says how the tags are used: how alike the texts are that they
    stand on, and how often they stand together. Answer with yes or no in the file, and pass it to
    clean, review, fit and update as --vocabulary. Run it again for more proposals.

    Examples
    --------
    schirn vocabulary items.csv --labels tags --text description
    schirn vocabulary items.csv --text description -o vocabulary.csv
    schirn clean items.csv --text description --vocabulary vocabulary.csv -o cleaned.csv
    """
    with working(f"looking at the tags of {Path(args.data).name}", args):
        _check(args)
        stage("reading the table")
        opened = open_table(args.data, encoding=args.encoding, delimiter=args.delimiter)
        source = TagTable(opened, args.data, **{name: getattr(args, name) for name in _ROLES})
        earlier = Vocabulary()
        if args.output and Path(args.output).exists():
            earlier = read_vocabulary(args.output)
        tags = source.tags()
        stage("making features")
        X = _features(source)
        stage("comparing tags")
        number = args.number
        vocabulary = propose_vocabulary(tags, X, vocabulary=earlier, max_proposals=number)
        applied = Vocabulary(vocabulary.answered).apply(tags)
        if args.output:
            write_vocabulary(vocabulary, args.output)
        _print(args, vocabulary, applied, tags)
    return 0


def _check(args: argparse.Namespace) -> None:
    if not args.output:
        return
    check_not_input(args.output, args.data)
    if not args.output.lower().endswith(".csv"):
        raise InputError(f"{args.output}: the name of the vocabulary must end in .csv")
    check_writable(args.output)


def _features(source: TagTable) -> Any:
    """Return the texts of the rows if there is nothing else to compare, or their features."""
    features = source.features()
    texts = features.texts(source.table)
    return features.X if texts is None else texts


def _print(
    args: argparse.Namespace,
    vocabulary: Vocabulary,
    applied: AppliedVocabulary,
    tags: list[list[str]],
) -> None:
    proposals = vocabulary.open
    counts = Counter(line.action for line in proposals)
    n_sure = sum(line.is_sure for line in proposals)
    n_rows = len({change.row for change in applied.changes})
    if args.json:
        records = vocabulary.to_records()
        summary = {"data": args.data, "proposals": dict(counts), "with_confidence": n_sure}
        print_json({**summary, "accepted_lines_change_rows": n_rows, "lines": records})
        return
    n_tags = len({tag for row in tags for tag in row})
    parts = [f"{count} {action}" for action, count in counts.items()]
    about = {
        "rows": f"{len(tags):,}",
        "tags": f"{n_tags:,} distinct",
        "proposals": f"{', '.join(parts) or 'none'}; {n_sure} with confidence",
    }
    if vocabulary.accepted:
        about["accepted"] = f"{len(vocabulary.accepted):,} lines, which change {n_rows:,} rows"
    facts(about)
    if proposals:
        say()
        table(
            ["action", "tag", "target", "rows", "why"],
            [_row(line) for line in proposals[:_SHOWN]],
        )
    if len(proposals) > _SHOWN:
        say(f"and {len(proposals) - _SHOWN} more")
    _next(args, len(proposals))


def _row(line: VocabularyLine) -> list[str]:
    rows = f"{line.rows:,}" + (f" / {line.rows_target:,}" if line.target else "")
    sure = "" if line.is_sure else "check: "
    evidence = line.evidence if len(line.evidence) <= _WIDTH else line.evidence[: _WIDTH - 1] + "…"
    return [line.action, line.tag, line.target, rows, sure + evidence]


def _next(args: argparse.Namespace, n_proposals: int) -> None:
    if args.output:
        note(f"wrote {args.output}: write yes or no into its column 'accept', and pass it to")
        note(f"schirn clean {shlex.quote(args.data)} --vocabulary {shlex.quote(args.output)}")
    elif n_proposals:
        note("write the proposals to a file with -o vocabulary.csv, to answer them")

"""`schirn vocabulary`: propose changes to the list of tags."""

import argparse
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from schirn._files import check_writable
from schirn._progress import stage
from schirn.app.cli._reading import COLUMNS, check_not_input, check_outputs
from schirn.app.tables import keyed_changes, open_table
from schirn.app.workflow import CleaningOptions, TagTable, read_vocabulary, write_vocabulary
from schirn.cleaning import (
    AppliedVocabulary,
    ChangeList,
    Vocabulary,
    VocabularyLine,
    find_duplicates,
    propose_vocabulary,
)
from schirn.exceptions import InputError
from schirn.program.output import facts, note, number, print_json, say, table, working

OPTIONS = f"""
data TABLE  table with the tags
-o, --output FILE  write the proposals to a .csv file; fill in its column 'accept' with yes or no.
    If the file exists, its answers are kept, and nothing that was answered is proposed again
--number N:natural = 100  number of proposals
--once  also propose to drop the tags that are used once, after all other proposals
--accept spelling  accept all merges of names that differ only in case, spaces and hyphens, unless
    their rows clearly differ
--duplicates CHANGES  write a list of changes, for schirn apply, that gives rows with nearly the
    same text the tags that most of them have
{COLUMNS}
"""
_ROLES = (
    *("labels", "separator", "text", "columns", "categories", "features"),
    *("image", "image_root", "encoder"),
)
_SHOWN = 20
_MOST_PROPOSALS = 1_000_000
_WIDTH = 60


def run(args: argparse.Namespace) -> int:
    """Propose what to change in the list of tags: merge, imply, exclude, drop, split.

    Nothing is changed. Each proposal reports how similar the rows of the two tags are, and how
    often both occur together. Answer with yes or no in the file, and pass it to clean, review,
    fit, predict, update or serve as --vocabulary. Run it again for more proposals.

    Examples
    --------
    schirn vocabulary items.csv --labels tags --text description
    schirn vocabulary items.csv --text description -o vocabulary.csv
    schirn clean items.csv --text description --vocabulary vocabulary.csv -o cleaned.csv
    schirn vocabulary items.csv --text description --duplicates changes.csv
    """
    with working(f"looking at the tags of {Path(args.data).name}", args):
        _check(args)
        stage("reading the table")
        opened = open_table(args.data, encoding=args.encoding, delimiter=args.delimiter)
        source = TagTable(opened, args.data, **{name: getattr(args, name) for name in _ROLES})
        source.check_chosen_separator()
        earlier = read_vocabulary(args.vocabulary) if args.vocabulary else Vocabulary()
        if args.output and Path(args.output).exists():
            earlier = read_vocabulary(args.output)
        tags = source.tags()
        if args.duplicates:
            return _duplicates(args, source)
        stage("making features")
        X = _features(source)
        stage("comparing tags")
        if args.accept:
            earlier = _with_spellings(earlier, tags, X)
        vocabulary = propose_vocabulary(
            tags, X, vocabulary=earlier, max_proposals=args.number, used_once=args.once
        )
        applied = Vocabulary(vocabulary.answered).apply(tags)
        if args.output:
            write_vocabulary(vocabulary, args.output)
        _print(args, vocabulary, applied, tags)
    return 0


def _check(args: argparse.Namespace) -> None:
    if args.duplicates:
        if args.output or args.vocabulary or args.accept:
            raise InputError(
                "--duplicates cannot be combined with --output, --vocabulary or --accept"
            )
        check_outputs({"list of changes": args.duplicates}, [args.data])
        return
    if not args.output:
        return
    check_not_input(args.output, args.data)
    if not args.output.lower().endswith(".csv"):
        raise InputError(f"{args.output}: the name of the vocabulary must end in .csv")
    if args.vocabulary and Path(args.output).exists():
        raise InputError(
            f"{args.output}: exists, and its answers are kept; leave out --vocabulary",
            parameter="vocabulary",
        )
    check_writable(args.output)


def _with_spellings(earlier: Vocabulary, tags: list[list[str]], X: Any) -> Vocabulary:
    """Return the answered lines, and all proposals about spellings as accepted ones."""
    proposed = propose_vocabulary(tags, X, vocabulary=earlier, max_proposals=_MOST_PROPOSALS)
    spellings = {
        position: True for position, line in enumerate(proposed) if _is_sure_spelling(line)
    }
    return Vocabulary(proposed.answer(spellings).answered)


def _is_sure_spelling(line: VocabularyLine) -> bool:
    """Check whether --accept spelling accepts a line."""
    return not line.accept and line.is_spelling and line.is_sure


def _duplicates(args: argparse.Namespace, source: TagTable) -> int:
    """Write changes that give near-duplicate rows the same tags, and print the groups."""
    stage("comparing texts")
    tags = source.tags()
    duplicates = find_duplicates(source.texts(), tags)
    about: dict[str, Any] = {"column": source.labels, "separator": source.separator}
    about |= source.table.cell_options(source.labels)
    cells = source.table.column(source.labels)
    changes = ChangeList.from_cells(cells, duplicates.changes(), **about)
    keyed_changes(changes, source.table).write(args.duplicates)
    counts = changes.counts()
    n_divided = sum(tag.is_likely is None for group in duplicates for tag in group.differing)
    if args.json:
        summary = {"data": args.data, "copies": duplicates.n_rows, "groups": len(duplicates)}
        print_json({**summary, "divided": n_divided, "changes": counts})
        return 0
    facts(
        {
            "copies": number(duplicates.n_rows, "row") + " nearly the same as an earlier one",
            "groups": f"{len(duplicates):,} with different tags",
            "changes": ", ".join(f"{n:,} {kind}s" for kind, n in counts.items() if n),
            "left alone": f"{number(n_divided, 'tag')} of evenly divided groups" * bool(n_divided),
        }
    )
    for group in duplicates.groups[:_SHOWN]:
        say(f"  {group}")
    note(f"wrote {args.duplicates}; to make the changes: schirn apply, to revert them: schirn undo")
    return 0


def _features(source: TagTable) -> Any:
    """Return the texts of the rows if these are the only features, otherwise the features."""
    transformer = source.transformer()
    is_text = transformer is not None and transformer.kinds == ["text"]
    if transformer is not None and is_text and transformer.encoder is None:
        return transformer.texts(source.table)
    return source.features().X


def _print(
    args: argparse.Namespace,
    vocabulary: Vocabulary,
    applied: AppliedVocabulary,
    tags: list[list[str]],
) -> None:
    """Print the proposals, or the document for --json."""
    listed = vocabulary.open
    proposals = [*listed, *vocabulary.unlisted]
    n_once = 0
    if not args.once:
        n_once = sum(line.is_used_once for line in proposals)
        proposals = [line for line in proposals if not line.is_used_once]
    counts = Counter(line.action for line in proposals)
    n_sure = sum(line.is_sure for line in proposals)
    n_rows = len({change.row for change in applied.changes})
    if args.json:
        records = vocabulary.to_records()
        summary = {"data": args.data, "proposals": dict(counts), "with_confidence": n_sure}
        summary |= {"more_proposals": len(proposals) - len(listed), "used_once": n_once}
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
    if listed:
        say()
        table(
            ["action", "tag", "target", "rows", "why"],
            [_row(line) for line in listed[:_SHOWN]],
        )
    if len(listed) > _SHOWN:
        say(f"and {len(listed) - _SHOWN:,} more")
    if len(proposals) > len(listed):
        n_all = len(proposals)
        say(f"{n_all:,} proposals in all; --number {n_all} lists them")
    if n_once:
        used = "1 tag is used once" if n_once == 1 else f"{n_once:,} tags are used once"
        say(f"{used}; --once proposes to drop {'it' if n_once == 1 else 'them'}")
    _next(args, proposals)


def _row(line: VocabularyLine) -> list[str]:
    rows = f"{line.rows:,}" + (f" / {line.rows_target:,}" if line.target else "")
    sure = "" if line.is_sure else "check: "
    evidence = line.evidence if len(line.evidence) <= _WIDTH else line.evidence[: _WIDTH - 1] + "…"
    return [line.action, line.tag, line.target, rows, sure + evidence]


def _next(args: argparse.Namespace, proposals: list[VocabularyLine]) -> None:
    n_spellings = sum(_is_sure_spelling(line) for line in proposals)
    if n_spellings:
        merges = number(n_spellings, "merge")
        note(f"--accept spelling accepts {merges} of one name in several spellings")
    if args.output:
        note(f"wrote {args.output}: write yes or no into its column 'accept', and pass it to")
        options = CleaningOptions.from_args(args).words(without=("vocabulary",))
        words = [args.data, *options, "--vocabulary", args.output]
        note(shlex.join(["schirn", "clean", *words]))
        note(f"or answer on a page: {shlex.join(['schirn', 'review', *words])}")
    elif proposals:
        note("write the proposals to a file with -o vocabulary.csv, to answer them")

"""`schirn clean`."""

import argparse
import math
import os
import re
import shlex
import time
from pathlib import Path
from typing import Any

from schirn._files import atomic_write, check_new_folder, check_writable
from schirn._optional import optional
from schirn.cleaning import NoisyLabels, find_noisy_labels
from schirn.cleaning.cells import TagColumn, new_columns, removed_sets
from schirn.cleaning.find import MAX_MEMORY, MIN_COUNT
from schirn.cli._clean_input import (
    Features,
    item_ids,
    known_clean,
    known_column,
    label_column,
    read_features,
    short,
    shown_texts,
)
from schirn.cli._output import facts, note, print_json, say, table, working
from schirn.cli._parser import Parser, add_command, natural, positive, separator
from schirn.cli._reading import assignment, check_not_input
from schirn.cli.fit import make_model
from schirn.datasets._text import format_suffix, is_packed
from schirn.datasets.tables import Table, open_table
from schirn.exceptions import InputError
from schirn.review._project import write_project

_EXAMPLES = """
schirn clean items.csv --labels tags --text description -o cleaned.csv
schirn clean items.csv --text description -o cleaned.csv --report report.html
schirn clean photos.parquet --features embeddings.npy --report report.html
schirn clean items.jsonl --text caption --project to-review
"""
_WORST = 8


def add(found: Any) -> None:
    """Add the command."""
    parser = add_command(
        found,
        "clean",
        run,
        help="find the wrong tags of a table; writes clean tags and a report",
        description="Judge every tag of a table by rows like it, and remove those that are "
        "probably wrong. TABLE is a .csv, .tsv, .jsonl or .parquet file, or a folder of .jsonl "
        "files; it is never changed. The copy keeps rows, order and all other cells, and gets two "
        "columns more: the removed tags, and how likely each tag is right.",
        examples=_EXAMPLES,
    )
    parser.add_argument("data", metavar="TABLE", help="the table")
    parser.add_argument("-o", "--output", metavar="FILE", help="the cleaned copy, same format")
    parser.add_argument("--report", metavar="FILE", help="a page (.html) to look at")
    parser.add_argument("--project", metavar="DIR", help="a new folder for schirn review")
    _add_columns(parser)
    _add_choices(parser)


def _add_columns(parser: Parser) -> None:
    group = parser.add_argument_group("what is in the table")
    group.add_argument("--labels", metavar="COLUMN", help="tags, as beach;dog or as lists")
    group.add_argument(
        "--separator", type=separator, default=";", metavar="TEXT", help="between tags (default: ;)"
    )
    group.add_argument("--text", metavar="COLUMNS", help="learn from these texts")
    group.add_argument("--columns", metavar="COLUMNS", help="learn from these numbers a,b,c")
    group.add_argument(
        "--features", metavar="FILE", help="learn from an .npy matrix, or from a column of lists"
    )
    group.add_argument("--image", metavar="COLUMN", help="image files to show in the report")
    group.add_argument("--id", metavar="COLUMN", help="names of the rows (default: 1, 2, ...)")
    group.add_argument("--group", metavar="COLUMN", help="rows that belong together (copies)")
    group.add_argument(
        "--known-clean", metavar="COLUMN",
        help="1 where the tags were checked: they stay, and Sieve (no other method) learns from "
        "them about the other rows",
    )  # fmt: skip
    group.add_argument("--encoding", default="utf-8", metavar="NAME", help="default: utf-8")
    group.add_argument(
        "--delimiter", type=_character, metavar="CHARACTER", help="between CSV cells (default: ,)"
    )


def _add_choices(parser: Parser) -> None:
    group = parser.add_argument_group("how to judge")
    group.add_argument("--method", metavar="NAME", help="default: Sieve")
    group.add_argument(
        "--param", action="append", default=[], type=assignment, metavar="NAME=VALUE",
        help="a parameter of the method; repeat for more",
    )  # fmt: skip
    group.add_argument(
        "--keep-threshold", type=_share, default=0.5, metavar="P",
        help="remove tags that are less likely right than this (default: 0.5)",
    )  # fmt: skip
    group.add_argument(
        "--max-remove-per-row", type=natural, metavar="N", help="remove at most N tags of a row"
    )
    group.add_argument(
        "--min-count", type=positive, default=MIN_COUNT, metavar="N",
        help=f"leave tags alone that are rarer than this (default: {MIN_COUNT})",
    )  # fmt: skip
    group.add_argument(
        "--max-memory", type=_gigabytes, default=MAX_MEMORY, metavar="GB",
        help=f"refuse tables that need more (default: {MAX_MEMORY:g})",
    )  # fmt: skip
    group.add_argument("--folds", type=positive, default=5, metavar="N", help="default: 5")
    group.add_argument("--seed", type=natural, default=0, metavar="S", help="default: 0")


def run(args: argparse.Namespace) -> None:
    """Read, judge, write, report."""
    _check_places(args)
    start = time.perf_counter()
    rows = open_table(args.data, encoding=args.encoding, delimiter=args.delimiter)
    args.labels = label_column(args.data, rows, args.labels)
    new_names = _new_names(args, rows)
    tags = TagColumn(rows.column(args.labels), args.separator, args.labels)
    for name in filter(None, (args.id, args.image, args.group, args.known_clean)):
        known_column(args.data, rows, name)
    features = read_features(args, rows, args.labels)
    with working(f"judging {sum(map(len, tags.tags)):,} tags", quiet=args.json):
        found = _judge(args, rows, tags, features)
    if args.output:
        columns = new_columns(tags, found, lists=rows.lists)
        changed = {args.labels: tags.kept(removed_sets(found))}
        rows.write(args.output, changed, dict(zip(new_names, columns, strict=True)))
    if args.report or args.project:
        _write_pages(args, rows, found, features)
    _tell(args, found, features, time.perf_counter() - start)


def _judge(
    args: argparse.Namespace, rows: Table, tags: TagColumn, features: Features
) -> NoisyLabels:
    method = args.method or "Sieve"
    params = list(args.param)
    if features.is_text and method.lower() == "sieve" and "features" not in dict(params):
        # Tf-idf rows are weighted and of length one already.
        params.append(("features", "none"))
    try:
        return _find(args, rows, tags, features, make_model(method, params))
    except InputError as error:
        # The library speaks of its arguments, the program of its options.
        words = re.sub(r"\b(min|max)_(count|memory)=", r"--\1-\2 ", str(error))
        raise InputError(words) from error


def _find(
    args: argparse.Namespace, rows: Table, tags: TagColumn, features: Features, model: Any
) -> NoisyLabels:
    return find_noisy_labels(
        features.X,
        tags.tags,
        method=model,
        cv=min(args.folds, rows.n_rows),
        threshold=args.keep_threshold,
        max_remove_per_row=args.max_remove_per_row,
        known_clean=known_clean(args, rows),
        groups=features.groups,
        min_count=args.min_count,
        max_memory=args.max_memory,
        random_state=args.seed,
    )


def _write_pages(
    args: argparse.Namespace, rows: Table, found: NoisyLabels, features: Features
) -> None:
    """The report and the project folder."""
    texts, ids = [short(text) for text in shown_texts(args, rows)], item_ids(args, rows)
    if args.project:
        write_project(args.project, found, features.X, ids=ids, texts=texts)
    if args.report:
        images = None
        if args.image:
            folder = Path(args.data).parent
            images = [folder / str(cell) if cell else None for cell in rows.column(args.image)]
        page = found.report(texts=texts, ids=ids, images=images, title=Path(args.data).name)
        with atomic_write(args.report) as stream:
            stream.write(page.html().encode("utf-8", "replace"))


def _tell(args: argparse.Namespace, found: NoisyLabels, features: Features, seconds: float) -> None:
    """The summary on the terminal, or as JSON."""
    whole = {"data": args.data, "learned_from": features.source, **found.summary()}
    whole["seconds"] = round(seconds, 2)
    labels = found.labels()
    places = {"output": args.output, "report": args.report, "project": args.project}
    if args.json:
        listed = [{k: v for k, v in vars(label).items() if k != "worst"} for label in labels]
        print_json({**whole, "label_summaries": listed, **places})
        return
    facts(_lines(whole))
    worst = [label for label in labels if label.removed][:_WORST]
    if worst:
        say("\nTags removed most often")
        cells = [
            [
                label.name[:40],
                f"{label.candidates:,}",
                f"{label.removed:,}",
                f"{label.noise_rate:.1%}",
            ]
            for label in worst
        ]
        table(("tag", "listed", "removed", "about wrong"), cells, right="lrrr")
    for name, place in places.items():
        if place:
            note(f"wrote the {name} {place}")
    if args.project:
        note(f"to decide the doubtful tags by hand: schirn review {shlex.quote(args.project)}")


def _lines(whole: dict[str, Any]) -> list[tuple[str, str]]:
    rate = whole["estimated_noise_rate"]
    lines = [
        ("table", f"{whole['data']}, {whole['rows']:,} rows"),
        ("learned from", f"{whole['learned_from']} ({whole['method']}, {whole['seconds']:.1f} s)"),
        ("tags", f"{whole['tags']:,} of {whole['labels']:,} kinds"),
        ("removed", f"{whole['removed']:,} ({whole['removed_share']:.1%} of the tags)"),
        ("rows changed", f"{whole['rows_changed']:,}"),
        ("wrong tags", "unknown" if rate is None else f"about {rate:.1%} of those judged"),
        ("close calls", f"{whole['close_calls']:,} tags; look at these first"),
    ]
    if whole["unjudged"]:
        lines.append(("not judged", f"{whole['unjudged']:,} tags that are too rare, or everywhere"))
    if whole["rows_left_without_tags"]:
        lines.append(("left without tags", f"{whole['rows_left_without_tags']:,} rows"))
    return lines


def _check_places(args: argparse.Namespace) -> None:
    """Refuse places that cannot be written to, or that hold the input."""
    source, is_folder = Path(args.data), Path(args.data).is_dir()
    if args.text is not None and (args.columns or args.features):
        raise InputError("give one of --text, --columns and --features")
    for place in filter(None, (args.output, args.report, args.project)):
        check_not_input(place, *filter(None, (args.data, args.features)))
        if is_folder and source.resolve() in Path(place).resolve().parents:
            raise InputError(f"{place}: lies in the input folder; choose another place")
    if (
        args.output
        and args.report
        and os.path.realpath(args.output) == os.path.realpath(args.report)
    ):
        raise InputError(f"{args.output}: is named for the copy and for the report")
    if args.output:
        _check_output(args.output, source, is_folder)
    if args.report:
        if not args.report.lower().endswith((".html", ".htm")):
            raise InputError(f"{args.report}: the report must end in .html")
        check_writable(args.report)
        optional("jinja2", "cli", "Writing the report")
    if args.project:
        check_new_folder(args.project)


def _check_output(output: str, source: Path, is_folder: bool) -> None:
    if is_folder and Path(output).suffix.lower() != ".jsonl":
        check_new_folder(output)
        return
    formats = [(format_suffix(path), is_packed(path)) for path in (Path(output), source)]
    if not is_folder and formats[0] != formats[1]:
        raise InputError(f"{output}: the copy has the format of the input, {source.suffix}")
    check_writable(output)


def _new_names(args: argparse.Namespace, rows: Table) -> list[str]:
    names = [f"{args.labels}_removed", f"{args.labels}_confidence"]
    taken = [name for name in names if name in rows.columns]
    if args.output and taken:
        raise InputError(
            f"{args.data}: has a column {taken[0]!r} already, perhaps from an earlier run; "
            f"rename or drop it"
        )
    return names


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, not {text!r}")
    return value


def _character(text: str) -> str:
    if len(text) != 1 or text in '\r\n"':
        raise argparse.ArgumentTypeError(f"must be one character, not {text!r}")
    return text


def _gigabytes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of gigabytes, not {text!r}")
    return value

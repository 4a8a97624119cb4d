"""`schirn data`: list, show, card and fetch."""

import argparse
from typing import Any

from schirn.cli.output import note, print_json, say, table, working
from schirn.cli.parser import add_command
from schirn.cli.reading import READING, read
from schirn.datasets import available
from schirn.datasets.cache import recorded_sum
from schirn.lab.bench.running.data import to_dense
from schirn.lab.data import MAX_RANK_BYTES, data_card, fetch
from schirn.labels.matrix import label_lists

_ABOUT = """\
schirn data list
schirn data show digits_attributes --rows 3
schirn data card photos.csv --labels tags
"""
_FETCH = """
name NAME  name of the data set
--url URL  https address of the file, if the name is not known
--sha256 SUM  expected checksum of the file
--force  download again, even if the file exists
"""


def add(commands: Any) -> None:
    """Add the command and those below it."""
    parser = add_command(
        commands,
        "data",
        None,
        examples=_ABOUT,
        json=False,
    )
    below = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_command(
        below,
        "list",
        run_list,
        help="list the data sets that can be used by name",
        description="List the built-in data sets, those in the folders of SCHIRN_DATA and in the "
        "download cache, and those that can be downloaded.",
        examples="schirn data list\nSCHIRN_DATA=~/sets schirn data list --json",
    )
    add_command(
        below,
        "show",
        run_show,
        help="show the first rows with the names of their labels",
        examples="schirn data show digits_attributes\nschirn data show photos.csv --labels tags",
        options=f"--rows N:positive = 5  number of rows\n{READING}",
    )
    limit = f"{MAX_RANK_BYTES // 2**20}M"
    add_command(
        below,
        "card",
        run_card,
        help="describe a data set: sizes, noise and ranks",
        examples="schirn data card digits_attributes\nschirn data card scene.npz --json\n"
        "schirn data card labels.npz --memory 8G",
        options=f"--memory SIZE:memory_size = {limit}  memory limit for exact ranks, such as 800M "
        f"or 8G\n{READING}",
    )
    add_command(
        below,
        "fetch",
        run_fetch,
        help="download a data set into the cache",
        description="Download a data set into the cache: a multi-label set of OpenML, a set with "
        "real noise made from packages that npm downloads (emoji_editions, emoji_keywords), or "
        "the file at an address.",
        examples="schirn data fetch emotions\nschirn data fetch emoji_keywords\n"
        "schirn data fetch mine --url https://example.org/mine.npz",
        options=_FETCH,
    )


def run_list(args: argparse.Namespace) -> None:
    """Print the name, origin and path of every data set."""
    entries = [(entry.name, entry.where, str(entry.path or "")) for entry in available()]
    if args.json:
        print_json([{"name": n, "where": w, "path": path or None} for n, w, path in entries])
    else:
        table(("name", "where", "path"), entries)


def run_show(args: argparse.Namespace) -> None:
    """Print the first rows."""
    data = read(args)
    head = data.subset(slice(args.rows))
    columns = {"candidates": head.candidates, "truth": head.y_true}
    known: dict[str, list[Any]] = {
        name: label_lists(to_dense(labels), data.label_names)
        for name, labels in columns.items()
        if labels is not None
    }
    if args.json:
        known["features"] = to_dense(head.X).tolist()
        rows = [
            {"row": row, **{name: values[row] for name, values in known.items()}}
            for row in range(head.n_samples)
        ]
        print_json({"name": data.name, "label_names": data.label_names, "rows": rows})
        return
    if len(known) == 2:
        known["wrong"] = [
            [name for name in row if name not in set(true)]
            for row, true in zip(*known.values(), strict=True)
        ]
    say(f"{data.name}: {data.n_samples} rows, {data.n_features} features, {data.n_labels} labels\n")
    lines = [
        [row, *(_brief(values[row]) for values in known.values())] for row in range(head.n_samples)
    ]
    table(
        ("row", *("true labels" if name == "truth" else name for name in known)), lines, right="r"
    )


def run_card(args: argparse.Namespace) -> None:
    """Print the data card."""
    card = data_card(read(args), max_rank_bytes=args.memory)
    if args.json:
        print_json(card.to_dict())
    else:
        say(card.to_text())


def run_fetch(args: argparse.Namespace) -> None:
    """Download a data set."""
    with working(f"downloading {args.name}", args):
        data = fetch(args.name, url=args.url, sha256=args.sha256, force=args.force)
    paths = [entry.path for entry in available() if entry.name == args.name]
    checksum = recorded_sum(paths[0]) if paths and paths[0] is not None else None
    if args.json:
        print_json({**data_card(data).to_dict(), "sha256": checksum})
    else:
        note(f"downloaded {args.name}: {data.n_samples:,} rows, {data.n_labels:,} labels")
        if checksum is not None:
            note(f"to get the same file elsewhere: --sha256 {checksum}")


def _brief(names: list[str], limit: int = 12) -> str:
    ending = f", ... ({len(names)} in total)" if len(names) > limit else ""
    return ", ".join(names[:limit]) + ending or "(none)"

"""`schirn data`: list, card and fetch."""

import argparse
from typing import Any

from schirn.cli.output import facts, note, print_json, table, working
from schirn.cli.parser import add_command
from schirn.cli.reading import READING, read
from schirn.datasets import available
from schirn.lab.data import MAX_RANK_BYTES, data_card, fetch
from schirn.lab.data._fetch import recorded_sum

_ABOUT = """\
schirn data list
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
        description="Download a data set into the cache: a set with real noise made from "
        "packages that npm downloads (emoji_editions, emoji_keywords), or the file at an address.",
        examples="schirn data fetch emoji_keywords\n"
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


def run_card(args: argparse.Namespace) -> None:
    """Print the data card."""
    card = data_card(read(args), max_rank_bytes=args.memory)
    if args.json:
        print_json(card)
    else:
        facts([(name.replace("_", " "), _shown(value)) for name, value in card.items()])


def _shown(value: Any) -> str:
    """Text of a fact."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def run_fetch(args: argparse.Namespace) -> None:
    """Download a data set."""
    with working(f"downloading {args.name}", args):
        data = fetch(args.name, url=args.url, sha256=args.sha256, force=args.force)
    paths = [entry.path for entry in available() if entry.name == args.name]
    checksum = recorded_sum(paths[0]) if paths and paths[0] is not None else None
    if args.json:
        print_json({**data_card(data), "sha256": checksum})
    else:
        note(f"downloaded {args.name}: {data.n_samples:,} rows, {data.n_labels:,} labels")
        if checksum is not None:
            note(f"to get the same file elsewhere: --sha256 {checksum}")

"""`schirn data`: list, card and fetch."""

import argparse
from typing import Any

from schirn._files import file_hash
from schirn.datasets import available
from schirn.lab.data import MAX_RANK_BYTES, data_card, fetch
from schirn.program.data import READING, read
from schirn.program.output import facts, note, print_json, table, working

_CARD = f"""
--memory SIZE:memory_size = {MAX_RANK_BYTES // 2**20}M  memory limit for exact ranks, such as 800M
    or 8G
{READING}
"""
_FETCH = """
name NAME  name of the data set
--url URL  https address of the file, if NAME is not a known set
--sha256 SUM  expected checksum of the file
--force  download again, even if the file exists
"""


def run_list(args: argparse.Namespace) -> None:
    """List the data sets that can be used by name.

    They are built in, in a folder of SCHIRN_DATA, in the download cache, or can be downloaded.

    Examples
    --------
    schirn data list
    SCHIRN_DATA=~/sets schirn data list --json
    """
    entries = [(entry.name, entry.where, str(entry.path or "")) for entry in available()]
    if args.json:
        print_json([{"name": n, "where": w, "path": path or None} for n, w, path in entries])
    else:
        table(("name", "where", "path"), entries)


def run_card(args: argparse.Namespace) -> None:
    """Describe a data set: sizes, noise and ranks.

    Examples
    --------
    schirn data card photos.csv --labels tags
    schirn data card digits_attributes
    schirn data card scene.npz --json
    schirn data card labels.npz --memory 8G
    """
    card = data_card(read(args), max_rank_bytes=args.memory)
    if args.json:
        print_json(card)
    else:
        facts({name.replace("_", " "): _shown(value) for name, value in card.items()})


def _shown(value: Any) -> str:
    """Return the text of a fact."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def run_fetch(args: argparse.Namespace) -> None:
    """Download a data set into the cache.

    NAME is a set with real noise, built from packages that npm downloads (emoji_editions,
    emoji_keywords) or from files of a public repository (brighter_ron, brighter_ukr); one of the
    six sets with real candidates (music_emotion, music_style, mirflickr, yeastbp, yeastcc,
    yeastmf); or any name for the file at --url.

    Examples
    --------
    schirn data fetch emoji_keywords
    schirn data fetch mine --url https://example.org/mine.npz
    """
    with working(f"downloading {args.name}", args):
        data = fetch(args.name, url=args.url, sha256=args.sha256, force=args.force)
    paths = [entry.path for entry in available() if entry.name == args.name]
    checksum = file_hash(paths[0]) if paths and paths[0] is not None else None
    if args.json:
        print_json({**data_card(data), "sha256": checksum})
    else:
        note(f"downloaded {args.name}: {data.n_samples:,} rows, {data.n_labels:,} labels")
        if checksum is not None:
            note(f"to get the same file elsewhere: --sha256 {checksum}")


COMMANDS = {
    "list": ("list the data sets that can be used by name", run_list, ""),
    "card": ("describe a data set: sizes, noise and ranks", run_card, _CARD),
    "fetch": ("download a data set into the cache", run_fetch, _FETCH),
}

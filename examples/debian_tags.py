"""Clean the tags of Debian's packages, a real table of texts with several tags each.

Debian's package lists hold the descriptions and tags (`use::editing`, `works-with::image`) of some
30,000 packages, assigned by people. This script reads them on a Debian system, adds one wrong tag
to every package, runs `schirn clean` on the table, and counts the wrong tags among those that get a
probability below one half. The program does not know which tags were added.

    python examples/debian_tags.py --fetch       # all packages
    python examples/debian_tags.py --rows 2000   # a sample, from the installed lists

It needs `apt-cache`; --fetch downloads the lists and the long descriptions to a temporary folder,
which needs a network but no special rights. Tags that people assigned wrongly count as correct
here, so the true results are slightly better than the numbers.
"""

import argparse
import csv
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from schirn.app.cli import main as schirn
from schirn.datasets import add_noise
from schirn.labels.matrix import as_labels, label_lists

FACETS = ("field", "interface", "role", "use", "works-with")
MIN_COUNT = 50
HELPER = "/usr/lib/apt/apt-helper"


def apt(command: list[str], folder: str | None) -> str:
    """Return the output of an apt command, which uses the lists in `folder` if it is given."""
    own = [] if folder is None else ["-o", f"Dir::State::Lists={folder}/lists"]
    if folder is not None:
        own += ["-o", f"Dir::Cache={folder}/cache", "-o", "Acquire::Languages=en"]
        own += ["-o", "APT::Sandbox::User="]
    ran = subprocess.run([*command, *own], capture_output=True, text=True, check=True)
    return ran.stdout


def records(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each paragraph of a package list."""
    for paragraph in text.split("\n\n"):
        fields: dict[str, str] = {}
        for line in paragraph.replace("\n ", "\0").split("\n"):
            name, _, value = line.partition(":")
            fields[name] = value.replace("\0", " ").strip()
        yield fields


def long_descriptions(folder: str | None) -> dict[str, str]:
    """Return the long descriptions by the checksums in the package lists."""
    wanted = ["Created-By: Translations", "Language: en"]
    files = apt(["apt-get", "indextargets", "--format", "$(FILENAME)", *wanted], folder).split()
    texts = {}
    for path in filter(os.path.exists, files):
        for fields in records(apt([HELPER, "cat-file", path], None)):
            if "Description-en" in fields:
                texts[fields["Description-md5"]] = fields["Description-en"]
    return texts


def packages(
    folder: str | None = None, facets: tuple[str, ...] = FACETS
) -> list[dict[str, object]]:
    """Return name, source, description and tags of the packages with tags of these facets."""
    whole = long_descriptions(folder)
    rows: dict[str, dict[str, object]] = {}
    for fields in records(apt(["apt-cache", "dumpavail"], folder)):
        tags = [tag.strip() for tag in fields.get("Tag", "").split(",")]
        tags = [tag for tag in tags if tag.split("::")[0] in facets and not tag.endswith("TODO")]
        if tags and fields["Package"] not in rows:
            rows[fields["Package"]] = {
                "name": fields["Package"],
                "source": fields.get("Source", fields["Package"]).split()[0],
                "description": whole.get(fields.get("Description-md5", ""), fields["Description"]),
                "tags": tags,
            }
    return list(rows.values())


def sample(rows: list[dict], n: int | None, min_count: int = MIN_COUNT) -> list[dict]:
    """Return n random rows, with the tags that at least `min_count` packages have."""
    counts = Counter(tag for row in rows for tag in row["tags"])
    rows = [{**row, "tags": [t for t in row["tags"] if counts[t] >= min_count]} for row in rows]
    rows = [row for row in rows if row["tags"]]
    if n is None or n >= len(rows):
        return rows
    return [rows[i] for i in np.sort(np.random.default_rng(0).choice(len(rows), n, replace=False))]


def with_wrong_tags(rows: list[dict], r: int = 1) -> list[dict]:
    """Add r wrong tags to each row; `truth` keeps the original tags."""
    labels = as_labels([row["tags"] for row in rows])
    noisy = label_lists(add_noise(labels.matrix, r, random_state=0), labels.names)
    return [
        {**row, "tags": tags, "truth": row["tags"]} for row, tags in zip(rows, noisy, strict=True)
    ]


def write_csv(rows: list[dict], path: Path) -> None:
    """Write the table as a user would have it."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["name", "source", "description", "tags"])
        for row in rows:
            writer.writerow([row["name"], row["source"], row["description"], ";".join(row["tags"])])


def clean(rows: list[dict], folder: Path, *options: str) -> tuple[np.ndarray, np.ndarray]:
    """Run the program; return the confidences of all tags, and which ones were added."""
    write_csv(rows, folder / "packages.csv")
    argv = ["clean", str(folder / "packages.csv"), "--text", "name,description", *options]
    argv += ["-o", str(folder / "cleaned.csv"), "--report", str(folder / "report.html")]
    if schirn(argv) != 0:
        raise SystemExit(1)
    confidence, wrong = [], []
    with (folder / "cleaned.csv").open(newline="", encoding="utf-8") as stream:
        for row, cells in zip(rows, csv.DictReader(stream), strict=True):
            for pair in cells["tags_confidence"].split(";"):
                tag, _, value = pair.rpartition("=")
                confidence.append(float(value))
                wrong.append(tag not in row["truth"])
    return np.array(confidence), np.array(wrong)


def line(name: str, confidence: np.ndarray, wrong: np.ndarray) -> str:
    """Return a line of the table, for tags with a probability below one half."""
    is_low = confidence < 0.5
    return (
        f"| {name} | {wrong.mean():.1%} | {is_low.sum():,} | {wrong[is_low].mean():.1%} | "
        f"{is_low[wrong].mean():.1%} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fetch", action="store_true", help="download lists and descriptions")
    parser.add_argument("--rows", type=int, metavar="N", help="size of a sample (default: all)")
    parser.add_argument("--keep", metavar="DIR", help="keep tables and reports in this folder")
    args = parser.parse_args()
    if shutil.which("apt-cache") is None:
        sys.exit("this needs a Debian system with apt-cache")
    with tempfile.TemporaryDirectory() as folder:
        keep = Path(args.keep or folder)
        keep.mkdir(parents=True, exist_ok=True)
        if args.fetch:
            Path(folder, "lists", "partial").mkdir(parents=True)
            apt(["apt-get", "update"], folder)
        rows = with_wrong_tags(sample(packages(folder if args.fetch else None), args.rows))
        if not rows:
            sys.exit("the package lists have no tags; run apt-get update, or pass --fetch")
        print("| table | wrong | below one half | of these wrong | wrong ones among them |")
        print("|---|--:|--:|--:|--:|")
        print(line("Debian packages", *clean(rows, keep)))
        print(line("Debian, other sources", *clean(rows, keep, "--group", "source")))


if __name__ == "__main__":
    main()

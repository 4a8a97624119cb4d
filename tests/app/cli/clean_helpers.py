"""Tables of texts with tags, some of them wrong."""

import csv
import io
from unittest.mock import patch

import numpy as np

from schirn.app.cli import main

WORDS = {
    "beach": "sand wave shore palm",
    "dog": "bark tail leash puppy",
    "sunset": "orange dusk horizon glow",
    "city": "street tower traffic neon",
}


def make_items(n=160, names=None, seed=0):
    """Texts, noisy tags and the wrong ones; names replace the four tags."""
    rng = np.random.default_rng(seed)
    names = dict(zip(WORDS, names or WORDS, strict=True))
    items = []
    for i in range(n):
        true = rng.choice(list(WORDS), size=rng.integers(1, 3), replace=False).tolist()
        words = [w for tag in true for w in rng.permutation(WORDS[tag].split())[:3]]
        wrong = [t for t in WORDS if t not in true and rng.random() < 0.15]
        tags = rng.permutation([*true, *wrong]).tolist()
        text = f"picture {i} " + " ".join(words)
        items.append((text, [names[t] for t in tags], {names[t] for t in wrong}))
    return items


def write_csv(path, items, separator=";", **options):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, **options)
        writer.writerow(["id", "description", "tags", "code"])
        for i, (text, tags, _) in enumerate(items):
            writer.writerow([f"{i:04d}", text, separator.join(tags), f"00{i % 7}"])
    return str(path)


def read_csv(path, **options):
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, **options))


def make_project(source, folder, *options):
    """Begin a review in the terminal and quit at the first question; return the exit code."""
    with patch("sys.stdin", io.StringIO()):
        return main(["review", str(source), *options, "--project", str(folder), "--terminal"])


def refused(capsys, *argv):
    assert main(list(argv)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("schirn: ")
    assert captured.err.count("\n") == 1
    return captured.err

"""From a table to a tagger: clean, fit and predict on Debian's packages.

    python -m benchmarks.tagger --fetch             # all packages; needs apt and a network
    python -m benchmarks.tagger --fetch --rows 6000

A fifth of the packages, whole source packages, are held out. Every other package gets one wrong
tag. Then the three commands are run as a user would type them, and the predicted tags of the
packages held out are compared with their tags. Logistic regression learns from the given tags, with
the same features, and predicts the tags with a probability above one half.
"""

import argparse
import csv
import importlib.util
import io
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, precision_score, recall_score
from sklearn.model_selection import GroupShuffleSplit
from sklearn.multiclass import OneVsRestClassifier

from schirn.app.cli import main as program
from schirn.features import TextFeatures
from schirn.labels.matrix import as_labels

EXAMPLE = Path(__file__).parents[1] / "examples" / "debian_tags.py"


def schirn(*argv: str) -> None:
    """Run a command of the program, quietly."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = program(list(argv))
    if code:
        raise SystemExit(f"schirn {' '.join(argv)}: exit code {code}\n{printed.getvalue()}")


def tagged(folder: Path, table: Path, new: Path, *, clean: bool) -> list[list[str]]:
    """Predicted tags of the new table."""
    model, out = str(folder / "tagger.schirn"), str(folder / "tagged.csv")
    source = str(table)
    if clean:
        source = str(folder / "cleaned.csv")
        schirn("clean", str(table), "--text", "description", "--remove-below", "0.5", "-o", source)
    schirn("fit", source, "--labels", "tags", "--text", "description", "-o", model)
    schirn("predict", model, str(new), "-o", out)
    with open(out, newline="", encoding="utf-8") as stream:
        return [row["tags_predicted"].split(";") for row in csv.DictReader(stream)]


def logistic(train: list[dict[str, Any]], test: list[dict[str, Any]]) -> list[list[str]]:
    """Predicted tags of one-vs-rest logistic regression on the given tags."""
    features = TextFeatures()
    X = features.fit_transform([row["description"] for row in train])
    labels = as_labels([row["tags"] for row in train])
    model = OneVsRestClassifier(LogisticRegression(max_iter=1000)).fit(X, labels.matrix)
    P = model.predict_proba(features.transform([row["description"] for row in test]))
    return [[labels.names[j] for j in np.flatnonzero(row > 0.5)] for row in P]


def load_example(path: Path) -> Any:
    """Return an example as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, help="number of packages (default: all)")
    parser.add_argument("--fetch", action="store_true", help="download the package lists")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    debian = load_example(EXAMPLE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.fetch:
            Path(folder, "lists", "partial").mkdir(parents=True)
            debian.apt(["apt-get", "update"], name)
        rows = debian.sample(debian.packages(name if args.fetch else None), args.rows)
        groups = [row["source"] for row in rows]
        split = GroupShuffleSplit(1, test_size=0.2, random_state=0)
        train, test = next(split.split(rows, groups=groups))
        known, new = debian.with_wrong_tags([rows[i] for i in train]), [rows[i] for i in test]
        debian.write_csv(known, folder / "table.csv")
        debian.write_csv([{**row, "tags": []} for row in new], folder / "new.csv")
        truth = [row["tags"] for row in new]
        ways: dict[str, Callable[[], list[list[str]]]] = {
            "clean, fit, predict": lambda: tagged(
                folder, folder / "table.csv", folder / "new.csv", clean=True
            ),
            "fit, predict": lambda: tagged(
                folder, folder / "table.csv", folder / "new.csv", clean=False
            ),
            "logistic regression on the given tags": lambda: logistic(known, new),
        }
        print(f"{len(known):,} packages with wrong tags, {len(new):,} held out\n")
        print("| who | micro-F1 | precision | recall | seconds |\n|---|--:|--:|--:|--:|")
        for who, way in ways.items():
            start = time.perf_counter()
            found = way()
            seconds = time.perf_counter() - start
            names = sorted({tag for tags in (*truth, *found) for tag in tags if tag})
            Y, P = (
                np.array([[name in tags for name in names] for tags in lists])
                for lists in (truth, found)
            )
            scores = [
                100 * float(score(Y, P, average="micro", zero_division=0))
                for score in (f1_score, precision_score, recall_score)
            ]
            print(
                f"| {who} | {' | '.join(f'{s:.1f}' for s in scores)} | {seconds:.0f} |", flush=True
            )


if __name__ == "__main__":
    main()

"""What encoders bring: wrong tags found, and tags of new rows, on three sets of texts.

    SCHIRN_DATA=folder python -m benchmarks.encoders --fetch --encoder wordllama --encoder FOLDER

- Debian's packages, by the first lines of their descriptions and by the whole descriptions: one
  wrong tag is added to each package. A fifth of the packages, whole source packages, are held out.
- `crowd_relations`, which relation a sentence expresses: the candidates are what any of three
  workers chose, a label is true if at least half of the others chose it. A fifth is held out.

Each encoder is measured by its vectors alone, and beside tf-idf weights, as `--encoder` uses them.
Precision and recall are those of the tags that Sieve removes at its default threshold, without
regard to the precision that `schirn clean` asks for; AUC is that of the confidences of all tags.
"""

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import GroupShuffleSplit

from benchmarks.tagger import EXAMPLE, load_example
from benchmarks.votes import FILE, draw
from schirn import Sieve
from schirn.features import Encoder, TableFeatures
from schirn.labels.matrix import as_labels

SEEDS = 3


class Texts(NamedTuple):
    """Texts with noisy and true labels; `known` are trained on and judged, `new` are tagged."""

    known: list[str]
    candidates: np.ndarray
    truth: np.ndarray
    new: list[str]
    new_truth: np.ndarray


def debian_texts(rows: list[dict[str, Any]], column: str, debian: Any) -> Texts:
    """Packages with one wrong tag each, and others that are held out."""
    groups = [row["source"] for row in rows]
    split = GroupShuffleSplit(1, test_size=0.2, random_state=0)
    train, test = next(split.split(rows, groups=groups))
    known, new = debian.with_wrong_tags([rows[i] for i in train]), [rows[i] for i in test]
    labels = as_labels([row["tags"] for row in known])
    names = set(labels.names)
    tags = [[tag for tag in row["tags"] if tag in names] for row in new]
    return Texts(
        [row[column] for row in known],
        labels.matrix,
        as_labels([row["truth"] for row in known], names=labels.names).matrix,
        [row[column] for row in new],
        as_labels(tags, names=labels.names).matrix,
    )


def debian_sets(n: int, fetch: bool) -> Iterator[tuple[str, list[Texts]]]:
    """Yield Debian's packages with short and with long texts."""
    debian = load_example(EXAMPLE)
    with tempfile.TemporaryDirectory() as folder:
        if fetch:
            Path(folder, "lists", "partial").mkdir(parents=True)
            debian.apt(["apt-get", "update"], folder)
        source = folder if fetch else None
        rows = debian.sample(debian.packages(source), n)
        listed = debian.records(debian.apt(["apt-cache", "dumpavail"], source))
        short = {each["Package"]: each["Description"] for each in listed if "Description" in each}
    rows = [{**row, "line": short[row["name"]]} for row in rows]
    yield "Debian, first lines", [debian_texts(rows, "line", debian)]
    yield "Debian, descriptions", [debian_texts(rows, "description", debian)]


def crowd_set(path: Path) -> Iterator[tuple[str, list[Texts]]]:
    """Yield the sentences, with other workers for each seed."""
    texts = np.array([str(text) for text in np.load(path)["texts"]])
    found = []
    for seed in range(SEEDS):
        data = draw(path, seed)
        order = np.random.default_rng(seed).permutation(len(texts))
        new, known = np.split(order, [len(texts) // 5])
        C, T = data.votes.candidates, data.truth
        found.append(Texts(list(texts[known]), C[known], T[known], list(texts[new]), T[new]))
    yield "crowd_relations", found


def measure(texts: Texts, encoder: str | None, alone: bool) -> list[float]:
    """AUC, precision and recall of the verdicts, micro-F1 of the new rows, and seconds."""
    start = time.perf_counter()
    if alone:
        features: Any = Encoder(encoder or "").fit()
        X, new = features.transform(texts.known), features.transform(texts.new)
    else:
        features = TableFeatures(text="text", encoder=encoder)
        X = features.fit_transform({"text": texts.known})
        new = features.transform({"text": texts.new})
    model = Sieve(features="none").fit(X, texts.candidates)
    predicted = model.predict(new)
    listed = texts.candidates > 0
    confidence, wrong = model.label_confidence_[listed], texts.truth[listed] == 0
    removed = confidence < 0.5
    return [
        roc_auc_score(wrong, -confidence),
        wrong[removed].mean() if removed.any() else np.nan,
        removed[wrong].mean(),
        f1_score(texts.new_truth, predicted, average="micro", zero_division=0),
        time.perf_counter() - start,
    ]


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=3000, help="packages (default: 3000)")
    parser.add_argument("--fetch", action="store_true", help="download the package lists")
    parser.add_argument("--encoder", action="append", default=[], help="may be repeated")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    sets = list(debian_sets(args.rows, args.fetch))
    path = Path(os.environ.get("SCHIRN_DATA", ""), FILE)
    if path.is_file():
        sets[1:1] = crowd_set(path)
    print("| texts | encoder | AUC | removals right | wrong tags found | micro-F1 | seconds |")
    print("|---|---|--:|--:|--:|--:|--:|", flush=True)
    for name, drawn in sets:
        ways: list[tuple[str, str | None, bool]] = [("tf-idf", None, False)]
        for encoder in args.encoder:
            ways += [(encoder, encoder, True), (f"tf-idf and {encoder}", encoder, False)]
        for words, encoder, alone in ways:
            found = np.mean([measure(each, encoder, alone) for each in drawn], axis=0)
            auc, right, recall, f1 = ("–" if np.isnan(v) else f"{100 * v:.1f}" for v in found[:4])
            print(
                f"| {name} | {words} | {auc} | {right} | {recall} | {f1} | {found[4]:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

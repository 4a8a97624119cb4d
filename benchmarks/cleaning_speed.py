"""Time and quality of `find_noisy_labels` on short texts, relative to work done in the same run.

    python -m benchmarks.cleaning_speed

- 3,000 generated texts of 12 words (about 3,000 different ones) with 37 tags, relative to one
  symmetric eigendecomposition of 2,400 x 2,400. At most 4 of them.
- 3,000 product titles of a small vocabulary with 37 tags, relative to five-fold logistic regression
  on tf-idf weights, plus cleanlab if it is installed. At most as long.

One wrong tag per row; precision and recall are computed over the listed tags. Times are means
of CPU seconds of runs that alternate.
"""

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier

from schirn import find_noisy_labels
from schirn.datasets import add_noise
from schirn.metrics import noise_report

TAGS = 37
EIGH_ROWS = 2400
MAX_EIGH, MAX_LOGISTIC = 4.0, 1.0
Array = np.ndarray


class Table(NamedTuple):
    """Texts, listed tags and true tags."""

    texts: list[str]
    listed: Array
    truth: Array


def short_texts(rows: int, seed: int = 0) -> Table:
    """Texts of 12 words: half from the 25 words of each of their tags, the rest from a Zipf law."""
    rng = np.random.default_rng(seed)
    own, common = 25, 2100
    weights = 1 / (np.arange(common) + 10.0)
    truth = np.zeros((rows, TAGS), dtype=np.uint8)
    texts = []
    for i in range(rows):
        tags = rng.choice(TAGS, rng.integers(1, 4), replace=False)
        truth[i, tags] = 1
        topical = [f"t{t}w{w}" for t, w in zip(rng.choice(tags, 6), rng.integers(own, size=6))]  # noqa: B905
        plain = [f"c{w}" for w in rng.choice(common, 6, p=weights / weights.sum())]
        texts.append(" ".join(rng.permutation(topical + plain)))
    return Table(texts, add_noise(truth, 1, random_state=seed), truth)


def products(rows: int, seed: int = 0) -> Table:
    """Titles such as "red steel pan kitchen": one of two words per tag, and filler words."""
    rng = np.random.default_rng(seed)
    groups = np.split(np.arange(TAGS), [12, 22, 30])
    truth = np.zeros((rows, TAGS), dtype=np.uint8)
    texts = []
    for i in range(rows):
        tags = [rng.choice(group) for group in groups]
        truth[i, tags] = 1
        # A tenth of the titles leave a word out.
        words = [f"tag{t}{'ab'[rng.integers(2)]}" for t in tags if rng.random() < 0.9]
        texts.append(
            " ".join(rng.permutation([*words, *(f"f{w}" for w in rng.integers(60, size=3))]))
        )
    return Table(texts, add_noise(truth, 1, random_state=seed), truth)


def ours(table: Table) -> dict[str, float]:
    """Tags that `find_noisy_labels` puts below one half."""
    ranking = find_noisy_labels(table.texts, table.listed).remove(below=0.5)
    wrong = (table.listed == 1) & (ranking.clean == 0)
    return noise_report(table.truth, table.listed, wrong)


def logistic(table: Table) -> dict[str, float]:
    """Five-fold logistic regression, and the issues that cleanlab finds in its probabilities."""
    X = TfidfVectorizer(token_pattern=r"\S+").fit_transform(table.texts)
    P = np.zeros(table.listed.shape)
    for train, test in KFold(5, shuffle=True, random_state=0).split(table.listed):
        model = OneVsRestClassifier(LogisticRegression(max_iter=1000))
        P[test] = model.fit(X[train], table.listed[train]).predict_proba(X[test])
    if importlib.util.find_spec("cleanlab") is None:
        return {}
    from cleanlab.multilabel_classification.filter import find_multilabel_issues_per_class

    given = [np.flatnonzero(row).tolist() for row in table.listed]
    issues = np.asarray(find_multilabel_issues_per_class(given, P, n_jobs=1)).astype(bool)
    return noise_report(table.truth, table.listed, issues & (table.listed == 1))


def decompose() -> dict[str, float]:
    """One eigendecomposition in double precision."""
    A = np.random.default_rng(0).standard_normal((EIGH_ROWS, EIGH_ROWS))
    eigh(A + A.T)
    return {}


def clock(work: Callable[[], dict[str, float]]) -> tuple[float, dict[str, float]]:
    """CPU time of one call, and its result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def compare(
    name: str, yardstick: str, first: Callable[[], Any], second: Callable[[], Any], repeats: int
) -> float:
    """Print two lines, and return the ratio of the mean times."""
    times, results = np.zeros((repeats, 2)), [{}, {}]
    for k in range(repeats):
        for side, work in enumerate((first, second)):
            times[k, side], results[side] = clock(work)
    mean = times.mean(axis=0)
    for side, who in enumerate(("find_noisy_labels", yardstick)):
        report = results[side]
        quality = [
            f"{100 * report[key]:.1f}" if key in report else "–" for key in ("precision", "recall")
        ]
        print(
            f"| {name} | {who} | {mean[side]:.2f} | {mean[side] / mean[1]:.2f} "
            f"| {' | '.join(quality)} |",
            flush=True,
        )
    return float(mean[0] / mean[1])


def main() -> None:
    """Print one table and what must hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    there = importlib.util.find_spec("cleanlab") is not None
    rival = "five-fold logistic regression" + (" + cleanlab" if there else "")
    texts, titles = short_texts(args.rows), products(args.rows)
    # Imports and thread pools are not part of the comparison.
    find_noisy_labels(texts.texts[:300], texts.listed[:300])
    print("| data | who | seconds | ratio | precision | recall |")
    print("|---|---|--:|--:|--:|--:|")
    size = f"eigh of {EIGH_ROWS:,} x {EIGH_ROWS:,}"
    eigh_ratio = compare("short texts", size, lambda: ours(texts), decompose, args.repeats)
    compare("short texts", rival, lambda: ours(texts), lambda: logistic(texts), args.repeats)
    ratio = compare("products", rival, lambda: ours(titles), lambda: logistic(titles), args.repeats)
    print()
    for text, value, limit in (
        ("short texts, relative to one eigendecomposition", eigh_ratio, MAX_EIGH),
        (f"products, relative to {rival}", ratio, MAX_LOGISTIC),
    ):
        verdict = "holds" if value <= limit else "FAILS"
        print(f"- {verdict}: {text}: {value:.2f} (at most {limit:g})")


if __name__ == "__main__":
    main()

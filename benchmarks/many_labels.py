"""Cleaning very many labels: what it finds on EUR-Lex, and its cost with 100,000 labels.

    SCHIRN_DATA=... python -m benchmarks.many_labels --eurlex
    SCHIRN_DATA=... python -m benchmarks.many_labels --no-harm
    python -m benchmarks.many_labels --promise [--seed 1]
    python -m benchmarks.many_labels --rows 200000 --features 100000 --labels 100000

--eurlex adds wrong labels to the training rows, drawn as often as the labels occur or uniformly;
removes what `CentroidRanker` puts below one half; and prints precision at 1, 3 and 5 on the test
rows of a ridge that has learned from the candidates, from what is left of them, and from the true
labels.

--no-harm ranks EUR-Lex, also its first rows only, with few of its words and with rows in another
order, which say little or nothing about the labels, and four other sets.

--promise ranks generated tables: label frequencies that fall fast and
slowly, no to many wrong labels, words and dense vectors, weak and meaningless features.

Both print in %: the share of wrong tags and its upper bound without answers; how many of the tags
below one half are wrong, in all and among labels in fewer than ten rows; the share of these tags,
and how many of all wrong tags they are.

Otherwise sparse data are generated: every label has ten words of its own, label frequencies fall
like 1/rank, and half of the candidates are wrong. Memory is the peak that the operating system
reports, for the whole process and before the cleaning.
"""

import argparse
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import normalize

from benchmarks.measure import peak_gigabytes
from schirn.cleaning import CentroidRanker, NoisyLabels, find_noisy_labels
from schirn.datasets import load

CARDINALITY, WORDS = 5, 10
# Test rows of EUR-Lex, the last ones.
N_TEST = 3809
# Whether frequent labels are added more often, and the number of wrong labels per row.
NOISES = {"frequency5": (True, 5), "frequency10": (True, 10), "uniform5": (False, 5)}


def main() -> None:
    """Run one of the two parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--eurlex", action="store_true")
    parser.add_argument("--no-harm", action="store_true")
    parser.add_argument("--promise", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--noise", default=",".join(NOISES), help="kinds of noise on EUR-Lex")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=100_000)
    args = parser.parse_args()
    if args.eurlex:
        eurlex(args.noise.split(","))
    elif args.no_harm:
        no_harm()
    elif args.promise:
        promise(args.seed)
    else:
        generated(args.rows, args.features, args.labels)


def eurlex(noises: list[str]) -> None:
    """Clean EUR-Lex and learn from the result."""
    data = load("eurlex4k")
    X, truth = (sp.csr_array(part) for part in (normalize(data.X.astype(np.float32)), data.y_true))
    n = data.n_samples - N_TEST
    y = truth[:n]
    learn = Ridges(X[:n], X[n:], truth[n:])
    print(f"true labels: {learn.precision(y)}", flush=True)
    for popular, r in (NOISES[noise] for noise in noises):
        candidates = with_noise(y, r, popular, np.random.default_rng(0))
        kind = "by frequency" if popular else "uniform"
        print(f"{r} wrong labels per row, {kind}: {learn.precision(candidates)}", flush=True)
        start = time.process_time()
        ranking = judge(X[:n], candidates)
        took = time.process_time() - start
        print(f"  cleaned: {learn.precision(ranking.clean_sparse)}")
        print(f"    {quality(ranking, y)}; {took:.1f} s", flush=True)
    print(f"peak memory {peak_gigabytes():.1f} GB")


def judge(X: Any, candidates: sp.csr_array, **options: Any) -> NoisyLabels:
    """Judge tags by label centroids, however many labels there are."""
    return find_noisy_labels(X, candidates, method=CentroidRanker(), **options).remove(below=0.5)


def no_harm() -> None:
    """Print what is removed where features are strong, weak and meaningless."""
    data = load("eurlex4k")
    n, rng = data.n_train, np.random.default_rng(0)
    X, y = sp.csr_array(data.X)[:n].astype(np.float32), sp.csr_array(data.y_true)[:n]
    words = {k: np.sort(rng.choice(X.shape[1], k, replace=False)) for k in (300, 30)}
    tables = {
        "all words": X,
        "all words, first 4,000 rows": X[:4000],
        **{f"{k} words": sp.csr_array(X[:, some]) for k, some in words.items()},
        "rows in another order": X[rng.permutation(n)],
    }
    head("wrong labels per row", "features")
    for r in (0, 1, 5, 10):
        candidates = with_noise(y, r, True, np.random.default_rng(0))
        for name, features in tables.items():
            rows = features.shape[0]
            line(judge(features, candidates[:rows]), y[:rows], str(r), name)
    # Nothing was chosen on these.
    for name in ("bibtex", "corel5k", "delicious", "enron"):
        data = load(name)
        y = sp.csr_array(data.y_true)
        for r, popular in ((0, True), (1, True), (3, True), (3, False)):
            candidates = with_noise(y, r, popular, np.random.default_rng(0))
            kind = f"{r}{'' if popular else ' uniform'}"
            line(judge(data.X, candidates), y, kind, name)


def head(*first: str) -> None:
    """Print the first two lines of a table of precisions."""
    cells = (*first, "wrong", "right", "rare: right", "removed", "found")
    print(f"| {' | '.join(cells)} |\n|{'---|' * len(first)}{'--:|' * 5}", flush=True)


def line(ranking: Any, y: Any, *first: str) -> None:
    """Print the precision of the tags below one half, and how many of the wrong ones they are."""
    wrong = ~true_cells(ranking, y)
    counts = np.bincount(ranking.column, minlength=y.shape[1])[ranking.column]
    cells = [
        percent(wrong),
        percent(wrong[ranking.removed]),
        percent(wrong[ranking.removed & (counts < 10)]),
        percent(ranking.removed),
        percent(ranking.removed[wrong]),
    ]
    print(f"| {' | '.join((*first, *cells))} |", flush=True)


def percent(values: Any) -> str:
    """Mean in percent, or a dash if there is none."""
    return f"{100 * np.mean(values):.1f}" if len(values) else "–"


def true_cells(ranking: Any, y: Any) -> np.ndarray:
    """Which tags are correct."""
    n, l = y.shape
    true = np.repeat(np.arange(n), np.diff(y.indptr)) * l + y.indices
    return np.isin(ranking.row * l + ranking.column, true)


class Ridges:
    """Ridge regressions of several label matrices on the same rows, with one factor."""

    def __init__(self, X: Any, X_test: Any, truth: Any) -> None:
        self.X, self.X_test, self.truth = X, X_test, truth.toarray()
        gram = (X.T @ X).toarray()
        gram.flat[:: len(gram) + 1] += 1
        self.factor = cho_factor(gram, overwrite_a=True)

    def precision(self, labels: Any) -> str:
        """Precision at 1, 3 and 5 on the test rows."""
        W = cho_solve(self.factor, (self.X.T @ labels.astype(np.float32)).toarray())
        return precision_at(self.X_test @ W, self.truth)


def precision_at(scores: np.ndarray, truth: np.ndarray) -> str:
    """Precision at 1, 3 and 5."""
    best = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    hits = np.take_along_axis(truth, best, axis=1)
    return ", ".join(f"P@{k} {100 * hits[:, :k].mean():.1f}" for k in (1, 3, 5))


def with_noise(y: Any, r: int, popular: bool, rng: np.random.Generator) -> sp.csr_array:
    """Add r wrong labels to every row, in proportion to their frequency or uniformly."""
    n, l = y.shape
    frequency = np.asarray(y.sum(axis=0)).ravel() if popular else np.ones(l)
    total = np.cumsum(frequency / frequency.sum())
    true = np.repeat(np.arange(n), np.diff(y.indptr)) * l + y.indices
    cells, missing = np.sort(true), np.full(n, r)
    while missing.any():
        row = np.repeat(np.arange(n), missing)
        label = np.searchsorted(total, rng.random(len(row)), side="right").clip(max=l - 1)
        cells = np.union1d(cells, row * l + label)
        missing = r + np.diff(y.indptr) - np.bincount(cells // l, minlength=n)
    ones = np.ones(len(cells), dtype=np.uint8)
    return sp.csr_array((ones, (cells // l, cells % l)), shape=y.shape)


def quality(ranking: Any, y: Any) -> str:
    """How well verdicts agree with the truth."""
    true = true_cells(ranking, y)
    judged, removed = ranking.judged, ranking.removed
    return (
        f"AUC {100 * roc_auc_score(true[judged], ranking.confidence[judged]):.1f}, "
        f"{100 * (~true).mean():.1f}% wrong, "
        f"removed {100 * removed.mean():.1f}%, "
        f"{100 * (~true[removed]).mean():.1f}% of these wrong, "
        f"unjudged {100 * (~judged).mean():.1f}%"
    )


# Rows, labels and the options of `table`.
TABLES = {
    "8,000 x 4,000": (8000, 4000, {}),
    "20,000 x 20,000": (20_000, 20_000, {"d": 20_000}),
    "3,000 x 3,000": (3000, 3000, {"d": 3000}),
    "8,000 x 4,000, many rare labels": (8000, 4000, {"law": 0.6}),
    "8,000 x 4,000, few frequent labels": (8000, 4000, {"law": 1.3}),
    "8,000 x 4,000, dense vectors": (8000, 4000, {"d": 128, "dense": True}),
    "8,000 x 4,000, 2 words per label": (8000, 4000, {"words": 2}),
    "8,000 x 4,000, 1 word per label": (8000, 4000, {"words": 1}),
    "8,000 x 4,000, rows in another order": (8000, 4000, {"shuffled": True}),
}
# Share of wrong labels, and whether frequent labels are added more often.
SHARES = ((0.0, True), (0.04, True), (0.3, True), (0.5, True), (0.5, False))


def promise(seed: int) -> None:
    """Print expected and true precision on generated tables."""
    head("table", "wrong labels")
    for name, (n, l, options) in TABLES.items():
        for share, popular in SHARES:
            X, y, candidates = table(n, l, share, popular, seed=seed, **options)
            kind = "by frequency" if popular else "uniform"
            line(judge(X, candidates), y, name, kind if share else "none")


def table(
    n: int,
    l: int,
    share: float,
    popular: bool,
    *,
    d: int = 8000,
    law: float = 1.0,
    words: int = 8,
    dense: bool = False,
    shuffled: bool = False,
    cardinality: int = 3,
    seed: int = 1,
) -> tuple[Any, sp.csr_array, sp.csr_array]:
    """Features, true labels, and candidates of which a share is wrong.

    Label frequencies fall like rank^-law. A row has some of the ten words of each of its labels and
    thirty words of any kind; or the sum of a vector per label, and normal noise of equal length.
    """
    rng = np.random.default_rng(seed)
    total = np.cumsum(np.arange(1, l + 1) ** -law)
    drawn = rng.random(n * cardinality) * total[-1]
    label = np.searchsorted(total, drawn, side="right").clip(max=l - 1)
    row = np.repeat(np.arange(n), cardinality)
    y = sp.csr_array((np.ones(len(row), np.uint8), (row, label)), shape=(n, l))
    y.sum_duplicates()
    y.data[:] = 1
    if dense:
        X: Any = y.astype(np.float32) @ rng.normal(size=(l, d)).astype(np.float32)
        X += rng.normal(size=X.shape).astype(np.float32) * np.sqrt(cardinality)
    else:
        own = rng.integers(d, size=(l, WORDS))
        pick = rng.integers(WORDS, size=(len(label), words))
        word = np.r_[own[label[:, None], pick].ravel(), rng.integers(d, size=n * 30)]
        at = np.r_[np.repeat(row, words), np.repeat(np.arange(n), 30)]
        X = sp.csr_array((np.ones(len(word), np.float32), (at, word)), shape=(n, d))
    if shuffled:
        X = X[rng.permutation(n)]
    per_row = share * cardinality / (1 - share)
    added = with_noise(y, int(np.ceil(per_row)), popular, rng).tocoo()
    # Every wrong label is kept with the probability that makes up for the rounding.
    cell, true = (
        added.row * l + added.col,
        np.repeat(np.arange(n), np.diff(y.indptr)) * l + y.indices,
    )
    keep = np.isin(cell, true) | (rng.random(len(cell)) < per_row / max(np.ceil(per_row), 1))
    ones = np.ones(keep.sum(), dtype=np.uint8)
    return X, y, sp.csr_array((ones, (added.row[keep], added.col[keep])), shape=(n, l))


def generated(n: int, d: int, l: int) -> None:
    """Generate sparse rows and clean their candidates."""
    rng = np.random.default_rng(0)
    frequency = 1 / np.arange(1, l + 1)
    total = np.cumsum(frequency / frequency.sum())
    label = np.searchsorted(total, rng.random(n * CARDINALITY), side="right").clip(max=l - 1)
    row = np.repeat(np.arange(n), CARDINALITY)
    y = sp.csr_array((np.ones(len(row), np.uint8), (row, label)), shape=(n, l))
    y.sum_duplicates()
    y.data[:] = 1
    # Eight words of each true label out of its ten, and thirty words of any kind.
    own = rng.integers(d, size=(l, WORDS))
    pick = rng.integers(WORDS, size=(len(label), 8))
    words = np.r_[own[label[:, None], pick].ravel(), rng.integers(d, size=n * 30)]
    at = np.r_[np.repeat(row, 8), np.repeat(np.arange(n), 30)]
    X = sp.csr_array((np.ones(len(words), np.float32), (at, words)), shape=(n, d))
    del words, at, pick, own
    candidates = with_noise(y, CARDINALITY, True, rng)
    before = peak_gigabytes()
    print(
        f"{n:,} rows, {d:,} features ({X.nnz:,} entries), {l:,} labels, {candidates.nnz:,} tags; "
        f"peak memory so far {before:.2f} GB",
        flush=True,
    )
    start, clock = time.process_time(), time.perf_counter()
    ranking = judge(X, candidates, verbose=True)
    took, clock = time.process_time() - start, time.perf_counter() - clock
    print(f"CPU {took:.0f} s (wall {clock:.0f} s), peak memory {peak_gigabytes():.2f} GB")
    print(quality(ranking, y))


if __name__ == "__main__":
    main()

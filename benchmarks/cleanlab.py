"""Wrong tags found by cleanlab and by this library on the same data, and the time they take.

    pip install cleanlab
    python -m benchmarks.cleanlab

cleanlab judges the out-of-fold probabilities of a user-supplied classifier: here logistic
regression, logistic regression on Gaussian kernel features, a random forest and `Sieve`, each
trained on the given tags in five folds. cleanlab decides by its default settings.
`find_noisy_labels` ranks by one fit of `Sieve`, which gives the AUC, and removes what fifty answers
allow, given here by the truth. Otherwise the truth is used for scoring only. With `--published`,
cleanlab's own benchmark is rebuilt instead (`benchmarks.cleanlab_published`).
"""

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.cleanlab_published import main as published
from schirn import Sieve, find_noisy_labels
from schirn.datasets import Dataset, load_digits_attributes, make_partial_multilabel
from schirn.metrics import noise_report

Array = np.ndarray


class Verdict(NamedTuple):
    """Confidence that each listed tag is correct, and the tags judged wrong, both (n, l)."""

    confidence: Array
    wrong: Array


def settings(rows: int) -> dict[str, Dataset]:
    """Data sets by name, with their noise."""
    digits = {
        f"digits, {words}": load_digits_attributes(**noise).subset(range(min(rows, 1797)))
        for words, noise in {
            "1 wrong tag per row": {"r": 1},
            "3 wrong tags per row": {"r": 3},
            "coin tosses, rate 0.2": {"kind": "rate", "rate": 0.2},
            "2 wrong tags that look right": {"r": 2, "kind": "feature"},
        }.items()
    }
    return digits | {
        "generated, 1 wrong tag per row": _generated(rows, r=1),
        "generated, 3 wrong tags per row": _generated(rows, r=3),
        "generated, coin tosses, rate 0.2": _generated(rows, noise="rate", rate=0.2),
    }


def _generated(rows: int, **noise: Any) -> Dataset:
    return make_partial_multilabel(
        n_samples=rows, n_features=40, n_labels=12, cardinality=2.5, random_state=0, **noise
    )


def classifiers() -> dict[str, Any]:
    """Classifiers whose probabilities cleanlab judges."""
    logistic = OneVsRestClassifier(LogisticRegression(max_iter=2000))
    kernel = Nystroem(n_components=300, random_state=0)
    return {
        "logistic regression": make_pipeline(StandardScaler(), logistic),
        "kernel logistic regression": make_pipeline(StandardScaler(), kernel, logistic),
        "random forest": RandomForestClassifier(200, random_state=0),
        "Sieve": Sieve(),
    }


def ours(data: Dataset) -> Verdict:
    """Confidences of `find_noisy_labels`, and what fifty answers remove."""
    ranking = find_noisy_labels(data.X, data.candidates)
    confidence = ranking.matrix()
    for _ in range(2):
        asked = ranking.questions(25)
        ranking = ranking.answered(asked, data.y_true[asked.row, asked.column] == 1)
    return Verdict(confidence, ranking.matrix(ranking.removed))


def cleanlab_verdict(data: Dataset, classifier: Any) -> Verdict:
    """Quality scores and issues of the listed tags by cleanlab."""
    from cleanlab.multilabel_classification.filter import find_multilabel_issues_per_class
    from cleanlab.multilabel_classification.rank import get_label_quality_scores_per_class

    folds = KFold(5, shuffle=True, random_state=0)
    P = cross_val_predict(
        classifier, data.X, data.candidates, cv=folds, method="predict_proba", n_jobs=1
    )
    if isinstance(P, list):
        # A forest returns one array of two columns per label.
        P = np.column_stack([columns[:, -1] for columns in P])
    given = [np.flatnonzero(row).tolist() for row in data.candidates]
    confidence = get_label_quality_scores_per_class(given, P)
    issues = np.asarray(find_multilabel_issues_per_class(given, P)).astype(bool)
    listed = data.candidates == 1
    return Verdict(np.where(listed, confidence, 0), issues & listed)


def measure(data: Dataset, judge: Callable[[], Verdict]) -> tuple[dict[str, float], float]:
    """Scores of one verdict, and its time in seconds."""
    start = time.perf_counter()
    verdict = judge()
    seconds = time.perf_counter() - start
    return noise_report(data.y_true, data.candidates, verdict.wrong, verdict.confidence), seconds


def main(arguments: list[str] | None = None) -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1200, help="rows per data set")
    parser.add_argument("--published", action="store_true", help="cleanlab's own benchmark")
    parser.add_argument("--sizes", default="small,large", help="with --published")
    parser.add_argument("--seeds", type=int, default=10, help="with --published")
    parser.add_argument("--jobs", type=int, default=1, help="with --published")
    parser.add_argument("--output", type=Path, default=Path("cleanlab-results.jsonl"))
    options = parser.parse_args(arguments)
    if options.published:
        published(options.sizes.split(","), options.seeds, options.jobs, options.output)
        return
    warnings.simplefilter("ignore")
    there = importlib.util.find_spec("cleanlab") is not None
    if not there:
        print("cleanlab is not installed (pip install cleanlab); only this library is measured.\n")
    print("| data | who | AUC | precision | recall | time, ours = 1 |")
    print("|---|---|--:|--:|--:|--:|")
    for name, data in settings(options.rows).items():
        figures, own = measure(data, lambda data=data: ours(data))
        _line(name, "schirn", figures, 1.0)
        for words, model in classifiers().items() if there else ():
            judge = lambda data=data, model=model: cleanlab_verdict(data, model)  # noqa: E731
            figures, seconds = measure(data, judge)
            _line("", f"cleanlab, {words}", figures, seconds / own)


def _line(name: str, who: str, figures: dict[str, float], ratio: float) -> None:
    values = " | ".join(f"{100 * figures[key]:.1f}" for key in ("auc", "precision", "recall"))
    print(f"| {name} | {who} | {values} | {ratio:.2g} |", flush=True)


if __name__ == "__main__":
    main()

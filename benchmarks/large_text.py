"""Fit generated texts, many of them: Sieve beside logistic regression and gradient descent.

    python -m benchmarks.large_text --rows 20000
    python -m benchmarks.large_text --rows 100000 --tags 500

Product titles of `benchmarks.titles` with a tenth of wrong tags. The last tenth of the rows is held
out. All models learn from texts: Sieve makes its own features, the others get the same ones.
Printed are CPU seconds of `fit` with its features, on one thread, and the mean over rows of the
average precision of the true tags of the rows held out.
"""

import argparse
import time
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from threadpoolctl import threadpool_limits

from benchmarks.titles import make_titles
from schirn import Sieve
from schirn.features import TextFeatures
from schirn.metrics import average_precision

Array = np.ndarray


class OnTextFeatures:
    """A scikit-learn classifier, one model per tag, on `TextFeatures`."""

    def __init__(self, classifier: Any) -> None:
        self.features = TextFeatures()
        self.model = OneVsRestClassifier(classifier)

    def fit(self, texts: list[str], Y: Array) -> "OnTextFeatures":
        """Learn the words, and the tags from them."""
        self.model.fit(self.features.fit_transform(texts), Y)
        return self

    def decision_function(self, texts: list[str]) -> Array:
        """Scores (n, l) of texts."""
        return np.asarray(self.model.decision_function(self.features.transform(texts)))


MODELS = {
    "Sieve": lambda: Sieve(),
    "logistic regression": lambda: OnTextFeatures(LogisticRegression(C=10, max_iter=200)),
    "gradient descent": lambda: OnTextFeatures(
        SGDClassifier(loss="log_loss", alpha=1e-5, random_state=0)
    ),
}


def main() -> None:
    """Print a line per model."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--tags", type=int, default=100)
    parser.add_argument("--only", help="name of a model")
    args = parser.parse_args()
    table = make_titles(args.rows, args.tags, typos=0.1, unstated=0.13)
    texts = table.texts
    T = table.truth
    n_train = 9 * len(texts) // 10
    Y = table.listed[:n_train]
    print(f"{n_train:,} texts, {T.shape[1]} tags", flush=True)
    with threadpool_limits(1):
        for name, make in MODELS.items():
            if args.only not in (None, name):
                continue
            start = time.process_time()
            model = make().fit(texts[:n_train], Y)
            seconds = time.process_time() - start
            scores = model.decision_function(texts[n_train:])
            precision = average_precision(T[n_train:], scores)
            print(f"{name:22s} {seconds:8.1f} s  {100 * precision:.2f}", flush=True)


if __name__ == "__main__":
    main()

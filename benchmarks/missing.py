"""Labels that are missing from the candidates: ranking of the unlisted ones.

    SCHIRN_DATA=folder python -m benchmarks.missing --jobs 2

Every false label is listed at the rate that gives r per row, and a quarter of the true labels is
dropped. All unlisted cells are ranked, by the leave-one-out log-odds of one fit of Sieve and by the
probabilities of one-vs-rest logistic regression on the candidates in five folds; AUC tells dropped
labels from false ones.

What answers about missing labels bring: `python -m benchmarks.answers --kind missing`.
"""

import argparse
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.sieve import DEVELOPMENT, noisy
from schirn import Sieve
from schirn.datasets import load, load_digits_attributes
from schirn.exceptions import EmptyCandidatesWarning

SETS = [("digits", 2), *((name, r) for name, r in DEVELOPMENT if r is not None)]


def logistic(X: Any, Y: np.ndarray) -> np.ndarray:
    """Out-of-fold probabilities (n, l) of one logistic regression per label."""
    P = np.zeros(Y.shape)
    for train, test in KFold(5, shuffle=True, random_state=0).split(Y):
        first = TfidfTransformer(sublinear_tf=True) if sp.issparse(X) else StandardScaler()
        scale = first.fit(X[train])
        Z, Z_test = scale.transform(X[train]), scale.transform(X[test])
        for j in range(Y.shape[1]):
            constant = Y[train, j].min() == Y[train, j].max()
            model = DummyClassifier() if constant else LogisticRegression(max_iter=1000)
            P[test, j] = model.fit(Z, Y[train, j]).predict_proba(Z_test)[:, -1]
            if constant:
                P[test, j] = Y[train[0], j]
    return P


def measure(name: str, r: int) -> dict[str, Any]:
    """Rankings of one data set."""
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    data = load_digits_attributes() if name == "digits" else load(name)
    X, T = data.X, data.y_true
    C = noisy("two", r, data)
    unlisted = C == 0
    with threadpool_limits(1):
        model = Sieve().fit(X, C)
        P = logistic(X, C)
    listed = data.y_true.sum() - (T & (C == 0)).sum()
    return {
        "data": name,
        "r": r,
        "sieve": roc_auc_score(T[unlisted], model.training_log_odds_[unlisted]),
        "logistic": roc_auc_score(T[unlisted], P[unlisted]),
        "dropped": 1 - listed / T.sum(),
    }


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="data sets, comma separated")
    args = parser.parse_args()
    sets = [s for s in SETS if not args.only or s[0] in args.only.split(",")]
    # By its module path, so that workers import it instead of unpacking this script.
    from benchmarks.missing import measure as job

    rows = Parallel(n_jobs=args.jobs)(delayed(job)(*setting) for setting in sets)
    print("| data | r | AUC, Sieve | AUC, logistic regression | dropped |")
    print("|---|" + "--:|" * 4)
    for row in rows:
        print(
            f"| {row['data']} | {row['r']} | {100 * row['sieve']:.1f} "
            f"| {100 * row['logistic']:.1f} | {100 * row['dropped']:.1f} % |"
        )
    behind = [row["data"] for row in rows if row["sieve"] <= row["logistic"]]
    print(f"\n- Sieve not ahead of logistic regression: {', '.join(behind) or 'none'}.")


if __name__ == "__main__":
    main()

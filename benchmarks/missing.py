"""Labels that are missing from the candidates: ranking of the unlisted ones, and the missing rate.

    SCHIRN_DATA=folder python -m benchmarks.missing --jobs 2

Every false label is listed at the rate that gives r per row, and a quarter of the true labels is
dropped. All unlisted cells are ranked, by the leave-one-out log-odds of one fit of Sieve and by the
probabilities of one-vs-rest logistic regression on the candidates in five folds; AUC tells dropped
labels from false ones. With nothing dropped, the estimated missing rate must be 0.

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
    """Rankings and rates of one data set."""
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    data = load_digits_attributes() if name == "digits" else load(name)
    X, T = data.X, data.y_true
    C, complete = noisy("two", r, data), noisy("coin", r, data)
    unlisted = C == 0
    with threadpool_limits(1):
        model = Sieve().fit(X, C)
        P = logistic(X, C)
        nothing_dropped = Sieve().fit(X, complete)
    listed = data.y_true.sum() - (T & (C == 0)).sum()
    suggested = model.missing_.tocoo()
    return {
        "data": name,
        "r": r,
        "sieve": roc_auc_score(T[unlisted], model.training_log_odds_[unlisted]),
        "logistic": roc_auc_score(T[unlisted], P[unlisted]),
        "dropped": 1 - listed / T.sum(),
        "rate": model.missing_rate_,
        "suggested": suggested.nnz,
        "right": T[suggested.row, suggested.col].mean() if suggested.nnz else np.nan,
        "rate_complete": nothing_dropped.missing_rate_,
        "suggested_complete": nothing_dropped.missing_.nnz,
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
    print(
        "| data | r | AUC, Sieve | AUC, logistic regression | dropped | estimated | suggested "
        "| of these true | estimated, none dropped | suggested, none dropped |"
    )
    print("|---|" + "--:|" * 9)
    for row in rows:
        right = "–" if np.isnan(row["right"]) else f"{100 * row['right']:.0f} %"
        print(
            f"| {row['data']} | {row['r']} | {100 * row['sieve']:.1f} "
            f"| {100 * row['logistic']:.1f} | {100 * row['dropped']:.1f} % "
            f"| {100 * row['rate']:.1f} % | {row['suggested']} | {right} "
            f"| {100 * row['rate_complete']:.1f} % | {row['suggested_complete']} |"
        )
    behind = [row["data"] for row in rows if row["sieve"] <= row["logistic"]]
    wrong = [row["data"] for row in rows if row["rate_complete"] > 0]
    print(f"\n- Sieve not ahead of logistic regression: {', '.join(behind) or 'none'}.")
    print(f"- Missing rate above 0 with nothing dropped: {', '.join(wrong) or 'none'}.")


if __name__ == "__main__":
    main()

"""Wrong tags that people gave: can features tell them, and what helps where they cannot.

    SCHIRN_DATA=folder python -m benchmarks.real_noise

Real noise (`emoji_keywords`, which `schirn data fetch` makes, and three workers of
`crowd_relations`) and made noise: that of the papers (`yeastmf`) and of `add_noise`. Three tables:

1. Scores of a ridge on the candidates, each row left out of its own fit: AUC, within labels, of
   rows in which a label is rightly or wrongly listed above rows in which it is neither listed nor
   true. At random, wrong candidates have 50. Then the AUC with which wrong candidates are told from
   right ones. Three of these know some truth: "label's share" how many of the label's other
   candidates are wrong, "ridge on the truth" the true labels of all other rows, and "noise itself"
   which candidates are wrong in four fifths of the rows.
2. Which property of the real noise defeats Sieve: wrong candidates moved to random rows in which
   the label is false, as many per label, and missing labels listed. Average precision, three folds.
3. What answers change: audits, `known`, and a ridge that learns from the answers alone.
"""

import argparse
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from benchmarks.missing import logistic
from benchmarks.votes import FILE, draw
from schirn import Sieve, find_noisy_labels
from schirn.datasets import add_noise, load
from schirn.exceptions import DataError, EmptyCandidatesWarning
from schirn.linalg.features import learn_scale
from schirn.metrics import evaluate, noise_report
from schirn.solvers.kernel_ridges import kernel_matrix

EMOJI, CROWD = "emoji_keywords", "crowd_relations"
ANSWERS = (50, 300, 500)
Problem = tuple[Any, np.ndarray, np.ndarray]


def problems() -> dict[str, Problem]:
    """Features, candidates and true labels of every setting whose data are there."""
    found: dict[str, Problem] = {}
    try:
        emoji = load(EMOJI)
        found[EMOJI] = emoji.X, emoji.candidates, emoji.y_true
        for kind in ("exact", "label"):
            C = add_noise(emoji.y_true, 1, kind=kind, random_state=0)
            found[f"{EMOJI}, made: {kind}"] = emoji.X, C, emoji.y_true
    except DataError as error:
        print(f"Without {EMOJI}: {error}\n")
    folder = os.environ.get("SCHIRN_DATA")
    if folder is None:
        print("Only emoji: SCHIRN_DATA names no folder with the data sets.\n")
        return found
    X, votes, T = draw(Path(folder) / FILE, 0)
    found[CROWD] = X, votes.candidates, T
    for name in ("yeastmf", "medical", "scene"):
        data = load(name)
        kinds = {name: data.candidates}
        if name != "yeastmf":
            r = 7 if name == "medical" else 2
            kinds = {
                f"{name} {r}, made: {kind}": add_noise(
                    data.y_true, r, kind=kind, random_state=r, X=data.X
                )
                for kind in ("exact", "feature")
            }
        found |= {key: (data.X, C, data.y_true) for key, C in kinds.items()}
    return found


def within_labels(S: np.ndarray, above: np.ndarray, below: np.ndarray) -> float:
    """Mean AUC of the cells `above` against those `below` of the same label, by number of cells."""
    total, cells = 0.0, 0
    for s, up, down in zip(S.T, above.T, below.T, strict=True):
        if up.any() and down.any():
            total += up.sum() * roc_auc_score(up[up | down], s[up | down])
            cells += up.sum()
    return total / cells if cells else np.nan


def similarity(X: Any, row: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Kernel between candidates: of one label, of similar rows, and both."""
    Z = learn_scale(X).transform(X)
    K = kernel_matrix(Z, "rbf", np.random.RandomState(0))[1][np.ix_(row, row)]
    same = label[:, None] == label
    return np.asarray(same + K + 2 * same * K)


def learn(K: np.ndarray, wrong: np.ndarray, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Ridge regression of the wrong candidates; scores of other candidates."""
    mean = wrong[train].mean()
    dual = np.linalg.solve(K[np.ix_(train, train)] + np.eye(len(train)), wrong[train] - mean)
    return np.asarray(mean + K[np.ix_(test, train)] @ dual)


def describe(name: str, X: Any, C: np.ndarray, T: np.ndarray) -> str:
    """A line of the first table."""
    listed, true = C == 1, T == 1
    row, label = np.nonzero(listed)
    wrong = ~true[listed]
    S = Sieve(estimate_noise=False).fit(X, C).training_log_odds_
    K, noise = similarity(X, row, label), np.zeros(len(wrong))
    for _, held in KFold(5, shuffle=True, random_state=0).split(C):
        test = np.isin(row, held)
        noise[test] = learn(K, wrong, *map(np.flatnonzero, (~test, test)))
    others = np.bincount(label, wrong)[label] - wrong
    finders = [
        -S[listed],
        -logistic(X, C)[listed],
        -Sieve().fit(X, C).label_confidence_[listed],
        others / np.maximum(np.bincount(label)[label] - 1, 1),
        -Sieve(estimate_noise=False).fit(X, T).training_log_odds_[listed],
        noise,
    ]
    values = [
        wrong.mean(),
        (true & ~listed).sum() / true.sum(),
        within_labels(S, listed & true, ~listed & ~true),
        within_labels(S, listed & ~true, ~listed & ~true),
        *(roc_auc_score(wrong, each) for each in finders),
    ]
    return line(name, [100 * value for value in values])


def moved(C: np.ndarray, T: np.ndarray, seed: int = 0) -> np.ndarray:
    """Candidates whose wrong ones fall on random rows without the label, as many per label."""
    rng, out = np.random.default_rng(seed), C * T
    for j, n_wrong in enumerate((C > T).sum(axis=0)):
        out[rng.choice(np.flatnonzero(T[:, j] == 0), n_wrong, replace=False), j] = 1
    return np.asarray(out)


def gap(name: str, X: Any, C: np.ndarray, T: np.ndarray) -> str:
    """A line of the second table."""
    runs = []
    for train, test in KFold(3, shuffle=True, random_state=0).split(C):
        found = []
        for model, Y in (
            (Sieve(estimate_noise=False), C),
            (Sieve(), C),
            (Sieve(estimate_noise=False), T),
        ):
            model.fit(X[train], Y[train])
            scores = model.decision_function(X[test])
            found.append(evaluate(T[test], scores, y_pred=scores > 0)["average_precision"])
            if len(found) == 2:
                noise = noise_report(T[train], C[train], model.noise_, model.label_confidence_)
                share = (1 - model.label_confidence_)[C[train] == 1].mean()
        runs.append([*found, noise.get("auc", np.nan), noise.get("recall", 0), share])
    c, s, t, *rest = 100 * np.mean(runs, axis=0)
    wrong = 100 * (C > T).sum() / C.sum()
    cells = [c, s, t, 100 * (s - c) / (t - c), *rest, wrong]
    return line(name, cells)


def answers(n: int, X: Any, C: np.ndarray, T: np.ndarray, audits: int) -> str:
    """A line of the third table: means over audits with n answers."""
    ranking = find_noisy_labels(X, C)
    right = T[ranking.row, ranking.column] == 1
    K = similarity(X, ranking.row, ranking.column)
    runs = []
    for seed in range(audits):
        checked = ranking
        for size in (n // 2, n - n // 2):
            asked = checked.questions(size, random_state=seed)
            checked = checked.answered(asked, T[asked.row, asked.column] == 1)
        rest = np.isnan(checked.worklist.answer)
        known = np.zeros(C.shape, dtype=int)
        known[ranking.row[~rest], ranking.column[~rest]] = np.where(right[~rest], 1, -1)
        told = find_noisy_labels(X, C, known=known).confidence[rest]
        learned = learn(K, ~right, np.flatnonzero(~rest), np.flatnonzero(rest))
        wrong, removed = ~right[rest], checked.removed[rest]
        auc = [roc_auc_score(wrong, s) for s in (-checked.confidence[rest], -told, learned)]
        precision = wrong[removed].mean() if removed.any() else np.nan
        runs.append([checked.wrong_share, precision, removed[wrong].mean(), *auc])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        values = 100 * np.nanmean(runs, axis=0)
    return line(str(n), values)


def line(name: str, values: Iterable[float]) -> str:
    """A line of a table."""
    return f"| {name} | " + " | ".join("–" if np.isnan(v) else f"{v:.1f}" for v in values) + " |"


def head(*columns: str) -> None:
    """Print the head of a table."""
    print("\n| " + " | ".join(columns) + " |\n|---|" + "--:|" * (len(columns) - 1))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--audits", type=int, default=5)
    parser.add_argument("--tables", default="1,2,3", help="which of the three, comma separated")
    args = parser.parse_args()
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    wanted, settings = args.tables.split(","), problems()
    with threadpool_limits(1):
        if "1" in wanted:
            head(
                *("data", "wrong", "missing", "right above others", "wrong above others"),
                *("ridge on candidates", "logistic regression", "Sieve"),
                *("label's share", "ridge on the truth", "noise itself"),
            )
            for name, problem in settings.items():
                print(describe(name, *problem), flush=True)
        if EMOJI not in settings:
            return
        X, C, T = settings[EMOJI]
        if "2" in wanted:
            head(
                *("candidates", "ridge on them", "Sieve", "ridge on the truth", "gap closed"),
                *("noise AUC", "wrong found", "claimed", "truly wrong"),
            )
            for name, wrong in (("real", C), ("wrong ones moved", moved(C, T))):
                print(gap(name, X, wrong, T), flush=True)
                print(gap(f"{name}, missing ones listed", X, wrong | T, T), flush=True)
            print(gap("right ones alone", X, C * T, T), flush=True)
        if "3" in wanted:
            head(
                *("answers", "share", "precision", "recall"),
                *("AUC, answered", "AUC, known", "AUC, answers alone"),
            )
            for n in ANSWERS:
                print(answers(n, X, C, T, args.audits), flush=True)


if __name__ == "__main__":
    main()

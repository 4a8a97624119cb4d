"""The check protocol of the methods whose code was released: five folds of two real sets."""

import numpy as np

from schirn.datasets import add_noise
from schirn.metrics import average_precision


def birds(real):
    """Rows, true labels, candidates and the five stored folds."""
    data = real("birds_nlr_r3")
    return data.X, data.y_true, data.candidates, data.folds


def emotions(real):
    """The same with two wrong labels added to every row."""
    data = real("emotions")
    n = data.n_samples
    parts = np.array_split(np.random.default_rng(0).permutation(n), 5)
    folds = [(np.setdiff1d(np.arange(n), part), np.sort(part)) for part in parts]
    candidates = add_noise(data.y_true, 2, kind="legacy", random_state=2)
    return data.X, data.y_true, candidates, folds


SETS = {"birds": birds, "emotions": emotions}


def five_folds(model, X, truth, candidates, folds):
    """Average precision of every fold, rows without a true label left out, and `row_auc`."""
    precision, auc = [], []
    for train, test in folds:
        model.fit(X[train], candidates[train])
        scored = test[truth[test].any(axis=1)]
        precision.append(average_precision(truth[scored], model.decision_function(X[scored])))
        auc.append(row_auc(model.pseudo_labels_, truth[train], candidates[train]))
    return np.array(precision), float(np.mean(auc))


def row_auc(confidence, truth, candidates):
    """Mean share of pairs within a row whose true candidate has the higher confidence."""
    found = []
    for values, is_true, listed in zip(confidence, truth == 1, candidates == 1, strict=True):
        gap = values[listed & is_true][:, None] - values[listed & ~is_true]
        if gap.size:
            found.append(np.mean(gap > 0) + np.mean(gap == 0) / 2)
    return np.mean(found)

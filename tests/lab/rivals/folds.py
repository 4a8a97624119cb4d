"""Average precision on real data, as the check values were made."""

import numpy as np
from sklearn.model_selection import KFold

from schirn.datasets import add_noise
from schirn.metrics import average_precision


def two_folds(model, data, r, seed=0):
    """Average precision in percent over two of five folds; r wrong labels, None for the file's."""
    truth = data.y_true
    candidates = data.candidates if r is None else add_noise(truth, r, random_state=seed)
    folds = list(KFold(5, shuffle=True, random_state=seed).split(truth))[:2]
    found = [
        average_precision(
            truth[test],
            model.fit(data.X[train], candidates[train]).decision_function(data.X[test]),
        )
        for train, test in folds
    ]
    return 100 * np.mean(found)

"""Whether the features say enough about the labels for verdicts to be trusted.

Candidates alone never prove that a label is wrong. If the features say nothing about a label, rows
that list it score like rows that do not, and every explanation of its candidates is consistent: all
right, all wrong, or anything in between. Informativeness is measured by the area under the ROC
curve (AUC) of the scores of rows that list the label against all other rows. The rows must be held
out: leave-one-out scores decrease with the label of the left-out row.

If a share w of the listed labels is wrong and these score like unlisted rows, the AUC of the right
ones is (AUC - w/2)/(1 - w). With few rows the AUC is imprecise. `LabelAUC.least_mean` is therefore
a lower bound; callers that give labels with few rows the benefit of the doubt add
`standard_errors`.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> label = np.repeat([0, 1], 90)
>>> score = rng.standard_normal(180) + np.repeat([4, 0], 90)
>>> unlisted_label = np.repeat([0, 1], 210)
>>> aucs = cell_aucs(label, score, unlisted_label, rng.standard_normal(420), 2)
>>> informativeness(aucs.auc).round(2)
array([1., 0.])
"""

from typing import Any, NamedTuple

import numpy as np

from schirn._input import Array

# Below the first AUC, the features say too little about a label; above the second, they say enough.
_AUC_RANGE = (0.75, 0.9)
# With a larger share of wrong labels, there is nothing left to measure.
_LARGEST_SHARE = 0.95


class LabelAUC(NamedTuple):
    """AUC of the scores of each label, and the number of cells it is measured on.

    Attributes
    ----------
    auc : ndarray of shape (l,)
        Probability that a listed cell scores higher than an unlisted cell; NaN if there is no pair.
    n_listed, n_unlisted : ndarray of shape (l,)
    """

    auc: Array
    n_listed: Array
    n_unlisted: Array

    @property
    def has_pairs(self) -> Array:
        """Whether each label has both listed and unlisted cells."""
        return (self.n_listed > 0) & (self.n_unlisted > 0)

    def mean(self) -> float:
        """Mean AUC, weighted by the number of listed cells; one half if there is no pair."""
        weight = np.where(self.has_pairs, self.n_listed, 0)
        if not weight.any():
            return 0.5
        return float(np.average(np.where(self.has_pairs, self.auc, 0.5), weights=weight))

    def standard_errors(self) -> Array:
        """Standard error of each AUC if the scores are uninformative."""
        n_listed = np.maximum(self.n_listed, 1)
        n_unlisted = np.maximum(self.n_unlisted, 1)
        return np.sqrt((1 / n_listed + 1 / n_unlisted) / 12)

    def least_mean(self) -> float:
        """Mean AUC minus two standard errors, a lower bound that accounts for few rows."""
        weight = np.where(self.has_pairs, self.n_listed, 0)
        error = np.linalg.norm(weight * self.standard_errors()) / max(weight.sum(), 1)
        return max(self.mean() - 2 * float(error), 0.0)


def cell_aucs(
    label: Array, score: Array, unlisted_label: Array, unlisted_score: Array, n_labels: int
) -> LabelAUC:
    """Measure the AUC of every label on listed cells and on a sample of unlisted cells.

    Parameters
    ----------
    label, score : ndarray
        Label and score of each listed cell.
    unlisted_label, unlisted_score : ndarray
        Label and score of each unlisted cell in the sample.
    n_labels : int

    Returns
    -------
    LabelAUC
    """
    labels = np.r_[label, unlisted_label]
    scores = np.r_[score, unlisted_score]
    is_listed = np.arange(len(labels)) < len(label)
    n_listed = np.bincount(label, minlength=n_labels)
    n_unlisted = np.bincount(unlisted_label, minlength=n_labels)
    sums = np.zeros(n_labels)
    # Ties count one half: average the rank sums with listed cells first and last among equals.
    for tie in (is_listed, ~is_listed):
        order = np.lexsort((tie, scores, labels))
        ranks = (np.arange(len(order)) + 1) * is_listed[order]
        sums += np.bincount(labels[order], ranks, n_labels) / 2
    # Ranks begin at 1 in each label; the smallest possible sum counts no pair.
    before = np.cumsum(n_listed + n_unlisted) - n_listed - n_unlisted
    above = sums - n_listed * before - n_listed * (n_listed + 1) / 2
    pairs = n_listed * n_unlisted
    auc = np.where(pairs > 0, above / np.maximum(pairs, 1), np.nan)
    return LabelAUC(auc, n_listed, n_unlisted)


def informativeness(
    auc: Any, share: float = 0.0, auc_range: tuple[float, float] = _AUC_RANGE
) -> Any:
    """Return how informative scores with this AUC are, from 0 (not at all) to 1 (enough).

    Parameters
    ----------
    auc : float or ndarray
    share : float
        Assumed share of the listed cells that are wrong.
    auc_range : (float, float)
        Scores are uninformative up to the first AUC, and informative enough from the second.

    Returns
    -------
    float or ndarray
    """
    share = min(share, _LARGEST_SHARE)
    right = (auc - share / 2) / (1 - share)
    least, enough = auc_range
    return np.clip((right - least) / (enough - least), 0, 1)

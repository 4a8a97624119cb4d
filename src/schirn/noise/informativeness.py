"""Whether the features say enough about the labels for verdicts to be trusted.

Candidates alone never prove that a label is wrong. If the features say nothing about a label, rows
that list it score like rows that do not, and every explanation of its candidates is consistent: all
right, all wrong, or anything in between. Informativeness is measured by the area under the ROC
curve (AUC) of the scores of rows that list the label against all other rows. The rows must be held
out: leave-one-out scores decrease with the label of the left-out row.

If a share w of the listed labels is wrong and these score like unlisted rows, the AUC of the right
ones is (AUC - w/2)/(1 - w). With few rows the AUC is imprecise: each label's AUC is shrunk towards
the mean of all labels, to the extent that chance explains the difference.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> listed = rng.random((300, 2)) < 0.3
>>> scores = rng.standard_normal((300, 2))
>>> scores[:, 0] += 4 * listed[:, 0]
>>> aucs = label_aucs(scores, listed)
>>> informativeness(aucs.drawn()).round(2)
array([1., 0.])
>>> round(aucs.mean(), 2), round(float(informativeness(aucs.mean())), 2)
(0.76, 0.09)
"""

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray

# Below the first AUC, the features say too little about a label; above the second, they say enough.
LEAST_AUC = 0.75
ENOUGH_AUC = 0.9
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

    def least_mean(self) -> float:
        """Mean AUC minus two standard errors, a lower bound that accounts for few rows."""
        weight = np.where(self.has_pairs, self.n_listed, 0)
        error = np.sqrt(weight**2 @ self._chance()) / max(weight.sum(), 1)
        return max(self.mean() - 2 * float(error), 0.0)

    def _chance(self) -> Array:
        """Variance of the AUC of uninformative scores."""
        return (1 / np.maximum(self.n_listed, 1) + 1 / np.maximum(self.n_unlisted, 1)) / 12

    def drawn(self) -> Array:
        """AUC of each label, shrunk to the mean by empirical Bayes; one half without any pair."""
        if not self.has_pairs.any():
            return np.full(len(self.auc), 0.5)
        precision = np.where(self.has_pairs, 1 / self._chance(), 0.0)
        return _drawn_to_mean(np.where(self.has_pairs, self.auc, 0.5), precision)


def label_aucs(scores: Array, listed: Array) -> LabelAUC:
    """Measure the AUC of every label; ties count one half.

    Parameters
    ----------
    scores : ndarray of shape (n, l)
    listed : ndarray of shape (n, l)
        0/1.

    Returns
    -------
    LabelAUC
    """
    listed = np.asarray(listed) > 0
    n_listed = listed.sum(axis=0)
    n_unlisted = len(listed) - n_listed
    sums = np.array([_rank_sum(s, y) for s, y in zip(scores.T, listed.T, strict=True)])
    return _auc_of_sums(sums, n_listed, n_unlisted)


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
    before = np.cumsum(n_listed + n_unlisted) - n_listed - n_unlisted
    return _auc_of_sums(sums - n_listed * before, n_listed, n_unlisted)


def informativeness(auc: Any, share: float = 0.0) -> Any:
    """Return how informative scores with this AUC are, from 0 (not at all) to 1 (enough).

    Parameters
    ----------
    auc : float or ndarray
    share : float
        Assumed share of the listed cells that are wrong.

    Returns
    -------
    float or ndarray
    """
    share = min(share, _LARGEST_SHARE)
    right = (auc - share / 2) / (1 - share)
    return np.clip((right - LEAST_AUC) / (ENOUGH_AUC - LEAST_AUC), 0, 1)


def _drawn_to_mean(values: Array, precision: Array) -> Array:
    """Shrink values towards their mean by empirical Bayes, to the extent that chance explains."""
    total = precision.sum()
    mean = (precision @ values) / total
    excess = precision @ (values - mean) ** 2 - (np.count_nonzero(precision) - 1)
    between = max(excess, 0.0) / max(total - (precision @ precision) / total, 1e-12)
    return np.asarray(mean + between * precision / (between * precision + 1) * (values - mean))


def _auc_of_sums(sums: Array, n_listed: Array, n_unlisted: Array) -> LabelAUC:
    """Compute the AUC from rank sums of listed cells; ranks start at 1."""
    pairs = n_listed * n_unlisted
    above = sums - n_listed * (n_listed + 1) / 2
    auc = np.where(pairs > 0, above / np.maximum(pairs, 1), np.nan)
    return LabelAUC(auc, n_listed, n_unlisted)


def _rank_sum(scores: Array, chosen: Array) -> float:
    """Sum of the ranks of the chosen scores among all scores; ties share their mean rank."""
    ordered = np.sort(scores)
    values = np.sort(scores[chosen])
    first = np.searchsorted(ordered, values, "left").sum()
    last = np.searchsorted(ordered, values, "right").sum()
    return float(first + last + len(values)) / 2

"""COMES with the squared loss: ridge regression on targets that undo the noise of each label.

If labels are only ever added, and false label j is listed at a rate that does not depend on x, then
the rows that do not list label j are a fair sample of the rows without it. With the prior
pi_j = P(y_j = 1), the risk of a score g_j is

    E[l(g_j(x), 1)] + (1 - pi_j) E[l(g_j(x), 0) - l(g_j(x), 1) | j not listed],

and can be estimated from candidates. For the squared loss the mean over n rows equals, up to a
constant, the squared distance of g_j from the targets

    t_ij = 1 if label j is listed, 1 - a_j otherwise,    a_j = (1 - pi_j) / (share not listing j),

so its minimiser is a ridge regression. With an unpenalised intercept it is 1 - a_j (1 - r_j(x)) for
the ridge regression r_j on the candidates: one number per label undoes the noise.
"""

from typing import Any, NamedTuple

import numpy as np

from schirn._input import Array
from schirn.exceptions import InputError
from schirn.linalg.row_space import RidgeResult, RowSpace, ridge

# Share of the rows, those with the lowest scores, that are taken to be without the label.
_LOW_SHARE = 0.25
# Number of answers that the mean over all labels counts for in the estimate of one label.
_POOLED_ANSWERS = 5.0


class COMESResult(NamedTuple):
    """Coordinates of the weights, and what they were computed from."""

    w: Array
    priors: Array
    """Probability (l,) of each label."""
    rates: Array
    """Rate (l,) at which a false label is listed, by the priors."""
    loo_scores: Array
    objective: float


def comes(space: RowSpace, Y: Array, *, lam: float, priors: Array | None = None) -> COMESResult:
    """Minimise the estimated risk plus lam ||W||_F^2 over linear scores with an intercept.

    Parameters
    ----------
    space : RowSpace
        With an intercept.
    Y : (n, l) array
        Candidates, 0/1.
    lam : float
        Ridge weight.
    priors : (l,) array or None
        Probability of each label; larger ones than its share of candidates are lowered to that
        share. None estimates them from the candidates.

    Returns
    -------
    COMESResult
    """
    Y = Y.astype(space.dtype)
    trusted = ridge(space, Y, lam)
    if priors is None:
        priors = priors_from_candidates(trusted.loo_scores, Y)
    return _undo_noise(space, Y, trusted, np.asarray(priors, dtype=np.float64))


def coordinates(space: RowSpace, Y: Array, *, lam: float, priors: Array | None = None) -> Array:
    """Coordinates of `comes`, without scores of the training rows if the priors are given."""
    if priors is None:
        return comes(space, Y, lam=lam).w
    w = space.ridge(space.project(Y.astype(space.dtype)), lam)
    a, offset = _line(np.asarray(priors, dtype=np.float64), Y.mean(axis=0))
    return _shifted(w, a, offset)


def priors_from_candidates(scores: Array, Y: Array) -> Array:
    """Estimate P(y_j = 1) from scores of rows that the model was not fitted to.

    The rows with the lowest quarter of scores are taken to be without the label. Their candidates
    are then wrong, and the share of rows among them that list the label is the rate of false
    candidates, from which the prior follows. Where this quarter contains true labels, as for
    labels of most rows, the rate is too high and the prior too low.

    Parameters
    ----------
    scores : (n, l) array
        Leave-one-out scores.
    Y : (n, l) array
        Candidates, 0/1.

    Returns
    -------
    (l,) array
        Between 0 and the share of rows that list the label.

    Examples
    --------
    >>> scores = np.array([[0.1], [0.2], [0.3], [0.9]]).repeat(8, axis=0)
    >>> Y = np.array([1, 0, 0, 0] * 6 + [1] * 8)[:, None]
    >>> priors_from_candidates(scores, Y).round(2)
    array([0.22])
    """
    listed = Y.mean(axis=0, dtype=np.float64)
    limit = np.quantile(scores, _LOW_SHARE, axis=0, method="inverted_cdf")
    is_low = scores <= limit
    wrong = np.sum(is_low & (Y > 0), axis=0)
    # Half a row on either side keeps the rate below one.
    rates = (wrong + 0.5) / (is_low.sum(axis=0) + 1)
    return np.clip(1 - (1 - listed) / (1 - rates), 0, listed)


def priors_from_answers(candidates: Any, column: Any, right: Any) -> Array:
    """Estimate how often each label is true from answers about some of its candidates.

    The share of right candidates of a label is pooled with that of all labels, which counts as
    five answers, and multiplied by the share of rows that list the label. The answers should be
    about candidates drawn at random.

    Parameters
    ----------
    candidates : (n, l) array
        0/1.
    column : sequence of int
        The label of each answered candidate.
    right : sequence of bool
        Whether the candidate was right.

    Returns
    -------
    (l,) array
        To be passed as `priors` to `COMES`.

    Examples
    --------
    >>> from schirn.lab import priors_from_answers
    >>> candidates = [[1, 1], [1, 0], [0, 1], [0, 1]]
    >>> priors_from_answers(candidates, column=[0, 1, 1], right=[True, False, True])
    array([0.36111111, 0.46428571])
    """
    Y = np.asarray(candidates)
    label = np.asarray(column, dtype=np.intp)
    truth = np.asarray(right, dtype=bool)
    if not len(label):
        raise InputError("there are no answers to estimate priors from", parameter="right")
    if len(label) != len(truth):
        raise InputError(
            f"column has {len(label)} labels and right has {len(truth)} answers; "
            f"every answer needs its label",
            parameter="right",
        )
    n_labels = Y.shape[1]
    if label.min() < 0 or label.max() >= n_labels:
        raise InputError(
            f"column has the label {label.max() if label.max() >= n_labels else label.min()}, "
            f"but there are {n_labels} labels, counted from 0",
            parameter="column",
        )
    answers = np.bincount(label, minlength=n_labels)
    confirmed = np.bincount(label, truth, minlength=n_labels)
    pooled = _POOLED_ANSWERS * truth.mean()
    precision = (confirmed + pooled) / (answers + _POOLED_ANSWERS)
    return np.asarray(precision * Y.mean(axis=0))


def _undo_noise(space: RowSpace, Y: Array, trusted: RidgeResult, priors: Array) -> COMESResult:
    listed = Y.mean(axis=0, dtype=np.float64)
    priors = np.minimum(priors, listed)
    a, offset = _line(priors, listed)
    w = _shifted(trusted.w, a, offset)
    dtype = space.dtype
    loo_scores = (offset + a * trusted.loo_scores).astype(dtype, copy=False)
    scores = offset + a * trusted.scores
    targets = offset + a * Y
    # The fitted values determine the penalty too: <T, fit> = ||fit||^2 + lam ||W||^2.
    objective = float(np.sum(targets * (targets - scores), dtype=np.float64))
    rates = 1 - (1 - listed) / np.maximum(1 - priors, np.finfo(np.float64).tiny)
    return COMESResult(w, priors, np.clip(rates, 0, 1), loo_scores, objective)


def _line(priors: Array, listed: Array) -> tuple[Array, Array]:
    """Slope and offset of the scores of every label as functions of the ridge on candidates."""
    priors = np.minimum(priors, listed)
    unlisted = 1 - listed
    is_known = unlisted > 0
    slope = np.where(is_known, (1 - priors) / np.where(is_known, unlisted, 1), 0)
    # A label that every row lists has no rows to learn from.
    return slope, np.where(is_known, 1 - slope, priors)


def _shifted(w: Array, slope: Array, offset: Array) -> Array:
    """Coordinates of offset + slope * scores; the last one belongs to the intercept."""
    w = (w * slope).astype(w.dtype, copy=False)
    w[-1] += offset.astype(w.dtype)
    return w

"""Learn a better ranking from answers: which tags are wrong more often than the ranker thinks.

Logistic regression of the answers on what is known about each tag x (the log-odds of the ranker, or
of each of its experts, how frequent the tag is, how many tags the row has) with an offset u for
every name of a tag:

    minimise  Σ log(1 + exp(η)) - y η  +  |θ - θ0|²  +  3/2 |u|²  +  b²/20,    η = b + x θ + u

where θ0 weighs the experts equally. The ranking changes only once this predicts the answers clearly
better, each by the others, than the ranking as it is: with few answers, there is more noise than
lesson in them.
"""

import numpy as np
from scipy.special import expit

Array = np.ndarray

_RIDGE, _OFFSET_RIDGE, _CONSTANT_RIDGE = 2.0, 3.0, 0.1
_STEPS = 50
# How much better the answers must be predicted, as a difference of log-likelihoods.
_MARGIN = 3.0


def describe_tags(experts: Array, row: Array, column: Array, used: Array) -> Array:
    """Standardised features (m, e + 2) of tags: experts, log frequency, log size of the row.

    Parameters
    ----------
    experts : (e, m) float array
        Log-odds of every tag by each expert.
    row, column : (m,) int arrays
    used : (m,) bool array
        Tags over which the features are standardised.
    """
    sizes = [np.log(np.bincount(values)[values]) for values in (column, row)]
    X = np.stack([*experts, *sizes], axis=1)
    spread = X[used].std(axis=0)
    return np.asarray((X - X[used].mean(axis=0)) / np.where(spread > 1e-12, spread, 1))


def corrected_scores(X: Array, column: Array, index: Array, right: Array) -> Array | None:
    """Score every tag, higher for tags that are more likely right; None without a clear lesson.

    The answered tags get the score that follows from the other answers (by one Newton step): their
    own answer would make the ranking look better than it is.

    Parameters
    ----------
    X : (m, e + 2) float array
        What `describe_tags` returned.
    column : (m,) int array
        Label of each tag.
    index : (k,) int array
        Answered tags.
    right : (k,) bool array
        Whether these are right.
    """
    if not len(index):
        return None
    n_experts, y = X.shape[1] - 2, right.astype(float)
    mean = np.r_[0, np.full(n_experts, n_experts**-0.5), 0, 0]
    design = np.column_stack([np.ones(len(X)), X])
    names, name = np.unique(column[index], return_inverse=True)
    theta, u, left_out = _fit(design[index], name, y, mean)
    plain = np.column_stack([np.ones(len(index)), design[index] @ mean])
    unchanged = _fit(plain, None, y, np.array([0.0, 1.0]))[2]
    if _log_likelihood(left_out, y) < _log_likelihood(unchanged, y) + _MARGIN:
        return None
    offset = np.zeros(int(column.max()) + 1)
    offset[names] = u
    score = design @ theta + offset[column]
    score[index] = left_out
    return np.asarray(score)


def _log_likelihood(eta: Array, y: Array) -> float:
    return float((y * eta - np.logaddexp(0, eta)).sum())


def _fit(X: Array, name: Array | None, y: Array, mean: Array) -> tuple[Array, Array, Array]:
    """Weights, offsets (0 without names), and the scores of the answers, each without itself.

    The Hessian is diagonal but for the first rows, so u is eliminated from the Newton steps.
    """
    ridge = np.r_[_CONSTANT_RIDGE, np.full(X.shape[1] - 1, _RIDGE)]
    offset_ridge = 1e9 if name is None else _OFFSET_RIDGE
    name = np.zeros(len(X), dtype=int) if name is None else name
    k = int(name.max()) + 1

    def loss(theta: Array, u: Array) -> float:
        eta = X @ theta + u[name]
        penalty = (ridge * (theta - mean) ** 2).sum() + offset_ridge * (u**2).sum()
        return float((np.logaddexp(0, eta) - y * eta).sum() + penalty / 2)

    theta, u = mean.copy(), np.zeros(k)
    now = loss(theta, u)
    for _ in range(_STEPS):
        p = expit(X @ theta + u[name])
        c = p * (1 - p)
        d = np.bincount(name, c) + offset_ridge
        B = np.stack([np.bincount(name, c * x, minlength=k) for x in X.T])
        S = (X.T * c) @ X + np.diag(ridge) - (B / d) @ B.T
        gradient = X.T @ (p - y) + ridge * (theta - mean)
        gradient_u = np.bincount(name, p - y, minlength=k) + offset_ridge * u
        step = np.linalg.solve(S, gradient - B @ (gradient_u / d))
        step_u = (gradient_u - step @ B) / d
        decrease, size = float(gradient @ step + gradient_u @ step_u), 1.0
        if decrease < 1e-10:
            break
        while loss(theta - size * step, u - size * step_u) > now - 1e-4 * size * decrease:
            size /= 2
        theta, u = theta - size * step, u - size * step_u
        now = loss(theta, u)
    G = X - (B / d).T[name]
    leverage = (G * np.linalg.solve(S, G.T).T).sum(axis=1) + 1 / d[name]
    eta = X @ theta + u[name]
    return theta, u, eta - leverage * (y - p) / (1 - leverage * c)

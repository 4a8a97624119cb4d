"""Learn a better ranking from answers: which tags are wrong more often than the ranker thinks.

Logistic regression of the answers on what is known about each tag x (the normal score of its rank,
how frequent the tag is, how many tags the row has) with an offset u for every name of a tag:

    minimise  Σ log(1 + exp(η)) - y η  +  5 |θ - θ0|²  +  3/2 |u|²  +  b²/20,    η = b + x θ + u

where θ0 is the ranking as it is. The scores are the mean of these η and those of the ranking alone,
weighed by how likely each makes the answers, every answer predicted from the others: with few
answers, there is more noise than lesson in them.
"""

import numpy as np
from scipy.special import expit

Array = np.ndarray

_RIDGE, _OFFSET_RIDGE, _CONSTANT_RIDGE = 10.0, 3.0, 0.1
_STEPS = 50


def describe_tags(score: Array, row: Array, column: Array, used: Array) -> Array:
    """Standardised features (m, 3) of tags: score, log frequency, log size of the row.

    Parameters
    ----------
    score : (m,) float array
        Higher for tags that are more likely right.
    row, column : (m,) int arrays
    used : (m,) bool array
        Tags over which the features are standardised.
    """
    sizes = [np.log(np.bincount(values)[values]) for values in (column, row)]
    X = np.stack([score, *sizes], axis=1)
    spread = X[used].std(axis=0)
    return np.asarray((X - X[used].mean(axis=0)) / np.where(spread > 1e-12, spread, 1))


def corrected_scores(X: Array, column: Array, index: Array, right: Array) -> Array:
    """Log-odds of every tag by the answers, higher for tags that are more likely right.

    The answered tags get the score that follows from the other answers (by one Newton step): their
    own answer would make the ranking look better than it is.

    Parameters
    ----------
    X : (m, 3) float array
        What `describe_tags` returned.
    column : (m,) int array
        Label of each tag.
    index : (k,) int array
        Answered tags, at least one.
    right : (k,) bool array
        Whether these are right.
    """
    y, ones = right.astype(float), np.ones(len(X))
    names, name = np.unique(column[index], return_inverse=True)
    design, plain = np.column_stack([ones, X]), np.column_stack([ones, X[:, 0]])
    theta, u, left_out = _fit(design[index], name, y)
    plain_theta, _, plain_left_out = _fit(plain[index], None, y)
    offset = np.zeros(int(column.max()) + 1)
    offset[names] = u
    weight = expit(_log_likelihood(left_out, y) - _log_likelihood(plain_left_out, y))
    score = weight * (design @ theta + offset[column]) + (1 - weight) * (plain @ plain_theta)
    score[index] = weight * left_out + (1 - weight) * plain_left_out
    return np.asarray(score)


def _log_likelihood(eta: Array, y: Array) -> float:
    return float((y * eta - np.logaddexp(0, eta)).sum())


def _fit(X: Array, name: Array | None, y: Array) -> tuple[Array, Array, Array]:
    """Weights, offsets (0 without names), and the scores of the answers, each without itself.

    The weights of a constant, the ranking and other features are shrunk to 0, 1, 0, 0, ...

    The Hessian is diagonal but for the first rows, so u is eliminated from the Newton steps.
    """
    mean = np.eye(X.shape[1])[1]
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

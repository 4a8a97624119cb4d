"""COMES with the squared loss, minimised by gradient descent on the estimated risk itself."""

import numpy as np


def plain_risk(W, b, X, Y, priors, lam):
    """n times the risk estimate of the paper for the squared loss, plus the penalty."""
    n, l = Y.shape
    total = lam * np.sum(W**2)
    for j in range(l):
        scores = X @ W[:, j] + b[j]
        total += np.sum((scores - 1) ** 2)
        unlisted = scores[Y[:, j] == 0]
        total += n * (1 - priors[j]) * np.mean(unlisted**2 - (unlisted - 1) ** 2)
    return total


def plain_gradient(W, b, X, Y, priors, lam):
    """Gradient of `plain_risk` in W and b."""
    n, l = Y.shape
    gW = 2 * lam * W
    gb = np.zeros(l)
    for j in range(l):
        scores = X @ W[:, j] + b[j]
        pull = 2 * (scores - 1)
        unlisted = Y[:, j] == 0
        # d/ds [s^2 - (s - 1)^2] = 2.
        pull[unlisted] += n * (1 - priors[j]) * 2 / unlisted.sum()
        gW[:, j] += X.T @ pull
        gb[j] = pull.sum()
    return gW, gb


def plain_comes(X, Y, priors, lam, rounds=20_000):
    """Weights and offsets by gradient descent with a fixed step."""
    W = np.zeros((X.shape[1], Y.shape[1]))
    b = np.zeros(Y.shape[1])
    ones = np.column_stack([X, np.ones(len(X))])
    step = 1 / (2 * (np.linalg.norm(ones, 2) ** 2 + lam))
    for _ in range(rounds):
        gW, gb = plain_gradient(W, b, X, Y, priors, lam)
        W = W - step * gW
        b = b - step * gb
    return W, b


def plain_priors(scores, Y):
    """Priors from the quarter of rows with the lowest scores, label by label."""
    n, l = Y.shape
    priors = []
    for j in range(l):
        limit = sorted(scores[:, j])[-(-n // 4) - 1]
        low = [i for i in range(n) if scores[i, j] <= limit]
        rate = (sum(Y[i, j] for i in low) + 0.5) / (len(low) + 1)
        listed = sum(Y[:, j]) / n
        priors.append(min(max(1 - (1 - listed) / (1 - rate), 0), listed))
    return np.array(priors)

"""A search on held-out candidates with nothing shared between points, splits and rounds."""

import numpy as np

from schirn.metrics import average_precision


def plain_search(X, Y, points, rounds, *, fit_intercept=False):
    """Score of each (alpha, beta, lam), a list with its rounds; beta counts after the last one."""
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    random, fold = np.random.RandomState(0), np.empty(len(Y))
    key = X @ random.normal(size=X.shape[1])
    fold[np.argsort(key)] = random.permutation(len(Y)) % 3
    found = []
    for (alpha, beta, lam), stop in zip(points, rounds, strict=True):
        total, count = 0.0, 0
        for k in range(3):
            train, test = fold != k, fold == k
            scores = plain_scores(
                X[train], Y[train], X[test], alpha, beta, lam, stop, max(rounds), fit_intercept
            )
            listed = Y[test]
            # Of tied labels the unlisted ones come first.
            scores = scores - 1e-12 * listed
            if Y.shape[1] == 1:
                # The only label ranks rows.
                listed, scores = listed.T, scores.T
            both = listed.any(axis=1) & ~listed.all(axis=1)
            total += both.sum() * average_precision(listed[both], scores[both])
            count += both.sum()
        found.append(total / count)
    return np.array(found)


def plain_scores(X, Y, X_test, alpha, beta, lam, stop, last, fit_intercept):
    """Ridge on Y, then noise where it is below (1 - alpha)/2, and the ridge on what is kept."""
    mean = X.mean(axis=0) if fit_intercept else np.zeros(X.shape[1])
    A, d = X - mean, X.shape[1]

    def ridge(target):
        b = target.mean(axis=0) if fit_intercept else np.zeros(Y.shape[1])
        return np.linalg.solve(A.T @ A + lam * np.eye(d), A.T @ (target - b)), b

    W, b = ridge(Y)
    noise_steps = min(stop, last - 1)
    for _ in range(noise_steps):
        N = (Y == 1) & (A @ W + b < (1 - alpha) / 2)
        W, b = ridge(Y - N)
    if stop == last:
        U, S, Vt = np.linalg.svd(A @ W + b, full_matrices=False)
        known = S > 1e-6 * S[0]
        W, b = ridge(Y - N + beta * (U[:, known] @ Vt[known]))
    return (X_test - mean) @ W + b

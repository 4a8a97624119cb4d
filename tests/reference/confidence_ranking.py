"""PML-lc and PML-fp from their objective: loops over rows and labels, general solvers of scipy."""

import numpy as np
from scipy.optimize import LinearConstraint, minimize


def errors(f, y):
    """E of one row: mean squared hinge of a candidate against the labels not listed."""
    others = np.flatnonzero(y == 0)
    if len(others) == 0:
        return np.zeros(len(y))
    return np.array(
        [
            np.mean([max(0, 1 - f[j] + f[k]) ** 2 for k in others]) if y[j] else 0
            for j in range(len(y))
        ]
    )


def correlation(Y, gamma):
    """The term of PML-lc as a function of one row of confidences."""
    l = Y.shape[1]
    S = np.zeros((l, l))
    for j in range(l):
        for k in range(l):
            if j != k and Y[:, j].any() and Y[:, k].any():
                both = np.sum(Y[:, j] * Y[:, k])
                S[j, k] = both / np.sqrt(Y[:, j].sum() * Y[:, k].sum())
    s = S.sum(axis=0)

    def price(p):
        pairs = [
            S[j, k] * (p[j] / np.sqrt(s[j]) - p[k] / np.sqrt(s[k])) ** 2
            for j in range(l)
            for k in range(l)
            if S[j, k] > 0
        ]
        return gamma / 4 * sum(pairs)

    return price


def prototype_differences(Z, P, gamma):
    """Factors of P in the term of PML-fp."""
    mean = Z.mean(axis=0)
    variance = np.mean(np.sum((Z - mean) ** 2, axis=1))
    D = np.zeros(P.shape)
    for j in range(P.shape[1]):
        m = P[:, j] @ Z / P[:, j].sum() if P[:, j].any() else mean
        for i in range(len(Z)):
            D[i, j] = np.sum((Z[i] - m) ** 2) - np.sum((Z[i] - mean) ** 2)
    return gamma * D / variance


def plain_confidence_ranking(Z, Y, kind, lam, alpha, gamma, rounds):
    """Weights, confidences and objective of every round; Z has the column of ones."""
    (n, d), l = Z.shape, Y.shape[1]
    P, W = Y.astype(float), np.zeros((d, l))
    linked = correlation(Y, gamma) if kind == "lc" else lambda p: 0.0
    objective = []
    for _ in range(rounds):

        def ranking(flat, P=P):
            F = Z @ flat.reshape(d, l)
            return sum(P[i] @ errors(F[i], Y[i]) for i in range(n)) + lam / 2 * flat @ flat

        W = minimize(ranking, W.ravel(), method="BFGS", options={"gtol": 1e-6}).x.reshape(d, l)
        F = Z @ W
        E = np.array([errors(F[i], Y[i]) for i in range(n)])
        D = prototype_differences(Z, P, gamma) if kind == "fp" else np.zeros(P.shape)
        total = lam / 2 * np.sum(W**2)
        rows = []
        for i in range(n):

            def price(p, y=Y[i], slope=E[i] + D[i]):
                return p @ slope + alpha / 2 * np.sum((y - p) ** 2) + linked(p)

            start = Y[i] / max(Y[i].sum(), 1)
            best = minimize(
                price,
                start,
                method="SLSQP",
                bounds=[(0, y) for y in Y[i]],
                constraints=[LinearConstraint(np.ones(l), min(1, Y[i].sum()), np.inf)],
                options={"ftol": 1e-14, "maxiter": 500},
            )
            rows.append(best.x)
            total += best.fun
        P = np.array(rows)
        objective.append(total)
    return W, P, np.array(objective)

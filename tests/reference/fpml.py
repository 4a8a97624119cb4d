"""FPML as written: four least squares problems per sweep, all of them solved."""

import numpy as np


def plain_fpml(X, Y, k, lam1, lam2, lam3, seed=0, sweeps=100, tol=1e-5, every_step=False):
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    (n, d), q = X.shape, Y.shape[1]
    rng = np.random.RandomState(seed)
    G, B = rng.random_sample((q, k)), rng.random_sample((d, k))
    S, W, tiny = np.zeros((n, k)), np.zeros((d, q)), 1e-8 * np.eye(k)
    objective = []

    def note():
        C = S @ G.T
        objective.append(
            np.sum((Y - C) ** 2)
            + lam1 * np.sum((X - S @ B.T) ** 2)
            + lam2 * np.sum((X @ W - C) ** 2)
            + lam3 * np.sum(W**2)
        )

    for sweep in range(sweeps):
        S = (Y @ G + lam1 * X @ B + lam2 * X @ W @ G) @ np.linalg.inv(
            (1 + lam2) * G.T @ G + lam1 * B.T @ B + tiny
        )
        if every_step:
            note()
        G = (Y.T @ S + lam2 * (X @ W).T @ S) @ np.linalg.inv((1 + lam2) * (S.T @ S + tiny))
        if every_step:
            note()
        B = X.T @ S @ np.linalg.inv(S.T @ S + tiny)
        if every_step:
            note()
        W = lam2 * np.linalg.solve(lam2 * X.T @ X + lam3 * np.eye(d), X.T @ S @ G.T)
        note()
        if sweep and not every_step and abs(objective[-2] - objective[-1]) < tol * objective[-2]:
            break
    return W, S @ G.T, np.array(objective)

"""Schirn as written: a linear solve and a singular value decomposition in every round."""

import numpy as np


def plain_schirn(
    X, Y, alpha, beta, lam, rule="exact", term="high", mu=1e-4, mu_max=10.0, rho=1.1, rounds=100
):
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    d = X.shape[1]
    W, N = np.zeros((d, Y.shape[1])), np.zeros(Y.shape)
    C, L = np.ones(Y.shape), np.ones(Y.shape)
    objective, residual, noise = [], [], []
    for _ in range(rounds):
        W = ridge_step(X, C, L, mu, lam)
        M = Y - C
        price = (1 + alpha) / 2 if rule == "exact" else alpha / 2
        N = ((Y == 1) & (M > price)).astype(float)
        G = (2 * Y - 2 * N + L + mu * (X @ W)) / (2 + mu)
        C = rank_step(G, 2 * beta / (2 + mu), term)
        L = L + mu * (X @ W - C)
        residual.append(np.linalg.norm(X @ W - C))
        noise.append(int(N.sum()))
        sign = {"high": -1, "low": 1, "none": 0}[term]
        objective.append(
            np.sum((C - (Y - N)) ** 2)
            + alpha * N.sum()
            + sign * beta * np.linalg.norm(C, "nuc")
            + lam * np.sum(W**2)
        )
        mu = min(mu_max, rho * mu)
    return W, N.astype(bool), np.array(objective), np.array(residual), np.array(noise)


def ridge_step(X, C, L, mu, lam):
    # The wider side is solved through the smaller system; both are the same matrix identity.
    n, d = X.shape
    if d <= n:
        return np.linalg.lstsq(
            np.vstack([np.sqrt(mu) * X, np.sqrt(2 * lam) * np.eye(d)]),
            np.vstack([(mu * C - L) / np.sqrt(mu), np.zeros((d, C.shape[1]))]),
            rcond=None,
        )[0]
    return X.T @ np.linalg.solve(mu * X @ X.T + 2 * lam * np.eye(n), mu * C - L)


def rank_step(G, shift, term):
    U, S, Vt = np.linalg.svd(G, full_matrices=False)
    there = S > S[0] * 1e-12
    if term == "high":
        S = np.where(there, S + shift, S)
    if term == "low":
        S = np.maximum(S - shift, 0)
    return (U * S) @ Vt

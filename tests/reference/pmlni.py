"""PML-NI as written: a solve and a singular value decomposition in every round.

Orientation of the source: labels in rows, features and the bias in columns.
"""

import numpy as np


def minmax_features(X, low=None, high=None):
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    low, high = (X.min(axis=0), X.max(axis=0)) if low is None else (low, high)
    span = np.where(high > low, high - low, 1)
    return np.where(high > low, 2 * (X - low) / span - 1, 0)


def with_bias(X):
    return np.column_stack([X, np.ones(len(X))])


def plain_pmlni(F, Y, lam, beta, gamma, mu=1e-4, rho=1.1, rounds=500, tol=1e-7, tol_change=1e-5):
    D, q = F.shape[1], Y.shape[1]
    U = V = L = np.zeros((q, D))
    YX, XX = Y.T @ F, F.T @ F
    objective = []
    for _ in range(rounds):
        M = YX + mu * U + mu * V + L
        W = np.linalg.solve(XX + (lam + mu) * np.eye(D), M.T).T
        U_old = U
        U = svt(W - V - L / mu, beta / mu)
        V = soft(W - U - L / mu, gamma / mu)
        objective.append(value(F, Y, W, U, V, lam, beta, gamma))
        settled = mu * np.linalg.norm(U - U_old) / np.linalg.norm(W) < tol_change
        close = np.linalg.norm(W - U - V) / np.linalg.norm(W) < tol
        if settled:
            mu = min(rho * mu, 1e10)
        L = L + mu * (U + V - W)
        if settled and close:
            break
    return U, V, len(objective), np.array(objective)


def value(F, Y, W, U, V, lam, beta, gamma):
    loss = np.sum((Y.T - W @ F.T) ** 2) / 2 + lam / 2 * np.sum(W**2)
    return loss + beta * np.linalg.norm(U, "nuc") + gamma * np.abs(V).sum()


def svt(A, t):
    left, s, right = np.linalg.svd(A, full_matrices=False)
    return (left * np.maximum(s - t, 0)) @ right


def soft(A, t):
    return np.sign(A) * np.maximum(np.abs(A) - t, 0)

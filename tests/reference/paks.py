"""PAKS as written: a singular value decomposition and products with X in every round."""

import numpy as np


def candidate_prior(Y, membership="jaccard"):
    n = len(Y)
    M = np.zeros((n, n))
    for i in range(n):
        for k in range(n):
            shared, union = np.sum(Y[i] * Y[k]), np.sum(Y[i] + Y[k] > 0)
            if i == k:
                continue
            if membership == "jaccard":
                M[i, k] = 1 - shared / union if union else 1.0
            else:
                M[i, k] = float(shared == 0)
    return M


def plain_paks(
    X, Y, alpha, beta, eta, gamma=0.0, membership="jaccard", mu=1e-2, rho=1.3, rounds=100, tol=1e-4
):
    n, d = X.shape
    M = candidate_prior(Y, membership)
    Z, L2, L3 = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    E, L1, W = np.zeros((n, d)), np.zeros((n, d)), np.zeros((d, Y.shape[1]))
    objective = []
    for _ in range(rounds):
        U, s, Vt = np.linalg.svd(Z + L2 / mu)
        J = (U * np.maximum(s - 1 / mu, 0)) @ Vt
        T = Z + L3 / mu
        Q = np.sign(T) * np.maximum(np.abs(T) - beta * M / mu, 0)
        B = X @ W
        right = gamma * Y @ B.T + (mu * (X - E) + L1) @ X.T + mu * (J + Q) - L2 - L3
        system = gamma * B @ B.T + mu * X @ X.T + 2 * mu * np.eye(n)
        Z = np.linalg.solve(system, right.T).T
        T = X - Z @ X + L1 / mu
        norms = np.maximum(np.linalg.norm(T, axis=1, keepdims=True), 1e-300)
        E = T * np.maximum(1 - alpha / mu / norms, 0)
        L1 = L1 + mu * (X - Z @ X - E)
        L2, L3 = L2 + mu * (Z - J), L3 + mu * (Z - Q)
        if gamma:
            W = ridge(Z @ X, Y, eta)
        value = np.linalg.norm(J, "nuc") + alpha * np.linalg.norm(E, axis=1).sum()
        value += beta * np.sum(M * np.abs(Q))
        fit = np.sum((Z @ X @ W - Y) ** 2) + eta * np.sum(W**2)
        objective.append(value + gamma / 2 * fit)
        mu = min(rho * mu, 1e6)
        gaps = np.abs(X - Z @ X - E).max() / np.abs(X).max(), np.abs(Z - J).max()
        if max(*gaps, np.abs(Z - Q).max()) < tol:
            break
    return Z, E, J, ridge(Z @ X, Y, eta), np.array(objective)


def ridge(A, Y, eta):
    return np.linalg.solve(A.T @ A + eta * np.eye(A.shape[1]), A.T @ Y)

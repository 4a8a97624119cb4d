"""PML-LRS as written: a solve and two singular value decompositions in every round.

Orientation of the source: X d x n, labels in rows.
"""

import numpy as np


def plain_pmllrs(X, Y, eta, beta, gamma, mu=1.0, rho=1.1, mu_max=1e10, rounds=200, tol=1e-6):
    X = (X.toarray() if hasattr(X, "toarray") else np.asarray(X)).T
    Y = np.asarray(Y, dtype=float).T
    d = X.shape[0]
    P, Q = Y.copy(), np.zeros_like(Y)
    W = Z = L3 = np.zeros((len(Y), d))
    L1 = L2 = np.zeros_like(Y)
    objective = []
    for _ in range(rounds):
        J = svt(P + L2 / mu, 1 / mu)
        Z = svt(W + L3 / mu, gamma / mu)
        Q = soft(Y - P + L1 / mu, beta / mu)
        P = (eta * W @ X + L1 + mu * (Y - Q) - L2 + mu * J) / (eta + 2 * mu)
        W = np.linalg.solve(eta * X @ X.T + mu * np.eye(d), (eta * P @ X.T - L3 + mu * Z).T).T
        L1 = L1 + mu * (Y - P - Q)
        L2 = L2 + mu * (P - J)
        L3 = L3 + mu * (W - Z)
        mu = min(rho * mu, mu_max)
        objective.append(
            eta / 2 * np.sum((P - W @ X) ** 2)
            + np.linalg.norm(J, "nuc")
            + beta * np.abs(Q).sum()
            + gamma * np.linalg.norm(Z, "nuc")
        )
        gap = max(np.linalg.norm(Y - P - Q), np.linalg.norm(P - J)) / np.linalg.norm(Y)
        if gap < tol and np.linalg.norm(W - Z) / np.linalg.norm(W) < tol:
            break
    return W.T, P.T, Q.T, len(objective), np.array(objective)


def svt(A, t):
    left, s, right = np.linalg.svd(A, full_matrices=False)
    return (left * np.maximum(s - t, 0)) @ right


def soft(A, t):
    return np.sign(A) * np.maximum(np.abs(A) - t, 0)

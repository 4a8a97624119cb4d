"""MUSER with explicit factors: dense systems and singular value decompositions, block by block."""

import numpy as np
from scipy.linalg import solve_sylvester


def plain_objective(X, Y, L, U, P, Q, W, alpha, beta, gamma):
    """The objective as printed, with the factors Q and W."""
    return 0.5 * (
        np.sum((U - X @ Q @ W) ** 2)
        + alpha * np.sum((Y - U @ P) ** 2)
        + beta * np.trace(U.T @ L @ U)
        + gamma * (np.sum(W**2) + np.sum(U**2) + np.sum(P**2))
    )


def plain_feature_subspace(X, U, m, gamma):
    """Best Q (orthonormal, m columns) and W: ordinary reduced-rank regression of padded rows."""
    d = X.shape[1]
    padded = np.vstack([X, np.sqrt(gamma) * np.eye(d)])
    target = np.vstack([U, np.zeros((d, U.shape[1]))])
    B = np.linalg.lstsq(padded, target, rcond=None)[0]
    Vt = np.linalg.svd(padded @ B, full_matrices=False)[2][:m]
    B = B @ Vt.T @ Vt
    left, values, right = np.linalg.svd(B, full_matrices=False)
    return left[:, :m], values[:m, None] * right[:m]


def plain_muser(X, Y, L, c, m, alpha, beta, gamma, rounds):
    """Factors and objective of every round, from the leading singular vectors of Y."""
    left, values, _ = np.linalg.svd(Y, full_matrices=False)
    U = left[:, :c] * np.sqrt(values[:c])
    Q, W = plain_feature_subspace(X, U, m, gamma)
    objective = []
    for _ in range(rounds):
        P = np.linalg.solve(alpha * U.T @ U + gamma * np.eye(c), alpha * U.T @ Y)
        A = (1 + gamma) * np.eye(len(X)) + beta * L
        U = solve_sylvester(A, alpha * P @ P.T, X @ Q @ W + alpha * Y @ P.T)
        Q, W = plain_feature_subspace(X, U, m, gamma)
        objective.append(plain_objective(X, Y, L, U, P, Q, W, alpha, beta, gamma))
    return U, P, Q, W, np.array(objective)

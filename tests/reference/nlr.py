"""NLR as written: two linear solves in every sweep."""

import numpy as np


def plain_nlr(X, Y, beta, gamma, lam, sweeps=100):
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    M, one = X.T @ X, np.ones(Y.shape)
    A = (1 + beta) * M + gamma * np.eye(X.shape[1])
    W1, W2 = np.zeros((X.shape[1], Y.shape[1])), np.zeros((X.shape[1], Y.shape[1]))
    N, other, objective = np.zeros(Y.shape), 1 - Y, []
    for _ in range(sweeps):
        W1 = np.linalg.solve(A, X.T @ (Y - N) + beta * X.T @ one - beta * M @ W2)
        W2 = np.linalg.solve(A, X.T @ (other + N) + beta * X.T @ one - beta * M @ W1)
        gradient = 4 * N - 2 * Y + 2 * other + 2 * X @ W1 - 2 * X @ W2
        G = N - gradient / 4
        shrunk = np.sign(G) * np.maximum(np.abs(G) - lam / 4, 0)
        N = np.where((shrunk > 0) & (Y == 1), 1.0, 0.0)
        objective.append(
            np.sum((X @ W1 - (Y - N)) ** 2)
            + np.sum((X @ W2 - (other + N)) ** 2)
            + beta * np.sum((X @ W1 + X @ W2 - 1) ** 2)
            + gamma * (np.sum(W1**2) + np.sum(W2**2))
            + lam * N.sum()
        )
    return W1, W2, N.astype(bool), np.array(objective)

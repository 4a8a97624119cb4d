"""PML-MA as released: two label projections P1 and P2, and a Sylvester equation for each."""

import numpy as np

from reference.kernel_map import polar
from reference.pmlni import svt


def sylvester(A, B, C):
    """Solve A Z + Z B = C for symmetric A and B; tiny sums of eigenvalues give 0."""
    a, U = np.linalg.eigh(A)
    b, V = np.linalg.eigh(B)
    total = a[:, None] + b
    inner = U.T @ C @ V
    return U @ np.where(np.abs(total) < 1e-5, 0, inner / total) @ V.T


def plain_pmlma(
    X, Y, A, S, lam, alpha, beta, gamma, target_weight=2, rounds=50, tol=1e-4, rng=None
):
    """Weights W = P1 P2', pseudo-labels R and the loss of every round."""
    (n, d), q = X.shape, Y.shape[1]
    m = min(d, q)
    rng = np.random.default_rng(0) if rng is None else rng
    P1, P2 = rng.normal(size=(d, m)), rng.normal(size=(q, m))
    Ds = np.diag(A.sum(axis=1))
    R, loss = Y.astype(float), []
    for t in range(rounds):
        right = R.T @ (np.eye(n) - alpha * S) @ X @ P1
        P2 = polar(sylvester(R.T @ (np.eye(n) + alpha * Ds) @ R, gamma * P1.T @ P1, right))
        right = X.T @ (np.eye(n) + alpha * S) @ R @ P2
        P1 = sylvester(X.T @ (np.eye(n) + alpha * Ds) @ X, gamma * P2.T @ P2, right)
        size = R.sum(axis=0)
        V = np.divide(X.T @ R, size, out=np.zeros((d, q)), where=size > 0)
        Q = polar(R.T @ Y)
        W, D = P1 @ P2.T, np.diag(R.sum(axis=1))
        inner = P2 @ P2.T + np.eye(q) + beta * V.T @ V
        lip = 2 * np.linalg.norm(inner) + alpha * Ds.max()
        grad = R - X @ W + R - target_weight * Y @ Q + alpha * Ds @ R - alpha * S @ X @ W
        grad = 2 * (grad + beta * R @ V.T @ V - beta * D @ X @ V)
        Rhat = svt(R - grad / lip, lam / lip)
        old = np.where(R == 0, 1, R)
        R = np.where((Y > 0) & (R != 0), Rhat - np.maximum(R - Y, 0) / old, 0)
        D = np.diag(R.sum(axis=1))
        value = np.sum((X @ W - R) ** 2) + np.sum((Y - R @ Q.T) ** 2)
        value += lam * np.linalg.norm(R, axis=0).sum() + gamma * np.sum(W**2)
        value += beta * np.sum((X.T @ D - V @ R.T) ** 2)
        XW = X @ W
        value += alpha * np.trace(XW.T @ Ds @ XW + R.T @ Ds @ R - 2 * XW.T @ S @ R)
        loss.append(value)
        if t >= 2 and (loss[t - 2] - loss[t - 1]) / loss[t - 2] < tol:
            break
    return W, R, np.array(loss)

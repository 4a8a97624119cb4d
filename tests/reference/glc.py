"""GLC as written: a Sylvester equation, a solve and a singular value decomposition per round."""

import numpy as np
from scipy.linalg import solve_sylvester


def cosine_laplacian(Y):
    l = Y.shape[1]
    S = np.zeros((l, l))
    for j in range(l):
        for k in range(l):
            size = np.linalg.norm(Y[:, j]) * np.linalg.norm(Y[:, k])
            if j != k and size > 0:
                S[j, k] = Y[:, j] @ Y[:, k] / size
    return np.diag(S.sum(axis=1)) - S


def plain_glc(
    X,
    Y,
    alpha,
    beta,
    gamma,
    eta,
    L,
    outputs=False,
    mu=1e-2,
    rho=1.1,
    mu_max=1e4,
    rounds=100,
    tol=1e-5,
):
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    l = Y.shape[1]
    Z, J, E = np.eye(l), np.eye(l), np.zeros(Y.shape)
    L1, L2 = np.zeros(Y.shape), np.zeros((l, l))
    objective, residual = [], []
    for _ in range(rounds):
        W = weight_step(X, Y @ Z, gamma, eta, L, outputs)
        A = (1 + mu) * Y.T @ Y + mu * np.eye(l)
        Z = np.linalg.solve(A, Y.T @ X @ W + mu * Y.T @ (Y - E + L1 / mu) + mu * (J - L2 / mu))
        U, s, Vt = np.linalg.svd(Z + L2 / mu)
        J = (U * np.maximum(s - alpha / mu, 0)) @ Vt
        T = Y - Y @ Z + L1 / mu
        E = np.clip(np.sign(T) * np.maximum(np.abs(T) - beta / mu, 0), 0, Y)
        L1 = L1 + mu * (Y - Y @ Z - E)
        L2 = L2 + mu * (Z - J)
        mu = min(rho * mu, mu_max)
        similar = X @ W if outputs else W
        objective.append(
            np.sum((X @ W - Y @ Z) ** 2) / 2
            + alpha * np.linalg.norm(J, "nuc")
            + beta * E.sum()
            + gamma / 2 * np.trace(similar @ L @ similar.T)
            + eta / 2 * np.sum(W**2)
        )
        residual.append(max(np.abs(Y - Y @ Z - E).max(), np.abs(Z - J).max()))
        if residual[-1] < tol:
            break
    return W, Z, J, E, np.array(objective), np.array(residual)


def weight_step(X, B, gamma, eta, L, outputs):
    # With outputs, (X'X) W (I + gamma L) + eta W = X'B, a Sylvester equation after one inverse.
    d, l = X.shape[1], B.shape[1]
    M = X.T @ X
    if not outputs:
        return solve_sylvester(M + eta * np.eye(d), gamma * L, X.T @ B)
    R = np.linalg.inv(np.eye(l) + gamma * L)
    return solve_sylvester(M, eta * R, X.T @ B @ R)

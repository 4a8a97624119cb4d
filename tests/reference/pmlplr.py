"""PML-PLR as released, with n x n matrices; the sign of mu in the step of H is the right one."""

import numpy as np

from reference.kernel_map import polar, squared_distances


def simplex(v):
    """The nearest point with entries >= 0 and sum 1."""
    u = np.sort(v)[::-1]
    excess = np.cumsum(u) - 1
    k = np.flatnonzero(u > excess / np.arange(1, len(u) + 1))[-1]
    return np.maximum(v - excess[k] / (k + 1), 0)


def plain_pmlplr(
    Z,
    Phi,
    Y,
    S,
    H,
    P,
    alpha,
    beta,
    lam,
    mu=1000.0,
    reconstruct=True,
    rounds=40,
    tol=1e-4,
    sign=1,
):
    """Weights W, pseudo-labels F, the matrix C and the loss of every round.

    Z are the scaled rows and Phi their map. `sign=-1` is the released step of H. Without the
    reconstruction F stays between 0 and Y, which the released step does not do.
    """
    n = len(Y)
    G, L = squared_distances(Z, Z), np.diag(S.sum(axis=1)) - S
    F, C, E = Y.astype(float), np.eye(n), np.zeros(Y.shape)
    loss = []
    for t in range(rounds):
        W = np.linalg.solve(Phi.T @ Phi + lam * np.eye(Phi.shape[1]), Phi.T @ F)
        YQ = polar(Y @ F.T).T @ Y
        if reconstruct:
            P = polar(2 * H @ C.T @ Y + mu * H @ (Y - E))
            left = 2 * P @ Y.T @ C + sign * mu * P @ (Y - E).T
            H = left @ np.linalg.inv(2 * C.T @ C + sign * mu * np.eye(n))
            right = np.linalg.pinv(2 * H.T @ H, rcond=1e-10, hermitian=True)
            O = (2 * Y @ P.T @ H + 2 * beta * L @ F @ F.T - G) @ right
            C = np.array([simplex(row) for row in O])
            E = np.maximum(Y - H.T @ P - alpha / mu, 0)
        den = 2 * F + beta * (C @ L + L @ C.T) @ F
        raised = F * (Phi @ W + YQ) - np.maximum(F - Y, 0) * Y
        if reconstruct:
            moved = raised / np.where(den == 0, 1, den)
        else:
            moved = np.clip(raised / np.maximum(den, 1.5e-8), 0, 1)
        F = np.where((Y > 0) & (F != 0), moved, 0)
        value = np.sum((Phi @ W - F) ** 2) + np.sum((YQ - F) ** 2) + lam * np.sum(W**2)
        value += beta * np.trace(F.T @ C @ L @ F)
        if reconstruct:
            B = H.T @ P
            value += np.sum((Y - C @ B) ** 2) + np.sum(G * C) + alpha * np.abs(Y - B).sum()
        loss.append(value)
        if t >= 5 and (loss[t - 1] - loss[t]) / loss[t - 1] < tol:
            break
    return W, F, C, np.array(loss)

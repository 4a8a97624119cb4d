"""PLAIN with loops: both graphs and the propagation, straight from the formulas."""

import numpy as np


def plain_instance_graph(X, k):
    """Normalised graph of the k largest cosines, rows as they are."""
    n = len(X)
    W = np.zeros((n, n))
    for i in range(n):
        cosines = []
        for j in range(n):
            if j != i:
                size = np.linalg.norm(X[i]) * np.linalg.norm(X[j])
                cosines.append((-(X[i] @ X[j]) / size if size else 0.0, j))
        for minus_cosine, j in sorted(cosines)[:k]:
            weight = max(-minus_cosine, 0.0) ** 3
            W[i, j] += weight
            W[j, i] += weight
    return plain_normalised(W)


def plain_label_graph(Y):
    """Normalised graph of the labels that are listed together."""
    l = Y.shape[1]
    R = np.zeros((l, l))
    for i in range(l):
        for j in range(l):
            total = Y[:, i].sum() + Y[:, j].sum()
            if i != j and total:
                R[i, j] = (Y[:, i] * Y[:, j]).sum() / total
    return plain_normalised(R)


def plain_normalised(W):
    """Every edge over the roots of the degrees of its ends."""
    degree = W.sum(axis=1)
    normalised = np.zeros_like(W)
    for i, j in np.argwhere(W):
        normalised[i, j] = W[i, j] / np.sqrt(degree[i] * degree[j])
    return normalised


def plain_objective(Z, S, L, Y, P, alpha, beta, eta):
    """The objective of the pseudo-labels, written with traces."""
    rows = np.trace(Z.T @ (np.eye(len(S)) - S) @ Z)
    labels = np.trace(Z @ (np.eye(len(L)) - L) @ Z.T)
    return 0.5 * (alpha * rows + beta * labels + eta * np.sum((Z - Y) ** 2) + np.sum((Z - P) ** 2))


def plain_gradient(Z, *args):
    """The gradient of the objective by central differences, cell by cell."""
    gradient = np.zeros_like(Z)
    step = 1e-4
    for cell in np.ndindex(Z.shape):
        change = np.zeros_like(Z)
        change[cell] = step
        rise = plain_objective(Z + change, *args) - plain_objective(Z - change, *args)
        gradient[cell] = rise / (2 * step)
    return gradient


def plain_propagate(S, L, Y, P, alpha, beta, eta, rate, n_steps):
    """Gradient steps from the candidates."""
    Z = Y.copy()
    for _ in range(n_steps):
        Z = Z - rate * plain_gradient(Z, S, L, Y, P, alpha, beta, eta)
    return Z


def plain_minimum(S, L, Y, P, alpha, beta, eta):
    """The pseudo-labels at which the gradient vanishes, from one dense system of all cells."""
    n, l = Y.shape
    rows = np.kron(np.eye(n) - S, np.eye(l))
    labels = np.kron(np.eye(n), np.eye(l) - L)
    A = alpha * rows + beta * labels + (eta + 1) * np.eye(n * l)
    return np.linalg.solve(A, (eta * Y + P).ravel()).reshape(n, l)

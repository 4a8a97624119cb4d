"""The kernel map and the neighbour graph of PML-MA and PML-PLR as written, dense and in loops."""

import numpy as np

from reference.pmlni import minmax_features


def squared_distances(A, B):
    return np.sum((A[:, None, :] - B[None, :, :]) ** 2, axis=2)


def kernel_map(X, X_new, anchors):
    """Maps of training rows and new rows; `anchors` are indices of training rows."""
    low, high = X.min(axis=0), X.max(axis=0)
    Z, Z_new = minmax_features(X), minmax_features(X_new, low, high)
    D, D_new = squared_distances(Z, Z[anchors]), squared_distances(Z_new, Z[anchors])
    sigma = D.mean()
    K, K_new = np.exp(-D / (2 * sigma)), np.exp(-D_new / (2 * sigma))
    centre = K.mean(axis=0)
    return [np.column_stack([A - centre, np.ones(len(A))]) for A in (K, K_new)]


def neighbour_graph(X, k=5):
    """The directed weights A with ones on the diagonal, and S = (A + A')/2."""
    D = squared_distances(minmax_features(X), minmax_features(X))
    np.fill_diagonal(D, np.inf)
    s = D.min(axis=1).mean()
    A = np.eye(len(X))
    for i in range(len(X)):
        for j in np.argsort(D[i], kind="stable")[:k]:
            A[i, j] = np.exp(-D[i, j] / (2 * s**2)) if s > 0 else 1.0
    return A, (A + A.T) / 2


def polar(M):
    """U V' of the thin M = U S V'; null directions are left out."""
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    keep = s > 1e-7 * s[0]
    return U[:, keep] @ Vt[keep]

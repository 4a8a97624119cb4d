"""Matrices with singular values of all kinds."""

import numpy as np


def with_singular_values(n, l, values, seed=0):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(n, len(values))))[0]
    V = np.linalg.qr(rng.normal(size=(l, len(values))))[0]
    return (U * np.asarray(values)) @ V.T


MATRICES = {
    "tall": with_singular_values(30, 6, [9, 5, 3, 2, 1, 0.5]),
    "square": with_singular_values(6, 6, [9, 5, 3, 2, 1, 0.5]),
    "wide": with_singular_values(6, 30, [9, 5, 3, 2, 1, 0.5]),
    "rank two": with_singular_values(30, 6, [4, 2]),
    "wide, rank two": with_singular_values(6, 30, [4, 2]),
    "equal values": with_singular_values(30, 3, [2, 2, 2]),
    "duplicate columns": np.repeat(with_singular_values(20, 3, [3, 2, 1]), 2, axis=1),
    "zero column": np.pad(with_singular_values(20, 3, [3, 2, 1]), ((0, 0), (1, 1))),
    "zero": np.zeros((8, 3)),
    "one row": np.array([[1.0, -2.0, 2.0]]),
    "one column": np.array([[1.0], [-2.0], [2.0]]),
    "one cell": np.array([[-3.0]]),
    "spread": with_singular_values(30, 5, [1, 1e-2, 1e-4, 1e-5, 1e-6]),
    "wide, spread": with_singular_values(5, 30, [1, 1e-2, 1e-4, 1e-5, 1e-6]),
    "huge": 1e100 * with_singular_values(30, 3, [3, 2, 1]),
    "tiny": 1e-100 * with_singular_values(30, 3, [3, 2, 1]),
}

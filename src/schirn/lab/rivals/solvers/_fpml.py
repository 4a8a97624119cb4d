"""FPML: candidates and features factored together, a predictor of the factored labels.

All terms are Frobenius norms, so the features are rotated into their row space, where X'X is
diagonal and the predictor needs no solve. With X'S at hand the label factor, the feature factor,
the predictor and the objective need no further product with X: a sweep has two, both k wide.
"""

from typing import Literal, NamedTuple

import numpy as np
import scipy.linalg

from schirn._input import Array
from schirn._progress import track
from schirn.linalg.row_space import RowSpace

Start = Literal["random", "svd"]

_RIDGE = 1e-8


class FPMLResult(NamedTuple):
    """Coordinates w of the predictor, sample factor S (n x k), label factor G (l x k)."""

    w: Array
    S: Array
    G: Array
    n_iter: int
    objective: Array


def fpml(
    space: RowSpace,
    Y: Array,
    k: int,
    *,
    lam1: float = 1.0,
    lam2: float = 1.0,
    lam3: float = 10.0,
    max_iter: int = 100,
    tol: float = 1e-5,
    start: Start = "random",
    rng: np.random.RandomState | None = None,
) -> FPMLResult:
    """Minimise ||Y - SG'||^2 + lam1 ||X - SB'||^2 + lam2 ||XW - SG'||^2 + lam3 ||W||^2.

    Alternating least squares over S, G, B and W, each step exact; Frobenius norms throughout.

    Parameters
    ----------
    space : RowSpace
        The factored X without an intercept, for the ridge weight lam3/lam2.
    Y : (n, l) array
        Candidates, 0/1.
    k : int
        Columns of the factors.
    tol : float
        Stop when the relative change of the objective falls below this value.
    start : {"random", "svd"}
        "random" draws G and B uniformly from [0, 1); "svd" takes them from the k leading singular
        vectors of [Y, sqrt(lam1) X].
    """
    Y = np.ascontiguousarray(Y, dtype=space.dtype)
    eigenvalues = space.eigenvalues[:, None]
    if start == "svd":
        G, b, BtB = _svd_start(space, Y, k, lam1)
    else:
        G, b, BtB = _random_start(space, Y.shape[1], k, rng or np.random.RandomState(0))
    w = np.zeros((space.shape[1], Y.shape[1]), dtype=space.dtype)
    objective: list[float] = []
    for _ in track(range(max_iter), "round", may_stop=tol > 0):
        S = Y @ G + space.expand(lam1 * b + lam2 * (w @ G))
        S = _divide(S, (1 + lam2) * (G.T @ G) + lam1 * BtB)
        StS = S.T @ S
        XtS = space.project(S)
        YtS = Y.T @ S
        G = _divide((YtS + lam2 * (w.T @ XtS)) / (1 + lam2), StS)
        b = _divide(XtS, StS)
        BtB = b.T @ b
        XtC = XtS @ G.T
        w = lam2 * XtC / (lam2 * eigenvalues + lam3)
        square = _dot(StS, G.T @ G)
        objective.append(
            float(np.sum(Y, dtype=np.float64))
            - 2 * _dot(YtS, G)
            + square
            + lam1 * (_dot(eigenvalues, 1) - 2 * _dot(XtS, b) + _dot(StS, BtB))
            + lam2 * (_dot(eigenvalues * w, w) - 2 * _dot(w, XtC) + square)
            + lam3 * _dot(w, w)
        )
        if len(objective) > 1 and objective[-2] - objective[-1] < tol * objective[-2]:
            break
    return FPMLResult(w, S, G, len(objective), np.array(objective))


def _random_start(
    space: RowSpace, n_labels: int, k: int, rng: np.random.RandomState
) -> tuple[Array, Array, Array]:
    """G, the coordinates of B in the row space, and B'B, which also has what is outside it."""
    G = rng.random_sample((n_labels, k)).astype(space.dtype)
    B = rng.random_sample((space.X.shape[1], k)).astype(space.dtype)
    b = space.project(np.asarray(space.X @ B)) / space.eigenvalues[:, None]
    return G, b, B.T @ B


def _svd_start(space: RowSpace, Y: Array, k: int, lam1: float) -> tuple[Array, Array, Array]:
    """Leading right singular vectors of [Y, sqrt(lam1) F], from the Gram matrix."""
    l = Y.shape[1]
    root = float(np.sqrt(lam1))
    cross = root * space.project(Y)
    K = np.block([[Y.T @ Y, cross.T], [cross, np.diag(lam1 * space.eigenvalues)]])
    k = min(k, len(K))
    V = scipy.linalg.eigh(K, subset_by_index=(len(K) - k, len(K) - 1))[1].astype(space.dtype)
    G = V[:l]
    b = V[l:] / root if root > 0 else V[l:]
    return G, b, b.T @ b


def _divide(M: Array, A: Array) -> Array:
    """M (A + ridge)^-1 for a small positive semi-definite A, which may lack rank."""
    A = A + _RIDGE * np.eye(len(A), dtype=A.dtype)
    values, E = np.linalg.eigh(A)
    # A direction below the rounding error of A carries no information.
    positive = values > values[-1] * len(A) * np.finfo(A.dtype).eps
    return (M @ E[:, positive] / values[positive]) @ E[:, positive].T


def _dot(A: Array, B: Array | float) -> float:
    return float(np.sum(A * B, dtype=np.float64))

"""MUSER: a subspace of the labels, learned together with a subspace of the features.

With B = Q W the feature subspace is a constraint on the rank of B: for orthonormal columns of Q the
norms of W and of Q W agree, and every B of rank m is such a product. So Q and W together are one
reduced-rank ridge regression of U, which has a closed form: the ridge solution, projected on the m
directions in which its fit is largest. The step of P is a ridge regression too. That of U,

    ((1 + gamma) I + beta L) U + alpha U P P' = X B + alpha Y P',

falls apart into one sparse system for every eigenvector of P P'. No step has a step size.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._input import Array
from schirn._progress import track
from schirn.lab.rivals.solvers._conjugate_gradients import NormalSolution, conjugate_gradients
from schirn.linalg.row_space import RowSpace


class MUSERResult(NamedTuple):
    """Coordinates w of the weights X -> U, label subspace U (n x c), correlations P (c x l)."""

    w: Array
    U: Array
    P: Array
    rank: int
    """Rank of the weights, at most the number of feature directions."""
    loo_scores: Array
    n_iter: int
    objective: Array


class _Regression(NamedTuple):
    """The reduced-rank ridge regression of U."""

    w: Array
    fitted: Array
    directions: Array
    """Projection (c, c) on the directions of U that the features may predict."""
    rank: int


def muser(
    space: RowSpace,
    Y: Array,
    laplacian: sp.csr_array,
    *,
    n_components: int,
    n_directions: int,
    alpha: float,
    beta: float,
    gamma: float,
    max_iter: int = 50,
    tol: float = 1e-5,
) -> MUSERResult:
    """Lower half of ||U - X B||^2 + alpha ||Y - U P||^2 + beta tr(U'L U) + gamma (the norms).

    The norms are ||B||^2 + ||U||^2 + ||P||^2, and B has rank `n_directions` at most. Alternating
    least squares over P, U and B from the leading singular vectors of Y, each step exact.

    Parameters
    ----------
    space : RowSpace
        The factored X, for the ridge weight gamma.
    Y : (n, l) array
        Candidates, 0/1.
    laplacian : (n, n) CSR array
        Graph Laplacian L of the rows.
    n_components, n_directions : int
        Columns of U, and largest rank of B.
    alpha, beta, gamma : float
    max_iter : int
    tol : float
        Stop when the relative change of the objective falls below this value.

    Returns
    -------
    MUSERResult
    """
    Y = np.ascontiguousarray(Y, dtype=space.dtype)
    L = laplacian.astype(space.dtype)
    U = _leading_vectors(Y, n_components)
    regression = _regress(space, U, n_directions, gamma)
    objective: list[float] = []
    for _ in track(range(max_iter), "round", may_stop=tol > 0):
        P = _correlations(U, Y, alpha, gamma)
        U = _label_subspace(regression.fitted, Y, P, L, alpha, beta, gamma, U)
        regression = _regress(space, U, n_directions, gamma)
        objective.append(_objective(space, Y, L, U, P, regression, alpha, beta, gamma))
        if len(objective) > 1 and objective[-2] - objective[-1] < tol * objective[-2]:
            break
    target = U @ regression.directions @ P
    fitted = regression.fitted @ P
    loo_scores = space.leave_one_out(target, fitted, gamma)
    n_iter = len(objective)
    return MUSERResult(regression.w, U, P, regression.rank, loo_scores, n_iter, np.array(objective))


def _leading_vectors(Y: Array, count: int) -> Array:
    """Left singular vectors of Y times the roots of their values: U P = Y for full rank."""
    values, E = np.linalg.eigh(Y.T @ Y)
    values = np.maximum(values[::-1][:count], 0)
    E = E[:, ::-1][:, :count]
    # The sign of an eigenvector is arbitrary; nothing that comes back depends on it.
    scale = np.maximum(values, np.finfo(Y.dtype).eps * max(float(values[0]), 1.0)) ** 0.25
    return np.asarray(Y @ E / scale)


def _correlations(U: Array, Y: Array, alpha: float, gamma: float) -> Array:
    """P = (alpha U'U + gamma I)^-1 alpha U'Y."""
    A = alpha * (U.T @ U) + gamma * np.eye(U.shape[1], dtype=U.dtype)
    return np.asarray(np.linalg.solve(A, alpha * (U.T @ Y)))


def _label_subspace(
    fitted: Array,
    Y: Array,
    P: Array,
    L: sp.csr_array,
    alpha: float,
    beta: float,
    gamma: float,
    U: Array,
) -> Array:
    """Solve for U in the eigenvectors of P P', by conjugate gradients from the previous U."""
    e, E = np.linalg.eigh(P @ P.T)
    shifts = alpha * np.maximum(e, 0)
    right = (fitted + alpha * (Y @ P.T)) @ E
    # Along a null direction of P P', U is 0: a system of rounding errors has no useful solution.
    norms = np.linalg.norm(right, axis=0)
    right[:, norms <= np.finfo(U.dtype).eps * norms.max()] = 0

    def normal(V: Array) -> Array:
        return np.asarray(beta * (L @ V) + V * shifts)

    start = U @ E
    solution = conjugate_gradients(
        normal,
        right,
        mu=1.0,
        ridge=1 + gamma,
        diagonal=beta * L.diagonal(),
        start=NormalSolution(start, normal(start)),
    )
    return np.asarray(solution.W @ E.T)


def _regress(space: RowSpace, U: Array, n_directions: int, gamma: float) -> _Regression:
    """Minimise ||U - X B||^2 + gamma ||B||^2 over B of bounded rank."""
    FtU = space.project(U)
    w = space.ridge(FtU, gamma)
    penalised = space.penalty[:, None] > 0
    # The gain of a direction v of U is v'U'F (S^2 + gamma)^-1 F'U v.
    gains = np.where(penalised, FtU, 0).T @ w
    values, V = np.linalg.eigh((gains + gains.T) / 2)
    floor = max(float(values[-1]), 0.0) * len(values) * np.finfo(U.dtype).eps
    V = V[:, -n_directions:][:, values[-n_directions:] > floor]
    directions = V @ V.T
    # An intercept is no direction of the features.
    w = np.where(penalised, w @ directions, w)
    return _Regression(w, space.expand(w), directions, V.shape[1])


def _objective(
    space: RowSpace,
    Y: Array,
    L: sp.csr_array,
    U: Array,
    P: Array,
    regression: _Regression,
    alpha: float,
    beta: float,
    gamma: float,
) -> float:
    norms = _square(U) + _square(P) + _square(np.sqrt(space.penalty)[:, None] * regression.w)
    smoothness = float(np.sum(U * (L @ U), dtype=np.float64))
    return 0.5 * (
        _square(U - regression.fitted)
        + alpha * _square(Y - U @ P)
        + beta * smoothness
        + gamma * norms
    )


def _square(A: Array) -> float:
    return float(np.sum(A**2, dtype=np.float64))

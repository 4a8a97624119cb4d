"""Ridge systems by conjugate gradients, for features that are too many to factor.

The systems of a round, (mu X'X + ridge) W = B for all labels at once, differ little from those of
the round before: the last W is the first guess, and the product X'XW that the rounds need anyway is
carried along. A step costs two products with X and nothing d x d is ever formed.
"""

import logging
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from schirn.scale.blocks import Block, Coordinates, Place
from schirn.scale.factor import Factor

Array = np.ndarray

LOG = logging.getLogger("schirn")
# The smaller side of X from which on its Gram matrix is no longer decomposed: 1.2 GB and some
# minutes in double precision.
MOST_FACTORED = 12_000
_STEPS = 500
_PROBES = 64


def choose_solver(shape: tuple[int, int], solver: str = "auto") -> tuple[str, str]:
    """The solver ("factor" or "cg") for an X of this shape, and the reason.

    >>> choose_solver((50_000, 300))[0]
    'factor'
    >>> choose_solver((50_000, 300_000))[0]
    'cg'
    """
    if solver != "auto":
        return solver, "asked for"
    small = min(shape)
    gigabytes = small**2 * 8 / 1e9
    if small <= MOST_FACTORED:
        return "factor", f"the Gram matrix of side {small:,} fits ({gigabytes:.2g} GB)"
    return "cg", (
        f"the Gram matrix of side {small:,} would take {gigabytes:.2g} GB and "
        f"{9 * small**3:.1e} operations"
    )


class KrylovCoordinates(Coordinates):
    """Features themselves as coordinates, after the mean if there is an intercept.

    `eigenvalues` holds the diagonal of X'X, which serves to precondition.

    Attributes
    ----------
    n_steps : steps of conjugate gradients so far; each is two products with X
    """

    def __init__(self, place: Place, n: int, mean: Array | None, scale: Array, dtype: Any):
        d = len(scale)
        penalty = np.ones(d + (mean is not None), dtype=dtype)
        if mean is not None:
            penalty[-1] = 0
        super().__init__(scale.astype(dtype), penalty, n, None, mean)
        self._place = place
        self._guess: tuple[Array, Array] | None = None
        self._tolerance = 1e-9 if np.dtype(dtype) == np.float64 else 1e-5
        self.n_steps = 0

    def send(self, w: Array) -> Any:
        """Weights of the features and intercepts."""
        if self.mean is None:
            return w, np.zeros(w.shape[1], dtype=w.dtype)
        return w[:-1], w[-1] - self.mean @ w[:-1]

    def receive(self, total: Array) -> Array:
        """F'B from B'X and the sums of B."""
        XtB, sums = total[..., :-1].T, total[..., -1]
        if self.mean is None:
            return XtB
        return np.concatenate([XtB - np.multiply.outer(self.mean, sums), sums[None]])

    def solve(self, rhs: Array, mu: float, ridge: float) -> tuple[Array, Array]:
        """w with (mu F'F + ridge) w = rhs, and F'F w, from the last solution on."""
        if self.mean is None:
            return self._solve_features(rhs, mu, ridge)
        # Centred features and the column of ones are orthogonal.
        w, normal = self._solve_features(rhs[:-1], mu, ridge)
        intercept = rhs[-1:] / (mu * self.n_rows)
        return np.concatenate([w, intercept]), np.concatenate([normal, self.n_rows * intercept])

    def _solve_features(self, rhs: Array, mu: float, ridge: float) -> tuple[Array, Array]:
        guess = self._guess
        if guess is None or guess[0].shape != rhs.shape:
            guess = np.zeros_like(rhs), np.zeros_like(rhs)
        w, normal = guess[0].copy(), guess[1].copy()
        inverse = 1 / (mu * self.eigenvalues + ridge)[:, None]
        r = rhs - mu * normal - ridge * w
        z = inverse * r
        p, rz = z, np.sum(r * z, axis=0)
        size = np.maximum(np.linalg.norm(rhs, axis=0), np.finfo(rhs.dtype).tiny)
        for _ in range(_STEPS):
            if np.max(np.linalg.norm(r, axis=0) / size) <= self._tolerance:
                break
            Np = self._normal(p)
            Ap = mu * Np + ridge * p
            curvature = np.sum(p * Ap, axis=0)
            step = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)
            w += step * p
            normal += step * Np
            r -= step * Ap
            z = inverse * r
            last, rz = rz, np.sum(r * z, axis=0)
            p = z + np.divide(rz, last, out=np.zeros_like(rz), where=last > 0) * p
        else:
            worst = float(np.max(np.linalg.norm(r, axis=0) / size))
            warnings.warn(
                f"conjugate gradients stopped after {_STEPS} steps with a relative error of "
                f"{worst:.1e}; scale the features (MaxAbsScaler keeps them sparse) or raise lam",
                ConvergenceWarning,
                stacklevel=2,
            )
        self._guess = w, normal
        return w, normal

    def _normal(self, p: Array) -> Array:
        """X'X p of the centred features."""
        self.n_steps += 1
        if self.mean is None:
            (total,) = self._place.step(normal_product, self.send(p))
            return self.receive(total)
        none = np.zeros((1, p.shape[1]), dtype=p.dtype)
        (total,) = self._place.step(normal_product, self.send(np.concatenate([p, none])))
        return self.receive(total)[:-1]


def krylov_factor(place: Place, n: int, dtype: Any, *, fit_intercept: bool) -> Factor:
    """What `schirn.scale.factor.factor_blocks` gives, without a factorisation.

    Parameters
    ----------
    place : its blocks hold `schirn.scale.factor.FeatureRows`
    n : number of rows
    """
    sums, squares = place.step(column_sums)
    mean = (sums / n).astype(dtype) if fit_intercept else None
    if mean is not None:
        squares = np.maximum(squares - sums**2 / n, 0)
    coordinates = KrylovCoordinates(place, n, mean, squares, dtype)

    def coefficients(w: Array) -> tuple[Array, Array]:
        return coordinates.send(w)

    def leverage(t: float) -> tuple[Array, Array, float]:
        A = _sketch(place, coordinates, t)
        inner = A if mean is None else A[:-1]
        none = np.zeros(A.shape[1], dtype=A.dtype)
        return inner, none if mean is None else mean @ inner, 0.0 if mean is None else 1 / n

    return Factor(coordinates, coefficients, leverage)


def _sketch(place: Place, coordinates: KrylovCoordinates, t: float) -> Array:
    """A with A A' near (X'X + t)^-1, so that ||A'x||^2 is near the leverage of a row x.

    With random signs Z the mean of (X'Z + sqrt(t) Z0)(X'Z + sqrt(t) Z0)' is X'X + t.
    """
    (total,) = place.step(probe, _PROBES)
    B = coordinates.receive(total)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=B.shape).astype(B.dtype)
    B = B + np.sqrt(t) * coordinates.penalty[:, None] * signs
    fresh, coordinates._guess = coordinates._guess, None
    A, _ = coordinates.solve(B, 1.0, t)
    coordinates._guess = fresh
    return A / np.sqrt(B.dtype.type(_PROBES))


def normal_product(block: Block, state: Any, message: Any) -> tuple[Any, tuple[Any, ...]]:
    """(X W + b)'X of the block, and the sums of the scores."""
    scores = block.rows.expand(message)
    return state, (_times_rows(scores, block.rows.X),)


def column_sums(block: Block, state: Any) -> tuple[Any, tuple[Any, ...]]:
    """Sums and sums of squares of the columns, in double precision."""
    X = block.rows.X
    if sp.issparse(X):
        ones = np.ones(X.shape[0])
        squared = X.astype(np.float64).power(2)
        return state, (X.T @ ones, squared.T @ ones)
    return state, (X.sum(axis=0, dtype=np.float64), np.einsum("ij,ij->j", X, X, dtype=np.float64))


def probe(block: Block, state: Any, count: int) -> tuple[Any, tuple[Any, ...]]:
    """Z'X for random signs Z of the rows, and the sums of Z."""
    X, first = block.rows
    rng = np.random.default_rng([1, first])
    Z = rng.choice([-1.0, 1.0], size=(count, X.shape[0])).astype(X.dtype)
    return state, (_times_rows(Z, X),)


def _times_rows(scores: Array, X: Any) -> Array:
    """scores X, and beside it the sums of the scores."""
    product = (X.T @ scores.T).T if sp.issparse(X) else scores @ X
    return np.column_stack([product, scores.sum(axis=1)])

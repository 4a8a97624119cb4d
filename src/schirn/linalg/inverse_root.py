"""The inverse square root of a matrix that changes a little from round to round.

On a GPU an eigendecomposition of l x l costs as much as thirty products of that size, and Schirn
needs one per round. Between two rounds the Gram matrix A changes little: in the eigenvectors V of
an earlier one, B = V'AV is nearly diagonal. With S^2 its diagonal and E = S^-1 B S^-1 - I, the
root is Z = B^(-1/2) = S^-1 (I + T), and the error of T is

    R = I - Z B Z = -(E + T + T' + Q + Q' + T'(T + Q)),    Q = E T,

where every product is of two small matrices, so half precision suffices. Newton's step with the
linear system solved for the diagonal of B alone is T_ij <- T_ij + R_ij s_i / (s_i + s_j). T starts
as in the round before. R is the distance of the shifted singular vectors from orthonormal ones; it
is computed, not estimated. If it does not fall, V is recomputed.
"""

from typing import Any, NamedTuple

from schirn.linalg.arrays import (
    Array,
    multiplies_halves,
    namespace,
    on_gpu,
    product_by_halves,
    symmetric_product,
)

# A step costs a hundredth of an eigendecomposition.
_STEPS = 20
_FALLS = 0.7
_SPREADS = 0.5
# I = ZBZ has solutions Z with negative eigenvalues too. On the way to them Z is singular, and R has
# norm 1 at least; while its norm is smaller than this, they are out of reach.
_NEAR = 0.5


class Root(NamedTuple):
    """A^(-1/2) on the resolved directions, their number, and the trace of A^(1/2)."""

    inverse: Array
    n_directions: int
    trace: float


class InverseRoot:
    """Inverse square roots of a sequence of matrices, from the eigenvectors of an earlier one.

    Parameters
    ----------
    tolerance : float
        Largest entry of I - Z B Z; it bounds the relative error of the inverse root, and so of the
        shift of the singular values.

    Attributes
    ----------
    n_eigh, n_steps : number of eigendecompositions and of Newton steps

    Examples
    --------
    >>> import numpy as np
    >>> root = InverseRoot()(np.diag([4.0, 9.0]), 0.0)
    >>> root.inverse.round(3).tolist(), root.trace
    ([[0.5, 0.0], [0.0, 0.333]], 5.0)
    """

    def __init__(self, tolerance: float = 5e-4):
        self.tolerance = tolerance
        self.n_eigh = self.n_steps = 0
        self._V: Any = None
        self._null: Any = None
        self._n_directions = 0
        self._last: Any = None

    def __call__(self, A: Array, floor: float) -> Root:
        """The inverse root of a symmetric A; eigenvalues up to `floor` count as zero."""
        found = None if self._V is None else self._by_products(A, floor)
        return self._by_eigenvectors(A, floor) if found is None else found

    def _by_eigenvectors(self, A: Array, floor: float) -> Root:
        xp = namespace(A)
        squared, V = xp.linalg.eigh(A)
        self.n_eigh += 1
        start = int(xp.sum(xp.astype(squared <= floor, xp.int64)))
        self._null, V, s = V[:, :start], V[:, start:], xp.sqrt(squared[start:])
        self._V, self._n_directions, self._last = _padded(V), int(s.shape[0]), None
        return Root(symmetric_product(V / s, V.T), self._n_directions, float(xp.sum(s)))

    def _by_products(self, A: Array, floor: float) -> Root | None:
        xp, V = namespace(A), self._V
        B = symmetric_product(V.T, _padded(A) @ V)
        # The directions that fill V up count as ones of length 1.
        _add_to_diagonal(B[self._n_directions :, self._n_directions :], 1)
        d = xp.linalg.diagonal(B)
        if not float(xp.min(d[: self._n_directions])) > floor or self._null_grew(A, floor):
            return None
        s = xp.sqrt(d)
        T = self._correction(B, s)
        if T is None:
            return None
        by_halves = multiplies_halves(T)
        s = xp.astype(s, T.dtype) if by_halves else s
        Z = T / s[:, None]
        Z = (Z + Z.T) / 2
        _add_to_diagonal(Z, 1 / s)
        trace = float(xp.sum(Z * B)) - (B.shape[0] - self._n_directions)
        if by_halves:
            # Single precision, as for everything that the root is multiplied with.
            V = xp.astype(V, T.dtype)
            inverse = product_by_halves(product_by_halves(V, Z), V.T)
            inverse = (inverse + inverse.T) / 2
        else:
            inverse = symmetric_product(V @ Z, V.T)
        l = A.shape[0]
        return Root(inverse[:l, :l], self._n_directions, trace)

    def _correction(self, B: Array, s: Array) -> Array | None:
        """T of the formulas above in single precision, or None if the steps do not converge."""
        xp = namespace(B)
        single = xp.astype(s, xp.float32)
        E = xp.astype(B, xp.float32) / single[:, None]
        E /= single
        _add_to_diagonal(E, -xp.linalg.diagonal(E))
        share = single[:, None] / (single[:, None] + single)
        T = 0 * E
        if self._last is not None:
            # S^-1 (I + T) is what it was.
            T, last = self._last
            ratio = xp.astype(s / last, xp.float32)
            T = T * ratio[:, None]
            _add_to_diagonal(T, ratio - 1)
        rough = _half(E)
        errors: list[float] = []
        far = False
        for _ in range(_STEPS):
            # R = ZBZ - I, with X = T + ET.
            half = _half(T)
            X = T + rough @ half
            R = E + X
            R += X.T
            R += half.T @ _half(X)
            errors.append(float(xp.linalg.vector_norm(R, ord=float("inf"))))
            far = far or not float(xp.linalg.vector_norm(R)) < _NEAR
            if errors[-1] <= self.tolerance:
                if far and not _is_positive(T * xp.sqrt(single / single[:, None])):
                    return None
                self._last = T, s
                return T
            # The first step spreads the error over all entries, later ones often fall in pairs.
            # Comparisons with NaN are false.
            before = [float("inf"), _SPREADS / _FALLS, *errors][len(errors) - 1]
            if not errors[-1] <= _FALLS * before:
                return None
            self.n_steps += 1
            R *= share
            T -= R
        return None

    def _null_grew(self, A: Array, floor: float) -> bool:
        """Return True if a null direction no longer is one."""
        xp, null = namespace(A), self._null
        if null.shape[1] == 0:
            return False
        return float(xp.max(xp.sum(null * (A @ null), axis=0))) > floor


def _is_positive(A: Array) -> bool:
    """Whether I + A has no negative eigenvalue, for an A that is symmetric up to rounding."""
    xp = namespace(A)
    A = (A + A.T) / 2
    _add_to_diagonal(A, 1)
    try:
        factor = xp.linalg.cholesky(A)
    except (RuntimeError, ValueError):
        return False
    return bool(xp.all(xp.isfinite(factor)))


def _add_to_diagonal(A: Array, values: Any) -> None:
    """Add values to the diagonal of a square matrix, in place."""
    index = namespace(A).arange(A.shape[0], device=A.device)
    A[index, index] += values


def _padded(A: Array) -> Array:
    """A, on a GPU with zeros up to multiples of 8, for which products are faster."""
    if not on_gpu(A):
        return A
    xp = namespace(A)
    out = xp.zeros(tuple(-(-side // 8) * 8 for side in A.shape), dtype=A.dtype, device=A.device)
    out[: A.shape[0], : A.shape[1]] = A
    return out


def _half(A: Array) -> Array:
    """A in half precision where products of it are faster."""
    return namespace(A).astype(A, namespace(A).float16) if on_gpu(A) else A

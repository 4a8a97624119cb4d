"""The inverse square root of a matrix that changes a little from round to round.

On a GPU an eigendecomposition of l x l costs as much as thirty products of that size, and Schirn
needs one per round. Between two rounds the Gram matrix A changes little: in the eigenvectors V of
an earlier one, B = V'AV is nearly diagonal. With S^2 its diagonal and E = S^-1 B S^-1 - I, the
root is Z = B^(-1/2) = S^-1 (I + T), and the error of T is

    R = I - Z B Z = -(E + T + T' + Q + Q' + T'(T + Q)),    Q = E T,

where every product is of two small matrices, so half precision suffices. Newton's step with the
linear system solved for the diagonal of B alone is T_ij <- T_ij + R_ij s_i / (s_i + s_j). R is the
distance of the shifted singular vectors from orthonormal ones; it is computed, not estimated.
If it does not fall, V is recomputed.
"""

from typing import Any, NamedTuple

from schirn.linalg.arrays import Array, namespace, on_gpu, symmetric_product

# A step costs a hundredth of an eigendecomposition.
_STEPS = 20
_FALLS = 0.7
_SPREADS = 0.5


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

    def __call__(self, A: Array, floor: float) -> Root:
        """The inverse root of a symmetric A; eigenvalues up to `floor` count as zero."""
        found = None if self._V is None else self._by_products(A, floor)
        return self._by_eigenvectors(A, floor) if found is None else found

    def _by_eigenvectors(self, A: Array, floor: float) -> Root:
        xp = namespace(A)
        squared, V = xp.linalg.eigh(A)
        self.n_eigh += 1
        start = int(xp.sum(xp.astype(squared <= floor, xp.int64)))
        self._null, self._V = V[:, :start], V[:, start:]
        s = xp.sqrt(squared[start:])
        inverse = symmetric_product(self._V / s, self._V.T)
        return Root(inverse, int(s.shape[0]), float(xp.sum(s)))

    def _by_products(self, A: Array, floor: float) -> Root | None:
        xp, V = namespace(A), self._V
        B = symmetric_product(V.T, A @ V)
        d = xp.linalg.diagonal(B)
        if not float(xp.min(d)) > floor or self._null_grew(A, floor):
            return None
        s = xp.sqrt(d)
        T = self._correction(B, s)
        if T is None:
            return None
        Z = T / s[:, None]
        Z = (Z + Z.T) / 2 + xp.eye(s.shape[0], dtype=s.dtype, device=s.device) / s
        inverse = symmetric_product(V @ Z, V.T)
        return Root(inverse, int(s.shape[0]), float(xp.sum(Z * B)))

    def _correction(self, B: Array, s: Array) -> Array | None:
        """T of the formulas above, or None if the steps do not converge."""
        xp, l = namespace(B), B.shape[0]
        one = xp.eye(l, dtype=B.dtype, device=B.device)
        E = _padded(B / (s[:, None] * s) - one)
        share = _padded(s[:, None] / (s[:, None] + s))
        T, R = 0 * E, -E
        errors = [float(xp.max(xp.abs(R)))]
        for _ in range(_STEPS):
            if errors[-1] <= self.tolerance:
                T = xp.astype(T[:l, :l], B.dtype)
                return T if _is_positive(one + T * xp.sqrt(s / s[:, None])) else None
            self.n_steps += 1
            T = T + R * share
            Q = _rough_product(E, T)
            R = -(E + T + T.T + Q + Q.T + _rough_product(T.T, T + Q))
            errors.append(float(xp.max(xp.abs(R))))
            # The first step spreads the error over all entries, later ones often fall in pairs.
            # Comparisons with NaN are false.
            if not errors[-1] <= (_FALLS * errors[-3] if len(errors) > 2 else _SPREADS):
                return None
        return None

    def _null_grew(self, A: Array, floor: float) -> bool:
        """Return True if a null direction no longer is one."""
        xp, null = namespace(A), self._null
        if null.shape[1] == 0:
            return False
        return float(xp.max(xp.sum(null * (A @ null), axis=0))) > floor


def _is_positive(A: Array) -> bool:
    """Whether a symmetric matrix has no negative eigenvalue: I = ZBZ has other solutions too."""
    xp = namespace(A)
    try:
        factor = xp.linalg.cholesky((A + A.T) / 2)
    except (RuntimeError, ValueError):
        return False
    return bool(xp.all(xp.isfinite(factor)))


def _padded(A: Array) -> Array:
    """A in single precision; half precision is fast on a GPU for sizes that are multiples of 8."""
    xp, l = namespace(A), A.shape[0]
    size = -(-l // 8) * 8 if on_gpu(A) else l
    out = xp.zeros((size, size), dtype=xp.float32, device=A.device)
    out[:l, :l] = xp.astype(A, xp.float32)
    return out


def _rough_product(A: Array, B: Array) -> Array:
    """A B for entries of at most about 1, in half precision where that is fast."""
    xp = namespace(A)
    if not on_gpu(A):
        return A @ B
    return xp.astype(xp.astype(A, xp.float16) @ xp.astype(B, xp.float16), A.dtype)

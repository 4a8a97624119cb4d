"""The factorisation of the features that ridge regressions share.

With the thin singular value decomposition X = U S V' put F = X V = U S, so that F'F is diagonal.
Then for every ridge weight t and every target B

    argmin_W ||X W - B||_F^2 + t ||W||_F^2  =  V w,    w = F'B / (S^2 + t),    X W = F w,

so X is factored once, whatever the number of ridge weights. An unpenalised intercept adds a column
to F: X is centred, the column is all ones, and its ridge weight is zero.

The steps (`gram_matrix`, `gram_is_accurate`, `gram_spectrum`, `with_intercept`) work on NumPy,
PyTorch and CuPy arrays. `schirn.scale.factor` uses them for rows in blocks.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn.linalg.arrays import Array, eps, namespace, piece_rows, row_pieces, row_slices
from schirn.linalg.leave_one_out import below_one, leave_one_out


class DensifyWarning(UserWarning):
    """A sparse matrix was made dense to keep the result accurate."""


@dataclass(frozen=True, eq=False)
class RowSpace:
    """X in the basis of its right singular vectors, centred if it has an intercept.

    Attributes
    ----------
    X : (n, d) array or CSR array
        The original features, not centred.
    eigenvalues : (r,) array
        Squared singular values of X; the number of rows for the intercept column.
    penalty : (r,) array
        1 where the ridge applies, 0 for the intercept column.
    mean : (d,) array or None
        Mean of the rows; None without an intercept.
    how : {"gram-rows", "gram-columns", "svd"}
        The decomposition used.
    basis : array
        V (d x r), or U (n x r) when `how` is "gram-rows".
    F : (n, r) array or None
        X V, kept when X is dense or has few rows; otherwise X @ (V @ w) is cheaper.
    """

    X: Any
    eigenvalues: Array
    penalty: Array
    mean: Array | None
    how: str
    basis: Array
    F: Array | None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows of X and of columns of F (the rank of X, plus one for an intercept)."""
        return self.X.shape[0], len(self.eigenvalues)

    @property
    def dtype(self) -> np.dtype:
        """Floating-point type of the factors."""
        return self.eigenvalues.dtype

    def project(self, B: "Array | sp.csr_array") -> Array:
        """Return F'B for a dense or sparse n x l matrix B.

        Parameters
        ----------
        B : (n, l) array or CSR array

        Returns
        -------
        (r, l) array
        """
        if self.F is not None:
            return np.asarray((B.T @ self.F).T) if sp.issparse(B) else self.F.T @ B
        XtB = self.X.T @ B
        XtB = XtB.toarray() if sp.issparse(XtB) else XtB
        if self.mean is None:
            return self.basis.T @ XtB
        total = np.asarray(B.sum(axis=0)).reshape(1, -1).astype(self.dtype)
        return np.vstack([self.basis.T @ (XtB - self.mean[:, None] * total), total])

    def expand(self, w: Array) -> Array:
        """Return F w, the scores of the training rows for coordinates w.

        Parameters
        ----------
        w : (r, l) array

        Returns
        -------
        (n, l) array
        """
        if self.F is not None:
            return self.F @ w
        W = self.basis @ (w if self.mean is None else w[:-1])
        scores = self.X @ W
        return scores if self.mean is None else scores + (w[-1] - self.mean @ W)

    def coefficients(self, w: Array) -> tuple[Array, Array]:
        """Return weights W (d x l) and intercepts b (l) with X W + b = F w.

        Parameters
        ----------
        w : (r, l) array

        Returns
        -------
        W : (d, l) array
        b : (l,) array
        """
        inner = w if self.mean is None else w[:-1]
        if self.how == "gram-rows":
            dual = self.basis @ (inner / self.eigenvalues[: len(inner), None] ** 0.5)
            W = self.X.T @ dual
            if self.mean is not None:
                W -= self.mean[:, None] * dual.sum(axis=0)
        else:
            W = self.basis @ inner
        if self.mean is None:
            return W, namespace(w).zeros(w.shape[1], dtype=w.dtype, device=w.device)
        return W, w[-1] - self.mean @ W

    def transform(self, X: "Array | sp.csr_array") -> Array:
        """Return the rows of F for new rows X, whose scores are `transform(X) @ w`.

        Parameters
        ----------
        X : (m, d) array or CSR array

        Returns
        -------
        (m, r) array
        """
        if self.how != "gram-rows":
            return self._times_basis(X)
        # Multiply new rows with training rows, because V itself would be d x r.
        dual = self.basis / self.eigenvalues[: self.basis.shape[1]] ** 0.5
        F = (X @ self.X.T) @ dual
        if self.mean is None:
            return F
        F -= (self.X @ self.mean) @ dual
        F -= (X @ self.mean - self.mean @ self.mean)[:, None] * dual.sum(axis=0)
        return _with_ones(F)

    def ridge(self, FtB: Array, t: float) -> Array:
        """Return the coordinates of the ridge solution with weight t for targets B, given F'B.

        Parameters
        ----------
        FtB : (r, l) array
        t : float

        Returns
        -------
        (r, l) array
        """
        return FtB / (self.eigenvalues + t * self.penalty)[:, None]

    def leverage(self, t: float) -> Array:
        """Return the diagonal of the hat matrix, h_i = sum_k F_ik^2 / (S_k^2 + t), clipped below 1.

        Parameters
        ----------
        t : float
            Ridge weight.

        Returns
        -------
        (n,) array
        """
        return below_one(self.diagonal(1 / (self.eigenvalues + t * self.penalty)))

    def diagonal(self, weights: Array) -> Array:
        """Return the diagonal of F diag(weights) F', one column per column of the weights.

        Parameters
        ----------
        weights : (r,) or (r, k) array

        Returns
        -------
        (n,) or (n, k) array
        """
        blocks = row_slices(self.shape[0], len(weights))
        if self.F is not None:
            return np.concatenate([self.F[rows] ** 2 @ weights for rows in blocks])
        return np.concatenate([self._times_basis(self.X[rows]) ** 2 @ weights for rows in blocks])

    def leave_one_out(self, B: Array, fitted: Array, t: float) -> Array:
        """Score each row by the ridge fitted to all other rows.

        Parameters
        ----------
        B : (n, l) array
            Targets.
        fitted : (n, l) array
            Scores of the ridge fitted to all rows.
        t : float
            Ridge weight.

        Returns
        -------
        (n, l) array
        """
        return leave_one_out(B, fitted, self.leverage(t))

    def _times_basis(self, X: Any) -> Array:
        """Return (X - mean) V with the column of ones, the rows of F."""
        F = X @ self.basis
        return F if self.mean is None else _with_ones(F - self.mean @ self.basis)


def row_space(X: Any, *, ridge: float, fit_intercept: bool = False) -> RowSpace:
    """Factor X once, by a Gram matrix if that is accurate and by an SVD otherwise.

    Parameters
    ----------
    X : (n, d) float array or CSR array
        NumPy, PyTorch or CuPy.
    ridge : float
        The smallest ridge weight that will be used. A Gram matrix has an error of about
        eps S_max^2, which is harmless if eps S_max^2 < eps^0.6 ridge. It is computed in double
        precision whatever the type of X.
    fit_intercept : bool
        Centre X and add the column of ones.

    Returns
    -------
    RowSpace

    Examples
    --------
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
    >>> space = row_space(X, ridge=0.1)
    >>> Y = np.array([[1.0], [0.0], [1.0]])
    >>> W, b = space.coefficients(space.ridge(space.project(Y), 0.1))
    >>> bool(np.allclose(W, np.linalg.solve(X.T @ X + 0.1 * np.eye(2), X.T @ Y)))
    True
    """
    xp = namespace(X)
    n = X.shape[0]
    exact_mean = column_sums(X) / n if fit_intercept else None
    mean = None if exact_mean is None else xp.astype(exact_mean, X.dtype)
    centred = X if mean is None or sp.issparse(X) else X - mean
    how = "gram-rows" if X.shape[1] > n else "gram-columns"
    K = gram_matrix(centred.T if how == "gram-rows" else centred)
    if not gram_is_accurate(K, ridge):
        return _svd_space(X, centred, mean)
    if exact_mean is not None and sp.issparse(X):
        # A sparse X stays sparse, so its Gram matrix is centred instead.
        if how == "gram-columns":
            K -= np.outer(exact_mean, exact_mean * n)
        else:
            rows = K.mean(axis=0)
            K += K.mean() - rows - rows[:, None]
    return space_of_gram(X, K, how, rounding(X.shape, X.dtype), mean=mean, centred=centred)


@dataclass(frozen=True, eq=False)
class RidgeResult:
    """Coordinates w of the weights in the row space, with fitted and leave-one-out scores."""

    w: Array
    scores: Array
    loo_scores: Array
    objective: float


def ridge(space: RowSpace, Y: Array, lam: float) -> RidgeResult:
    """Minimise ||X W - Y||_F^2 + lam ||W||_F^2 over W.

    The leave-one-out scores are exact: row i is scored by the solution without row i.

    Parameters
    ----------
    space : RowSpace
        The factored X.
    Y : (n, l) array
        Targets.
    lam : float
        Ridge weight.

    Returns
    -------
    RidgeResult
    """
    w = space.ridge(space.project(Y), lam)
    scores = space.expand(w)
    loss = np.sum((scores - Y) ** 2, dtype=np.float64)
    square = np.sum(space.penalty[:, None] * w**2, dtype=np.float64)
    objective = float(loss + lam * square)
    return RidgeResult(w, scores, space.leave_one_out(Y, scores, lam), objective)


def space_of_gram(
    X: Any, K: Array, how: str, floor: float, *, mean: Array | None = None, centred: Any = None
) -> RowSpace:
    """Build the row space of X from a Gram matrix.

    Parameters
    ----------
    X : (n, d) array, CSR array, or an operator with the same products and `toarray`
    K : XX' (`how` is "gram-rows") or X'X ("gram-columns") of the centred X
    floor : float
        Eigenvalues up to this share of the largest one are dropped as rounding noise.
    mean : (d,) array or None
        Column means, if there is an intercept.
    centred : (n, d) array
        X without its mean, if X is dense.
    """
    dtype = X.dtype
    eigenvalues, basis = gram_spectrum(K, floor)
    xp = namespace(basis)
    # Squares of tiny values underflow in single precision.
    is_resolved = eigenvalues > xp.finfo(dtype).tiny
    eigenvalues = xp.astype(eigenvalues[is_resolved], dtype)
    basis = basis[:, is_resolved]
    basis = xp.astype(basis, dtype)
    if xp is np:
        basis = np.ascontiguousarray(basis)
    F = None
    if how == "gram-rows":
        F = basis * eigenvalues**0.5
    elif not hasattr(X, "toarray"):
        F = centred @ basis
    return _space(X, eigenvalues, basis, F, mean, how)


def _space(
    X: Any, eigenvalues: Array, basis: Array, F: Array | None, mean: Array | None, how: str
) -> RowSpace:
    if mean is None:
        penalty = namespace(eigenvalues).ones_like(eigenvalues)
        return RowSpace(X, eigenvalues, penalty, None, how, basis, F)
    F = None if F is None else _with_ones(F)
    return RowSpace(X, *with_intercept(eigenvalues, X.shape[0]), mean, how, basis, F)


def _with_ones(F: Array) -> Array:
    xp = namespace(F)
    return xp.concat([F, xp.ones((F.shape[0], 1), dtype=F.dtype, device=F.device)], axis=1)


def gram_matrix(A: Any) -> Array:
    """Return A'A, dense and in double precision.

    Squaring halves the number of digits: single precision would lose small directions.

    Parameters
    ----------
    A : (n, d) array or sparse matrix

    Returns
    -------
    (d, d) array of float64
    """
    if sp.issparse(A):
        A = A.astype(np.float64)
        return (A.T @ A).toarray()
    xp = namespace(A)
    d = A.shape[1]
    if A.dtype == xp.float64:
        return A.T @ A
    K = xp.zeros((d, d), dtype=xp.float64, device=A.device)
    for _, rows in row_pieces(A, piece_rows(A, d)):
        block = xp.astype(rows, xp.float64)
        K += block.T @ block
    return K


def gram_is_accurate(K: Array, ridge: float) -> bool:
    """Return True if the rounding error of K is small compared with the ridge weight.

    The largest row sum bounds S_max^2. Pass K before centring: its entries cancel then, but their
    rounding errors do not.

    Parameters
    ----------
    K : (d, d) array
    ridge : float
        The smallest ridge weight that will be used.

    Returns
    -------
    bool
    """
    xp = namespace(K)
    largest = float(xp.max(xp.sum(xp.abs(K), axis=0)))
    return largest * eps(K) <= eps(K) ** 0.6 * ridge


def coarsest_gram_ridge(X: Any) -> float:
    """Return a ridge weight for which Gram matrices of X, or of some of its rows, are accurate.

    The largest row sum of |X||X|' and |X|'|X| bounds that of the Gram matrices, and takes only
    four products with a vector.

    Parameters
    ----------
    X : (n, d) array or sparse matrix

    Returns
    -------
    float

    Examples
    --------
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> gram_is_accurate(gram_matrix(X), coarsest_gram_ridge(X))
    True
    """
    A = abs(X)
    if not sp.issparse(X):
        xp = namespace(X)
        A = xp.astype(A, xp.float64)
    rows = A @ A.sum(0)
    columns = A.T @ A.sum(1)
    return float(max(rows.max(), columns.max())) * float(np.finfo(np.float64).eps) ** 0.4


def gram_spectrum(K: Array, floor: float) -> tuple[Array, Array]:
    """Return the eigenvalues of K above `floor` times the largest, ascending, and eigenvectors.

    Parameters
    ----------
    K : (d, d) array
    floor : float

    Returns
    -------
    eigenvalues : (r,) array
    vectors : (d, r) array
    """
    eigenvalues, vectors = namespace(K).linalg.eigh(K)
    keep = eigenvalues > max(float(eigenvalues[-1]), 1e-300) * floor
    return eigenvalues[keep], vectors[:, keep]


def with_intercept(eigenvalues: Array, n: int) -> tuple[Array, Array]:
    """Append the unpenalised column of n ones to the eigenvalues; return penalties too.

    Parameters
    ----------
    eigenvalues : (r,) array
    n : int
        Number of rows.

    Returns
    -------
    eigenvalues : (r + 1,) array
    penalty : (r + 1,) array
        1 where the ridge applies, 0 for the intercept.
    """
    xp = namespace(eigenvalues)
    one = xp.ones((1,), dtype=eigenvalues.dtype, device=eigenvalues.device)
    penalty = xp.concat([xp.ones_like(eigenvalues), 0 * one])
    return xp.concat([eigenvalues, n * one]), penalty


def rounding(shape: tuple[int, int], dtype: Any) -> float:
    """Return the ratio of squared singular values below which they are rounding noise.

    Parameters
    ----------
    shape : (int, int)
    dtype : dtype

    Returns
    -------
    float
    """
    unit = np.finfo(np.float32 if str(dtype).endswith("float32") else np.float64).eps
    return max(max(shape) * float(np.finfo(np.float64).eps), (16 * float(unit)) ** 2)


def column_sums(X: Any) -> Array:
    """Return the column sums in double precision: long sums in single precision lose digits.

    Parameters
    ----------
    X : (n, d) array or sparse matrix

    Returns
    -------
    (d,) array of float64
    """
    if sp.issparse(X):
        return X.T @ np.ones(X.shape[0])
    xp = namespace(X)
    pieces = row_pieces(X, piece_rows(X, X.shape[1]))
    # Summed in pieces, because PyTorch makes a double-precision copy of its operand.
    return sum(xp.sum(rows, axis=0, dtype=xp.float64) for _, rows in pieces)


def _svd_space(X: Any, centred: Any, mean: Array | None) -> RowSpace:
    """Factor X by an SVD, the only accurate way if X is badly scaled."""
    if sp.issparse(X):
        gigabytes = X.shape[0] * X.shape[1] * X.dtype.itemsize / 1e9
        warnings.warn(
            f"the features of the sparse X differ so much in scale that this ridge weight needs a "
            f"dense SVD ({gigabytes:.2g} GB); scale the features (MaxAbsScaler keeps them sparse) "
            f"or raise lam",
            DensifyWarning,
            stacklevel=3,
        )
        centred = X.toarray() if mean is None else X.toarray() - mean
    xp = namespace(centred)
    double = xp.astype(centred, xp.float64, copy=False)
    U, s, Vt = xp.linalg.svd(double, full_matrices=False)
    keep = s > max(float(s[0]) * max(X.shape) * eps(s), xp.finfo(X.dtype).tiny ** 0.5)
    U = U[:, keep]
    s = s[keep]
    V = Vt[keep].T
    F = xp.astype(U * s, X.dtype)
    eigenvalues = xp.astype(s**2, X.dtype)
    V = xp.astype(V, X.dtype)
    if xp is np:
        V = np.ascontiguousarray(V)
    return _space(X, eigenvalues, V, F, mean, "svd")

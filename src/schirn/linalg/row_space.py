"""One factorisation of the features that serves every ridge weight.

With the thin singular value decomposition X = U S V' put F = X V = U S, so that F'F is diagonal.
Then for every ridge weight t and every target B

    argmin_W ||X W - B||_F^2 + t ||W||_F^2  =  V w,    w = F'B / (S^2 + t),    X W = F w,

and nothing is ever solved or inverted again. An unpenalised intercept is one more column of F:
X is centred, the column is all ones, and its ridge weight is zero.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

Array = np.ndarray

_BLOCK_CELLS = 2**22


class DensifyWarning(UserWarning):
    """A sparse matrix had to be made dense to keep the result accurate."""


@dataclass(frozen=True, eq=False)
class RowSpace:
    """X (centred if there is an intercept) in the basis of its right singular vectors.

    Attributes
    ----------
    eigenvalues : squared singular values of X; the number of rows for the intercept column.
    penalty : 1 where the ridge applies, 0 for the intercept column.
    how : "gram-rows", "gram-columns" or "svd": which decomposition was computed.
    """

    X: "Array | sp.csr_array"
    eigenvalues: Array
    penalty: Array
    mean: Array | None
    how: str
    basis: Array
    """V (d x r), or U (n x r) when `how` is "gram-rows"."""
    F: Array | None
    """X V, kept when X is dense or the rows are few; otherwise X @ (V @ w) is cheaper."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of X, and columns of F (the rank of X, plus one for the intercept)."""
        return self.X.shape[0], len(self.eigenvalues)

    @property
    def dtype(self) -> np.dtype:
        """Floating type of the factors."""
        return self.eigenvalues.dtype

    @property
    def has_intercept(self) -> bool:
        """Whether the last column of F is the column of ones."""
        return self.mean is not None

    def project(self, B: "Array | sp.csr_array") -> Array:
        """F'B for a dense or sparse n x l matrix B."""
        if self.F is not None:
            return np.asarray((B.T @ self.F).T) if sp.issparse(B) else self.F.T @ B
        XtB = self.X.T @ B
        XtB = XtB.toarray() if sp.issparse(XtB) else XtB
        if self.mean is None:
            return self.basis.T @ XtB
        total = np.asarray(B.sum(axis=0)).reshape(1, -1).astype(self.dtype)
        return np.vstack([self.basis.T @ (XtB - self.mean[:, None] * total), total])

    def expand(self, w: Array, out: Array | None = None) -> Array:
        """F w: the scores of the training rows for coordinates w, with contiguous columns."""
        if self.F is not None:
            # For few labels this orientation is the faster matrix product.
            return np.matmul(w.T, self.F.T, out=None if out is None else out.T).T
        W = self.basis @ (w if self.mean is None else w[:-1])
        scores = self.X @ W
        if self.mean is not None:
            scores += w[-1] - self.mean @ W
        if out is None:
            return scores
        out[...] = scores
        return out

    def coefficients(self, w: Array) -> tuple[Array, Array]:
        """Weights W (d x l) and intercepts b (l) with X W + b = F w."""
        inner = w[:-1] if self.mean is not None else w
        if self.how == "gram-rows":
            roots = np.sqrt(self.eigenvalues[: len(inner)])
            dual = self.basis @ (inner / roots[:, None])
            W = np.asarray(self.X.T @ dual)
            if self.mean is not None:
                W -= np.outer(self.mean, dual.sum(axis=0))
        else:
            W = self.basis @ inner
        if self.mean is None:
            return W, np.zeros(w.shape[1], dtype=w.dtype)
        return W, w[-1] - self.mean @ W

    def transform(self, X: "Array | sp.csr_array") -> Array:
        """Rows of F for new rows of X: their scores are `transform(X) @ w`."""
        if self.how == "gram-rows":
            return self._transform_by_rows(X)
        F = np.asarray(X @ self.basis)
        if self.mean is None:
            return F
        return np.column_stack([F - self.mean @ self.basis, np.ones(len(F), dtype=F.dtype)])

    def _transform_by_rows(self, X: Any) -> Array:
        """X V through the products of new rows with old ones; V itself would be d x r."""
        rank = len(self.eigenvalues) - self.has_intercept
        dual = self.basis / np.sqrt(self.eigenvalues[:rank])
        products = X @ self.X.T
        F = np.asarray(products @ dual)
        if self.mean is None:
            return F
        F -= (self.X @ self.mean) @ dual
        F -= np.outer(X @ self.mean - self.mean @ self.mean, dual.sum(axis=0))
        return np.column_stack([F, np.ones(len(F), dtype=F.dtype)])

    def ridge(self, FtB: Array, t: float) -> Array:
        """Coordinates of the ridge solution with weight t for targets B, given F'B."""
        return FtB / (self.eigenvalues + t * self.penalty)[:, None]

    def leverage(self, t: float) -> Array:
        """Diagonal of the ridge hat matrix, h_i = sum_k F_ik^2 / (S_k^2 + t), kept below 1."""
        return below_one(self.diagonal(1 / (self.eigenvalues + t * self.penalty)))

    def diagonal(self, weights: Array) -> Array:
        """Diagonal of F diag(weights) F'; one column for each column of the weights."""
        n = self.shape[0]
        step = max(1, _BLOCK_CELLS // max(1, len(weights)))
        return np.concatenate(
            [self._rows(slice(i, i + step)) ** 2 @ weights for i in range(0, n, step)]
        )

    def leave_one_out(self, B: Array, fitted: Array, t: float) -> Array:
        """Scores of each row by the ridge fitted to all the others: B - (B - fitted)/(1 - h)."""
        return B - (B - fitted) / (1 - self.leverage(t))[:, None]

    def _rows(self, rows: slice) -> Array:
        """Some rows of F."""
        if self.F is not None:
            return self.F[rows]
        F = self.X[rows] @ self.basis
        if self.mean is None:
            return F
        return np.column_stack([F - self.mean @ self.basis, np.ones(len(F), dtype=F.dtype)])


def below_one(h: Array) -> Array:
    """Leverages far enough from 1 to divide by what is missing."""
    return np.minimum(h, 1 - np.sqrt(np.finfo(h.dtype).eps))


def row_space(X: "Array | sp.csr_array", *, ridge: float, fit_intercept: bool = False) -> RowSpace:
    """Factor X once, by a Gram matrix where that is accurate and by an SVD where it is not.

    Parameters
    ----------
    X : (n, d) float array or CSR array
    ridge : the smallest ridge weight that will be used. A Gram matrix carries an error of about
        eps S_max^2, which is harmless next to the ridge if eps S_max^2 < eps^0.6 ridge. It is
        computed in double precision whatever the type of X.
    fit_intercept : centre X and add the column of ones.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
    >>> space = row_space(X, ridge=0.1)
    >>> Y = np.array([[1.0], [0.0], [1.0]])
    >>> W, b = space.coefficients(space.ridge(space.project(Y), 0.1))
    >>> bool(np.allclose(W, np.linalg.solve(X.T @ X + 0.1 * np.eye(2), X.T @ Y)))
    True
    """
    exact_mean = _column_means(X) if fit_intercept else None
    mean = None if exact_mean is None else exact_mean.astype(X.dtype)
    centred = X if mean is None or sp.issparse(X) else X - mean
    n, d = X.shape
    how = "gram-rows" if d > n else "gram-columns"
    K = _gram(centred, how)
    if _gram_is_accurate(K, ridge):
        if exact_mean is not None and sp.issparse(X):
            K = _centre_gram(K, exact_mean, how, n)
        eigenvalues, basis = np.linalg.eigh(K)
        keep = eigenvalues > eigenvalues[-1] * _rounding(X)
        eigenvalues = eigenvalues[keep].astype(X.dtype)
        basis = np.ascontiguousarray(basis[:, keep], dtype=X.dtype)
        F = _features(centred, basis, eigenvalues, how)
    else:
        how = "svd"
        eigenvalues, basis, F = _thin_svd(centred, mean)
    penalty = np.ones_like(eigenvalues)
    if mean is not None:
        eigenvalues, penalty = np.append(eigenvalues, X.dtype.type(n)), np.append(penalty, 0)
        F = None if F is None else np.column_stack([F, np.ones(n, dtype=F.dtype)])
    return RowSpace(X, eigenvalues, penalty.astype(X.dtype), mean, how, basis, F)


def _column_means(X: "Array | sp.csr_array") -> Array:
    """Means in double precision: a long column of single precision loses its digits."""
    n = X.shape[0]
    return (X.T @ np.ones(n) if sp.issparse(X) else X.sum(axis=0, dtype=np.float64)) / n


def _rounding(X: "Array | sp.csr_array") -> float:
    """Ratio of squared singular values at which X, or its Gram matrix, is rounding noise."""
    double = float(np.finfo(np.float64).eps)
    return max(max(X.shape) * double, (16 * float(np.finfo(X.dtype).eps)) ** 2)


def _gram(X: "Array | sp.csr_array", how: str) -> Array:
    """X X' ("gram-rows") or X'X ("gram-columns"), dense and in double precision.

    Squaring halves the digits: in single precision too few would be left of a small direction.
    """
    A = X.T if how == "gram-rows" else X
    if sp.issparse(A):
        A = A.astype(np.float64)
        return (A.T @ A).toarray()
    if A.dtype == np.float64:
        return A.T @ A
    K = np.zeros((A.shape[1], A.shape[1]))
    step = max(1, _BLOCK_CELLS // A.shape[1])
    for i in range(0, len(A), step):
        block = A[i : i + step].astype(np.float64)
        K += block.T @ block
    return K


def _centre_gram(K: Array, mean: Array, how: str, n: int) -> Array:
    """The Gram matrix of X - mean from that of a sparse X, which stays sparse."""
    if how == "gram-columns":
        K -= np.outer(mean, mean * n)
        return K
    rows = K.mean(axis=0)
    K += K.mean() - rows - rows[:, None]
    return K


def _gram_is_accurate(K: Array, ridge: float) -> bool:
    """Whether the rounding error of K is small next to the ridge (largest row sum >= S_max^2).

    K is taken before centring: the error of the entries that cancel there is what remains.
    """
    largest = np.abs(K).sum(axis=0).max(initial=0)
    eps = float(np.finfo(K.dtype).eps)
    return bool(largest * eps <= eps**0.6 * ridge)


def _features(
    X: "Array | sp.csr_array", basis: Array, eigenvalues: Array, how: str
) -> Array | None:
    """F = X V, or None where the product with a sparse X is better left undone."""
    if how == "gram-rows":
        return basis * np.sqrt(eigenvalues)
    return None if sp.issparse(X) else X @ basis


def _thin_svd(X: Any, mean: Array | None) -> tuple[Array, Array, Array]:
    """Squared singular values, V and U S of X; the only accurate way for badly scaled X."""
    if sp.issparse(X):
        gigabytes = X.shape[0] * X.shape[1] * X.dtype.itemsize / 1e9
        warnings.warn(
            f"the sparse X is scaled so widely that this ridge weight needs a dense SVD "
            f"({gigabytes:.2g} GB); scale the features (MaxAbsScaler keeps them sparse) or "
            f"raise lam",
            DensifyWarning,
            stacklevel=3,
        )
        X = X.toarray() if mean is None else X.toarray() - mean
    U, s, Vt = scipy.linalg.svd(
        X.astype(np.float64, copy=False), full_matrices=False, check_finite=False
    )
    keep = s > s[:1] * max(X.shape) * np.finfo(s.dtype).eps
    F, V = (U[:, keep] * s[keep]).astype(X.dtype), np.ascontiguousarray(Vt[keep].T, dtype=X.dtype)
    return (s[keep] ** 2).astype(X.dtype), V, F

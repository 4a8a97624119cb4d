"""A look at X that decides how to scale it: counts like a text, anything else by its spread."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn.scaling import standard_factor

Array = np.ndarray

# Non-negative data with fewer non-zero cells than this are treated as counts of words.
_TEXT_DENSITY = 0.2


class FeatureScale(NamedTuple):
    """How to scale X.

    - "text": x -> sign(x) log(1 + |x|) idf, then every row to length 1
    - "spread": x -> x / (standard deviation sqrt(number of varying features))
    - "none": x

    Sparse data are not centred and stay sparse; kernels and intercepts take care of the mean.
    """

    kind: str
    weights: Array
    shift: Array

    def transform(self, X: Any) -> Any:
        """The scaled rows, in the container of X."""
        if self.kind == "none":
            return X
        if self.kind == "spread":
            if sp.issparse(X):
                return sp.csr_array(X * self.weights[None, :])
            return (X - self.shift) * self.weights
        X = sp.csr_array(X, copy=True)
        X.data = np.sign(X.data) * np.log1p(np.abs(X.data))
        X = sp.csr_array(X * self.weights[None, :])
        lengths = np.sqrt(X.multiply(X).sum(axis=1))
        lengths[lengths == 0] = 1
        return sp.csr_array(X / lengths[:, None])


def learn_scale(X: Any, kind: str = "auto") -> FeatureScale:
    """Find the scaling of X.

    Parameters
    ----------
    X : (n, d) array or CSR array
    kind : "text", "spread", "none", or "auto": text if X has no negative value and is mostly zero

    Examples
    --------
    >>> learn_scale(np.array([[1.0, -2.0], [3.0, 2.0]])).kind
    'spread'
    >>> learn_scale(sp.csr_array(np.eye(8))).kind
    'text'
    """
    none = np.zeros(0, dtype=X.dtype)
    if kind == "auto":
        kind = "text" if _looks_like_text(X) else "spread"
    if kind == "text":
        n = X.shape[0]
        rows_with: Array = np.asarray((X != 0).sum(axis=0)).ravel()
        weights = np.log((1 + n) / (1 + rows_with)) + 1
        return FeatureScale(kind, weights.astype(X.dtype), none)
    if kind == "spread":
        weights = standard_factor(X)
        weights /= np.sqrt(float(max(1, int(np.count_nonzero(weights)))))
        shift = np.zeros_like(weights)
        if not sp.issparse(X):
            shift = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        return FeatureScale(kind, weights, shift)
    return FeatureScale("none", none, none)


def _looks_like_text(X: Any) -> bool:
    values: Array = X.data if sp.issparse(X) else X
    filled = np.count_nonzero(values) / max(1, X.shape[0] * X.shape[1])
    return bool(filled < _TEXT_DENSITY and values.min(initial=0) >= 0)

"""The parts of PARD's model: the network, how candidates arise, and rows of scaled features."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_expit, logit, xlogy

from schirn.linalg.scaling import Scaling, minmax

Array = np.ndarray

_BLOCK_ROWS = 4096


def blocks(n: int) -> list[slice]:
    """Slices that cover n rows."""
    return [slice(i, min(i + _BLOCK_ROWS, n)) for i in range(0, n, _BLOCK_ROWS)]


def unit_range(X: "Array | sp.csr_array") -> Scaling:
    """Bring every feature to [0, 1] by its smallest and largest value; a constant one to 0.

    >>> unit_range(np.array([[0.0, 5.0], [4.0, 5.0]]))
    Scaling(factor=array([0.25, 0.  ]), shift=array([0., 0.]))
    """
    factor, shift = minmax(X)
    return Scaling(factor / 2, np.where(factor > 0, (shift + 1) / 2, 0).astype(X.dtype))


class Network(NamedTuple):
    """One hidden layer: f(x) = relu(x W1 + b1) W2 + b2."""

    W1: Array
    b1: Array
    W2: Array
    b2: Array

    def __call__(self, X: "Array | sp.csr_array") -> Array:
        """Outputs (n, l) before the sigmoid."""
        return np.vstack([self._outputs(X[rows]) for rows in blocks(X.shape[0])])

    def _outputs(self, X: "Array | sp.csr_array") -> Array:
        hidden = np.asarray(X @ self.W1) + self.b1
        np.maximum(hidden, 0, out=hidden)
        return hidden @ self.W2 + self.b2

    def for_raw_features(self, scaling: Scaling) -> "Network":
        """The network that takes the features as they were before the scaling."""
        shifted = self.b1 + scaling.shift @ self.W1
        return self._replace(W1=self.W1 * scaling.factor[:, None], b1=shifted)


class LabelModel(NamedTuple):
    """How candidates arise: labels are true with prior pi, and false ones listed at rate rho."""

    pi: Array
    rho: Array
    beta_y: float
    beta_0: float

    def posterior(self, f: Array, S: Array) -> Array:
        """The q that maximises the bound for network outputs f; 0 outside the candidates S."""
        evidence = self.beta_y * f + (self.beta_0 * logit(self.pi) - np.log(self.rho))
        return S * expit(evidence / (self.beta_y + self.beta_0))

    def bound(self, f: Array, S: Array, q: Array) -> float:
        """Lower bound per row: the listing of false labels less the two divergences of q."""
        listed = (1 - q) * np.where(S > 0, np.log(self.rho), np.log1p(-self.rho))
        entropy = xlogy(q, q) + xlogy(1 - q, 1 - q)
        from_p = entropy - q * log_expit(f) - (1 - q) * log_expit(-f)
        from_pi = entropy - q * np.log(self.pi) - (1 - q) * np.log1p(-self.pi)
        total = listed - self.beta_y * from_p - self.beta_0 * from_pi
        return float(total.sum(dtype=np.float64)) / len(S)

    def with_rates(self, S: Array, q: Array) -> "LabelModel":
        """The rates rho that maximise the bound for the posterior q, kept in [0.001, 0.95]."""
        false = np.sum(1 - q, axis=0, dtype=np.float64)
        listed = np.sum(S * (1 - q), axis=0, dtype=np.float64)
        rho = np.clip(listed / np.maximum(false, 1e-12), 1e-3, 0.95)
        return self._replace(rho=rho.astype(self.rho.dtype))


def initial_labels(S: Array, beta_y: float, beta_0: float) -> LabelModel:
    """Prior and rate both half of the candidate frequency of the label."""
    half = S.mean(axis=0, dtype=np.float64) / 2
    pi, rho = (np.clip(half, 1e-3, top).astype(S.dtype) for top in (0.5, 0.95))
    return LabelModel(pi, rho, float(beta_y), float(beta_0))


class Features(NamedTuple):
    """Scaled rows, made when asked for; a sparse X is scaled once and its shift kept apart."""

    X: "Array | sp.csr_array"
    scaling: Scaling

    @classmethod
    def of(cls, X: "Array | sp.csr_array", scaling: Scaling) -> "Features":
        """The features of X under the scaling."""
        if not sp.issparse(X):
            return cls(X, scaling)
        ones = np.ones_like(scaling.factor)
        return cls(sp.csr_array(X * scaling.factor[None, :]), Scaling(ones, scaling.shift))

    def rows(self, rows: Any) -> tuple[Any, Array]:
        """Some rows, and what has yet to be added to each of them."""
        if sp.issparse(self.X):
            return self.X[rows], self.scaling.shift
        part = self.X[rows] * self.scaling.factor + self.scaling.shift
        return part, np.zeros_like(self.scaling.shift)

    def dense_rows(self, rows: Any) -> Array:
        """Some rows as an array."""
        part, shift = self.rows(rows)
        return part.toarray() + shift if sp.issparse(part) else part

"""PML-PLR: pseudo-labels between a kernel ridge regression and a rotation of the candidates.

No dense n x n matrix is kept. The rotated candidates Q'Y need only l x l matrices: with R the root
of Y'Y, the nearest rotation gives Q'Y = polar(F R) R. The matrix C, whose rows lie on the simplex,
is projected in blocks of rows and is sparse; squared distances G only occur in products.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._input import Array
from schirn._progress import track
from schirn.lab.rivals.solvers._anchors import AnchorResult
from schirn.lab.rivals.solvers._conjugate_gradients import conjugate_gradients
from schirn.lab.rivals.solvers.prox import polar_factor, project_simplex
from schirn.linalg.arrays import row_slices
from schirn.linalg.row_space import RowSpace

_RANK_FLOOR = 1e-10
# Pseudo-labels of the released step were seen between -0.9 and 6.
_LARGEST = 10.0


def pmlplr(
    space: RowSpace,
    Y: Array,
    L: sp.csr_array,
    Z: "Array | sp.csr_array | None" = None,
    *,
    alpha: float,
    beta: float,
    lam: float,
    ratio: float = 0.8,
    mu: float = 1e3,
    max_iter: int = 40,
    tol: float = 1e-4,
    rng: np.random.RandomState | None = None,
) -> AnchorResult:
    """Lower ||X W - F||^2 + ||Q'Y - F||^2 + beta tr(F'C L F) + lam ||W||^2 + the term below.

    ||Y - C B||^2 + tr(G C') + alpha ||Y - B||_1 reconstructs the candidates from near rows of a
    matrix B = H'P of lower rank. Here 0 <= F <= Y, Q and P have orthonormal rows, and the rows of C
    are non-negative with sum one. The released step of F, used with C, leaves the bounds of F.

    Parameters
    ----------
    space : RowSpace
        The factored map of the rows, for a ridge up to lam.
    Y : (n, l) array
        Candidates, 0/1.
    L : (n, n) CSR array
        Laplacian of the neighbour graph.
    Z : (n, d) array or CSR array, or None
        The scaled rows, between which G holds the squared distances. None leaves out the
        reconstruction, and C is the identity.
    ratio : float
        Share of the labels that is the rank of B.
    mu : float
        Weight of the copy E of Y - B.
    tol : float
        Stop from round 6 on when the relative fall of the objective is below it.
    rng : RandomState or None
        Of the first H and P; None starts from seed 0.
    """
    Y = np.ascontiguousarray(Y != 0, dtype=space.dtype)
    reconstruction = None if Z is None else _Reconstruction(Y, Z, ratio, mu, rng)
    # The root of Y'Y.
    squares, V = np.linalg.eigh(Y.T @ Y)
    root = (V * np.sqrt(np.maximum(squares, 0))) @ V.T
    smallest = np.finfo(Y.dtype).eps ** 0.5
    F = Y
    objective = list[float]()
    for n_iter in track(range(1, max_iter + 1), "round", may_stop=tol > 0):
        target = F
        w = space.ridge(space.project(F), lam)
        XW = space.expand(w)
        YQ = polar_factor(F @ root) @ root
        LF = L @ F
        if reconstruction is None:
            pulled = 2 * LF
        else:
            reconstruction.advance(F, LF, alpha, beta)
            pulled = reconstruction.C @ LF + L @ (reconstruction.C.T @ F)
        raised = F * (XW + YQ) - np.maximum(F - 1, 0)
        den = 2 * F + beta * pulled
        # If the pull of the neighbours outweighs the row itself, the denominator is negative, and
        # the released step, which has no bounds, flips the sign. Without C, F stays within Y.
        if reconstruction is None:
            F = np.clip(raised / np.maximum(den, smallest), 0, Y)
        else:
            den = np.where(np.abs(den) < smallest, smallest, den)
            F = np.clip(raised / den, -_LARGEST, _LARGEST)
        LF = L @ F if reconstruction is None else reconstruction.C @ (L @ F)
        price = np.sum((XW - F) ** 2 + (YQ - F) ** 2 + beta * F * LF, dtype=np.float64)
        price += lam * np.sum(w**2, dtype=np.float64)
        objective.append(
            float(price) + (0.0 if reconstruction is None else reconstruction.price(alpha))
        )
        if n_iter > 5 and objective[-2] - objective[-1] < tol * objective[-2]:
            break
    loo_scores = space.leave_one_out(target, XW, lam)
    C = None if reconstruction is None else reconstruction.C
    return AnchorResult(w, F, loo_scores, n_iter, np.array(objective), C)


class _Reconstruction:
    """The matrices C, H, P and E of ||Y - C H'P||^2 + tr(G C') + alpha ||E||_1."""

    def __init__(
        self,
        Y: Array,
        Z: Any,
        ratio: float,
        mu: float,
        rng: np.random.RandomState | None,
    ):
        n, l = Y.shape
        rank = min(l, int(np.ceil(ratio * l)))
        rng = np.random.RandomState(0) if rng is None else rng
        self.Y = Y
        self.Z = Z
        self.mu = mu
        self.Ht = rng.standard_normal((rank, n)).T.astype(Y.dtype)
        self.P = polar_factor(rng.uniform(size=(rank, l)).astype(Y.dtype))
        self.C = sp.csr_array(sp.eye_array(n, dtype=Y.dtype))
        self.E = np.zeros_like(Y)
        lengths = Z.multiply(Z).sum(axis=1) if sp.issparse(Z) else np.einsum("ij,ij->i", Z, Z)
        self.lengths = np.asarray(lengths)[:, None]

    def advance(self, F: Array, LF: Array, alpha: float, beta: float) -> None:
        """The steps of P, H, C and E, in this order."""
        Y = self.Y
        Z = self.Z
        C = self.C
        mu = self.mu
        self.P = P = polar_factor(self.Ht.T @ (2 * (C.T @ Y) + mu * (Y - self.E)))
        # H' solves (2 C'C + mu) H' = (2 C'Y + mu (Y - E)) P'.
        right = (2 * (C.T @ Y) + mu * (Y - self.E)) @ P.T
        columns = np.asarray(C.multiply(C).sum(axis=0))
        self.Ht = Ht = conjugate_gradients(
            lambda A: C.T @ (C @ A), right, mu=2.0, ridge=mu, diagonal=columns
        ).W
        # C projects (2 Y P'H + 2 beta L F F' - G) pinv(2 H'H) on the simplex. The pseudo-inverse
        # is H'(H H')^-2 H / 2, so only the n x m matrix to the left of H is made.
        values, U = np.linalg.eigh(Ht.T @ Ht)
        known = values > _RANK_FLOOR * max(float(values[-1]), 0.0)
        inverse = np.divide(0.5, values**2, out=np.zeros_like(values), where=known)
        distances = self.lengths * Ht.sum(axis=0) + (self.lengths.T @ Ht) - 2 * (Z @ (Z.T @ Ht))
        numerator = 2 * Y @ (P.T @ (Ht.T @ Ht)) + 2 * beta * LF @ (F.T @ Ht) - distances
        numerator = numerator @ ((U * inverse) @ U.T)
        blocks = [
            sp.csr_array(project_simplex(numerator[rows] @ Ht.T))
            for rows in row_slices(len(Y), len(Y))
        ]
        self.C = sp.csr_array(sp.vstack(blocks))
        self.E = np.maximum(Y - Ht @ P - alpha / mu, 0)

    def price(self, alpha: float) -> float:
        """The three terms of the reconstruction."""
        B = self.Ht @ self.P
        C = self.C
        Z = self.Z
        CZ = C @ Z
        inner = Z.multiply(CZ).sum() if sp.issparse(Z) else np.sum(Z * CZ, dtype=np.float64)
        distances = self.lengths.sum(dtype=np.float64) + (C @ self.lengths).sum() - 2 * inner
        fit = np.sum((self.Y - C @ B) ** 2 + alpha * np.abs(self.Y - B), dtype=np.float64)
        return float(fit + distances)

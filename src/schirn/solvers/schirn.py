"""Schirn: sparse noise under a high-rank prediction, Algorithm 1 of the paper.

`schirn` is the loop of the paper for rows in memory. It minimises

    ||C - (Y - N)||_F^2 + alpha ||N||_1 - beta ||C||_* + lam ||W||_F^2

over C = X W and the binary noise N <= Y (eq. 6), by augmented Lagrange multipliers (eq. 7). Two
identities keep linear systems and singular value decompositions out of the loop.

**The features are factored once.** With X = U S V', F = U S and W = V w, the W subproblem has the
solution

    w = (mu S^2 + 2 lam)^(-1) (mu F'C - F'L)        instead of
    W = (mu X'X + 2 lam I)^(-1) X'(mu C - L),

an entrywise division, and X W = F w. In the code, `eigenvalues` are S^2, and 2 lam is multiplied by
`penalty`, which is 0 for the intercept and 1 otherwise. The division needs only the projections F'C
and F'L, and these need no product with the features: G is a linear combination of Y - N, L and X W,
C = G R with an l x l matrix R (below), and L changes by mu (X W - C). All of these operations treat
every row alike, so the projection of each matrix follows from the projections of the others by the
same formula, starting from F'X W = S^2 w. Each n x l matrix A is therefore stored with its
projection F'A below its own n rows, and one expression updates both: C[:n] is C, and C[n:] is F'C.
Only the noise step is not linear; after it, the few cells that changed are projected. A round costs
one product with the features, F w.

**The singular values of G are shifted through its Gram matrix.** If G = P D Q', then
P f(D) Q' = G R with R = Q f(D)/D Q', and Q and D come from the l x l matrix G'G.

**Equation numbers are those of the paper.** Its noise rule (13) does not solve its noise problem
(10) over binary N; `noise_rule="exact"` does. Its shift (16) minimises (15) for the rank weight
2 beta.

`schirn.solvers.schirn_blocks` runs the same rounds on blocks of rows, on a device, in files or on
workers.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from schirn._checkpoint import Rounds
from schirn._progress import track
from schirn.linalg.arrays import Array
from schirn.linalg.prox import NoiseRule, RankTerm, noise_threshold, shift_singular_values
from schirn.linalg.row_space import RowSpace


@dataclass(frozen=True, eq=False)
class SchirnFit:
    """Result of a fit on rows in memory; the trace has one entry per round."""

    w: Array
    """Coordinates of W in the row space, (r, l)."""
    N: Array
    """The noise, (n, l) bool."""
    objective: Array
    residual: Array
    """||X W - C||_F"""
    n_noise: Array
    """Number of candidates that are noise."""


def schirn(
    space: RowSpace,
    Y: Array,
    *,
    alpha: float,
    beta: float,
    lam: float,
    noise_rule: NoiseRule = "exact",
    rank_term: RankTerm = "high",
    mu: float = 1e-4,
    mu_max: float = 10.0,
    rho: float = 1.1,
    max_iter: int = 100,
    tol: float = 0.0,
) -> SchirnFit:
    """Run Algorithm 1 of the paper on rows in memory.

    Parameters
    ----------
    space : RowSpace
        X, factored accurately enough for the smallest ridge weight, 2 lam / mu at the largest mu.
    Y : (n, l) array
        Candidates, 0/1.
    alpha, beta, lam : float
        Penalty for declaring a candidate noise, weight of the rank term, ridge weight.
    noise_rule : {"exact", "printed"}
        "exact" solves the noise step, "printed" is the formula of the paper.
    rank_term : {"high", "low", "none"}
        Raise the singular values of C, shrink them, or leave them unchanged.
    mu, mu_max, rho : float
        Initial penalty of the multipliers, its upper bound, and its growth factor per round.
    max_iter, tol : int, float
        Maximum number of rounds; stop at ||X W - C||_F <= tol ||C||_F if the noise is unchanged.

    Returns
    -------
    SchirnFit
    """
    n = space.shape[0]
    Y = np.asarray(Y) != 0
    eigenvalues = space.eigenvalues.astype(np.float64)[:, None]
    penalty = space.penalty.astype(np.float64)[:, None]
    threshold = noise_threshold(alpha, noise_rule)
    rank_weight = {"high": -beta, "low": beta, "none": 0.0}[rank_term]
    N = np.zeros_like(Y)
    # The rows from n on are projections: F'(Y - N), F'C, F'L and, in the loop, F'XW and F'G.
    Y_N = _with_projection(space, Y)
    C = L = _with_projection(space, np.ones(Y.shape))
    trace: list[tuple[float, float, int]] = []
    rounds = Rounds(max_iter)
    if rounds.state is not None:
        N, Y_N, C, L, mu, trace = rounds.state
    for n_iter in track(rounds.left(), "round", before=rounds.done, may_stop=tol > 0):
        # W, eq. (9): W = (mu X'X + 2 lam I)^-1 X'(mu C - L), in the row space of X
        w = (mu * C[n:] - L[n:]) / (mu * eigenvalues + 2 * lam * penalty)
        XW = np.vstack([space.expand(w.astype(space.dtype)), eigenvalues * w])
        # N, eq. (13) if "printed": candidates are noise where C is below the threshold
        N_before = N
        N = Y & (C[:n] < threshold)
        if not np.array_equal(N, N_before):
            Y_N = Y_N - _with_projection(space, N.astype(float) - N_before)
        # C: G is the matrix of eq. (15)
        G = (2 * Y_N + L + mu * XW) / (2 + mu)
        # Eq. (16) with its shift: G = P D Q', C = P (D + shift) Q'
        C, nuclear_norm = _rank_step(G, n, 2 * beta / (2 + mu), rank_term)
        # Multipliers and penalty, eqs. (17) and (18)
        gap = XW - C
        L = L + mu * gap
        mu = min(mu_max, rho * mu)
        residual = float(np.linalg.norm(gap[:n]))
        n_noise = int(np.count_nonzero(N))
        loss = float(np.linalg.norm(C[:n] - Y_N[:n])) ** 2
        ridge = lam * float(np.sum(penalty * w**2))
        objective = loss + alpha * n_noise + rank_weight * nuclear_norm + ridge
        trace.append((objective, residual, n_noise))
        if tol > 0 and np.array_equal(N, N_before) and residual <= tol * np.linalg.norm(C[:n]):
            break
        if rounds.due(n_iter):
            rounds.save(n_iter, (N, Y_N, C, L, mu, trace))
    return SchirnFit(w.astype(space.dtype), N, *map(np.array, zip(*trace, strict=True)))


def _rank_step(G: Array, n: int, shift: float, rank_term: RankTerm) -> tuple[Array, float]:
    """C and its nuclear norm; the first n rows of G determine R, which maps the projection too."""
    if shift == 0 or rank_term == "none":
        return G, 0.0
    R, singular_values = shift_singular_values(G[:n], shift, rank_term)
    return G @ R, float(singular_values.sum())


def _with_projection(space: RowSpace, A: Array) -> Array:
    """Stack A and its projection F'A, in double precision."""
    FA = space.project(sp.csr_array(A, dtype=space.dtype))
    return np.vstack([A, FA]).astype(np.float64, order="C")

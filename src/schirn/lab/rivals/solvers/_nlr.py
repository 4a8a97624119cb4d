"""NLR: two competing linear classifiers and a binary noise matrix, by alternating sweeps.

In the row space of X (F'F diagonal) the two ridge steps of a sweep are one division per singular
direction: a sweep costs two products with F. The sweeps are slow on purpose. Their number acts as
early stopping, so they must not be replaced by the joint solution for W1 and W2.
"""

from typing import NamedTuple

import numpy as np

from schirn._input import Array
from schirn._progress import track
from schirn.linalg.leave_one_out import leave_one_out
from schirn.linalg.row_space import RowSpace


class NLRResult(NamedTuple):
    """Coordinates w1, w2 of the classifiers, the noise N, and one trace entry per sweep."""

    w1: Array
    w2: Array
    N: Array
    loo_scores: Array
    n_iter: int
    objective: Array
    n_noise: Array


def nlr(
    space: RowSpace,
    Y: Array,
    *,
    beta: float,
    gamma: float,
    lam: float,
    max_iter: int = 100,
    tol: float = 0.0,
) -> NLRResult:
    """Alternate over W1, W2 and N to lower the objective of two competing classifiers.

    ||X W1 - (Y - N)||_F^2 + ||X W2 - (1 - Y + N)||_F^2 + beta ||X W1 + X W2 - 1||_F^2
    + gamma (||W1||_F^2 + ||W2||_F^2) + lam ||N||_1,  N binary and at most Y.

    The noise step takes one proximal gradient step and sends every positive entry to 1, so a
    candidate is noise where X W1 - X W2 < 1 - lam/2, and the objective need not fall.

    Parameters
    ----------
    space : RowSpace
        The factored X; its ridge must cover gamma / (1 + beta).
    Y : (n, l) array
        Candidates, 0/1.
    tol : float
        Stop when W1 and W2 change by less than tol times their norm and N does not change; 0 runs
        all sweeps.
    """
    is_candidate = Y != 0
    N = np.zeros(Y.shape, dtype=bool)
    kept = is_candidate.astype(space.dtype)
    ones_f = space.project(np.ones((len(Y), 1), dtype=space.dtype))
    kept_f = space.project(kept)
    s = space.eigenvalues[:, None]
    pull = beta * s
    den = (1 + beta) * s + gamma * space.penalty[:, None]
    w1 = np.zeros_like(kept_f)
    w2 = np.zeros_like(kept_f)
    trace = []
    for _ in track(range(max_iter), "sweep", may_stop=tol > 0):
        previous = w1, w2
        w1 = (kept_f + beta * ones_f - pull * w2) / den
        w2 = ((1 + beta) * ones_f - kept_f - pull * w1) / den
        noise = is_candidate & (space.expand(w1 - w2) < 1 - lam / 2)
        is_unchanged = np.array_equal(noise, N)
        if not is_unchanged:
            N = noise
            kept = (is_candidate & ~noise).astype(space.dtype)
            kept_f = space.project(kept)
        fit = _objective(space, kept, kept_f, ones_f, w1, w2, beta, gamma)
        trace.append((fit + lam * int(N.sum()), int(N.sum())))
        if tol and is_unchanged and _settled(previous, (w1, w2), tol):
            break
    objective, noises = (np.array(column) for column in zip(*trace, strict=True))
    loo_scores = _leave_one_out(space, kept, w1, len(trace), beta, gamma)
    return NLRResult(w1, w2, N, loo_scores, len(trace), objective, noises)


def _settled(previous: tuple[Array, Array], current: tuple[Array, Array], tol: float) -> bool:
    """Check whether both classifiers moved by less than tol times their norm."""
    return all(
        np.linalg.norm(new - old) <= tol * np.linalg.norm(new)
        for old, new in zip(previous, current, strict=True)
    )


def _objective(
    space: RowSpace,
    kept: Array,
    kept_f: Array,
    ones_f: Array,
    w1: Array,
    w2: Array,
    beta: float,
    gamma: float,
) -> float:
    """The objective without the price of noise, from the projections alone."""
    n_kept = int(kept.sum(dtype=np.float64))
    loss = _square(space, w1, kept_f, n_kept)
    loss += _square(space, w2, ones_f - kept_f, kept.size - n_kept)
    loss += beta * _square(space, w1 + w2, ones_f, kept.size)
    penalty = space.penalty[:, None]
    return loss + gamma * float(np.sum(penalty * (w1**2 + w2**2), dtype=np.float64))


def _square(space: RowSpace, w: Array, Bf: Array, square: float) -> float:
    """||F w - B||_F^2 from F'B and ||B||_F^2."""
    inner = w * (space.eigenvalues[:, None] * w - 2 * Bf)
    return float(np.sum(inner, dtype=np.float64)) + square


def _leave_one_out(
    space: RowSpace, shrinkage: Array, w1: Array, n_iter: int, beta: float, gamma: float
) -> Array:
    """Scores of each row as if W1 had not seen it, for the final noise.

    With N fixed, X W1 is the sum of three linear smoothers, one of Y - N - 1/2 and two of the
    constant 1/2, and each gets the leave-one-out correction of ridge. The correction is exact
    when the sweeps have converged, because the first two are then ridge and the third is zero.
    """
    main, constant, transient = _filters(space, n_iter, beta, gamma)
    half_f = space.project(np.full((len(shrinkage), 1), 0.5, dtype=space.dtype))
    common = (constant + transient)[:, None] * half_f
    scores = _corrected(
        space, main, space.expand(w1 - common), shrinkage - shrinkage.dtype.type(0.5)
    )
    for weights in (constant, transient):
        scores += _corrected(space, weights, space.expand(weights[:, None] * half_f), 0.5)
    return scores


def _filters(space: RowSpace, n_iter: int, beta: float, gamma: float) -> tuple[Array, ...]:
    """The weights of each direction in the three smoothers.

    The sum of the two classifiers settles at once, at `constant`; their difference is slow, and
    what W1 still holds of its first, lone fit to the constant is `transient`.
    """
    a1, b1, _, _ = sweep_filters(space, n_iter, beta, gamma)
    s = space.eigenvalues
    t = gamma * space.penalty
    constant = (1 + 2 * beta) / ((1 + 2 * beta) * s + t)
    return a1, constant, a1 + 2 * b1 - constant


def sweep_filters(
    space: RowSpace, n_iter: int, beta: Array | float, gamma: Array | float
) -> tuple[Array, Array, Array, Array]:
    """The classifiers after some sweeps with fixed N, direction by direction.

    W1 = a1 F'(Y - N) + b1 F'1 and W2 = a2 F'(Y - N) + b2 F'1. Columns of beta and gamma give one
    row of filters per pair.
    """
    s = space.eigenvalues
    t = gamma * space.penalty
    den = (1 + beta) * s + t
    a2 = np.zeros_like(den)
    b2 = np.zeros_like(den)
    for _ in range(n_iter):
        a1 = (1 - beta * s * a2) / den
        b1 = (beta - beta * s * b2) / den
        a2 = (-1 - beta * s * a1) / den
        b2 = (1 + beta - beta * s * b1) / den
    return a1, b1, a2, b2


def _corrected(space: RowSpace, weights: Array, fitted: Array, target: Array | float) -> Array:
    """Fitted values of the smoother F diag(weights) F', each without its own target."""
    # Where the weights are all 1/(S^2 + t) this is the leave-one-out rule of ridge.
    return leave_one_out(target, fitted, space.diagonal(weights))

"""PARTICLE: credible labels by propagation on a neighbour graph, then pairwise votes."""

from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._input import Array
from schirn._progress import stage, track
from schirn.lab.rivals.solvers._pairwise import (
    PairModels,
    SVMOptions,
    cast_votes,
    kernel_matrix,
    pairwise_svms,
    rescale,
)
from schirn.lab.rivals.solvers._reuse import fingerprint, reused
from schirn.lab.rivals.solvers._scaling import Scaling, minmax
from schirn.lab.rivals.solvers.graph import (
    nearest_neighbours,
    propagate_labels,
    reconstruction_weights,
)
from schirn.noise.thresholds import scale_rows


class CredibleLabels(NamedTuple):
    """Confidences F in [0, 1], the credible labels, and the change in every propagation round."""

    F: Array
    credible: Array
    changes: Array


def unit_range(X: "Array | sp.csr_array") -> Scaling:
    """Scale every feature to [0, 1]; divide a sparse one by its largest absolute value.

    The zeros of a sparse X stay zero. If its values are nonnegative and every column has a zero,
    both scalings are the same.
    """
    if not sp.issparse(X):
        return minmax(X, 0, 1)
    largest = abs(X).max(axis=0).toarray().ravel()
    # The reciprocal of a tiny value overflows.
    varies = largest > 2 * np.finfo(X.dtype).tiny
    factor = np.divide(1.0, largest, out=np.zeros_like(largest), where=varies)
    return Scaling(factor, np.zeros_like(factor))


def credible_labels(
    X: "Array | sp.csr_array",
    Y: Array,
    *,
    k: int,
    alpha: float,
    thr: float,
    include_self: bool = False,
    max_iter: int = 1000,
    tol: float = 1e-5,
) -> CredibleLabels:
    """Propagate the candidates along reconstruction weights, then let the neighbours vote.

    A label is credible if the vote of the k nearest other rows, scaled to [0, 1] within the row,
    is at least `thr` and the label is a candidate. If no candidate of a row reaches it, all labels
    that do are credible.

    Parameters
    ----------
    include_self : bool
        Count a row among its own neighbours in the graph. It is then reconstructed from itself and,
        with more features than neighbours, nothing is propagated. The vote never includes the row
        itself.
    """
    key = ("propagated", fingerprint(X, Y), k, alpha, include_self, max_iter, tol)
    F, votes, changes = reused(
        key,
        lambda: _propagated(X, Y, k, alpha, include_self, max_iter, tol),
        size=16 * Y.size,
    )
    marked = votes >= thr
    credible = marked & (Y != 0)
    missing = ~credible.any(axis=1)
    credible[missing] = marked[missing]
    return CredibleLabels(F, credible, changes)


def _propagated(
    X: "Array | sp.csr_array",
    Y: Array,
    k: int,
    alpha: float,
    include_self: bool,
    max_iter: int,
    tol: float,
) -> tuple[Array, Array, Array]:
    """Confidences, votes of the neighbours scaled to [0, 1], and the change in every round."""
    stage("finding neighbours")
    neighbours = nearest_neighbours(X, k)
    graph = nearest_neighbours(X, k, include_self=True) if include_self else neighbours
    T = reconstruction_weights(X, graph.indices)
    stage("propagating labels")
    P, changes = propagate_labels(T, Y, alpha=alpha, max_iter=max_iter, tol=tol)
    mass = P.sum(axis=0)
    P *= np.divide(Y.sum(axis=0), mass, out=np.zeros_like(mass), where=mass > 0)
    F = _unit_rows(P)
    votes = _unit_rows(_neighbour_votes(F, neighbours.indices, neighbours.distances))
    return F, votes, changes


def _neighbour_votes(F: Array, indices: Array, distances: Array) -> Array:
    """Sum of F over the neighbours, nearer ones counting more."""
    total = distances.sum(axis=1, keepdims=True)
    share = np.divide(distances, total, out=np.zeros_like(distances), where=total > 0)
    n, k = indices.shape
    at = (np.repeat(np.arange(n), k), indices.ravel())
    return sp.csr_array(((1 - share).ravel(), at), shape=(n, n)) @ F


def _unit_rows(A: Array) -> Array:
    """Rows scaled to [0, 1]; a row of equal positive values has no lesser label and becomes 1."""
    level = A.min(axis=1) > 0
    level &= A.max(axis=1) == A.min(axis=1)
    return np.where(level[:, None], 1.0, scale_rows(A))


def train_voters(
    X: "Array | sp.csr_array",
    Y: Array,
    credible: Array,
    *,
    options: SVMOptions,
    weighted: bool,
    folds: int = 0,
    scaling: Scaling | None = None,
) -> tuple[PairModels, Array]:
    """Train the pairwise machines; return them and their votes (n, l + 1) for the training rows.

    Parameters
    ----------
    weighted : bool
        Also train every label against its absence, the virtual label; a vote counts as much as the
        training accuracy of its machine.
    folds : int
        0 votes with the machines themselves; otherwise row i of fold i mod `folds` gets the votes
        of machines trained without that fold.
    scaling : Scaling or None
        How X was scaled; the machines are returned for raw features.
    """
    n, l = Y.shape
    candidates = Y != 0
    K = kernel_matrix(X)
    train = partial(pairwise_svms, options=options, virtual=weighted)
    models = train(X, credible, candidates, K=K)
    folds = min(folds, n)
    if folds < 2:
        votes = cast_votes(models, X, weighted=weighted)
    else:
        votes = np.zeros((n, l + 1))
        for fold in track(range(folds), "votes of fold"):
            is_training = np.arange(n) % folds != fold
            kernel = None if K is None else K[np.ix_(is_training, is_training)]
            machines = train(
                X[is_training], credible[is_training], candidates[is_training], K=kernel
            )
            votes[~is_training] = cast_votes(machines, X[~is_training], weighted=weighted)
    return models if scaling is None else rescale(models, scaling), votes


def vote_margin(votes: Array, ceil: bool) -> Array:
    """Return the votes of each label minus the votes of the virtual label, (n, l)."""
    if ceil:
        # Rounding errors in the sum of the weights must not raise a whole number to the next one.
        votes = np.ceil(votes - 1e-9)
    return votes[:, :-1] - votes[:, -1:]


def vote_log_odds(votes: Array, positive: Array, negative: Array, *, smoothing: float) -> Array:
    """Table (l, l) of log P(true | c votes) - log P(false | c votes), one row per label.

    With prior_j = (s + n_j)/(2 s + n) over the n_j positive of n rows, and the smoothed
    histograms P(c | j) and P(c | not j) of the votes over positive and negative rows.

    Parameters
    ----------
    votes : (n, l) array
        Integers from 0 to l - 1.
    positive, negative : (n, l) bool
    smoothing : float
        Added to every count; above 0.
    """
    prior = (smoothing + positive.sum(axis=0)) / (2 * smoothing + len(positive))
    like = [_histogram(votes, rows, smoothing) for rows in (positive, negative)]
    return np.log(prior / (1 - prior))[:, None] + np.log(like[0]) - np.log(like[1])


def _histogram(votes: Array, rows: Array, smoothing: float) -> Array:
    """Smoothed share of every number of votes among the marked rows, (l, l)."""
    l = votes.shape[1]
    cells = (votes + l * np.arange(l))[rows]
    counts = np.bincount(cells.astype(np.intp), minlength=l * l).reshape(l, l)
    return (smoothing + counts) / (smoothing * l + counts.sum(axis=1, keepdims=True))


def look_up(table: Array, votes: Array) -> Array:
    """The table's entry for every label's votes, (n, l)."""
    return table[np.arange(table.shape[0]), votes.astype(np.intp)]

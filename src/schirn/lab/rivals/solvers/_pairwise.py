"""One linear support vector machine for every pair of labels.

Thousands of small problems share one kernel matrix X X': a problem is a block of it. A machine is
kept as its dual weights (a sparse column over the training rows), or folded to a weight vector
where that is smaller, and all machines score a row in a few matrix products.
"""

import warnings
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed

from schirn._input import Array
from schirn._progress import track
from schirn.exceptions import InputError
from schirn.lab.rivals.solvers._reuse import fingerprint, reused
from schirn.lab.rivals.solvers._scaling import Scaling

# Above this number of rows, where the kernel matrix takes 1 GB, each problem has its own kernel.
_KERNEL_ROWS = 11_500
_BLOCK_CELLS = 2**23
_BLOCK_PAIRS = 4096


class PairModels(NamedTuple):
    """Machines g_p(x) = sign(x'B'A_p + b_p); g = 1 speaks for the first label of the pair.

    Label number l is the virtual label: a pair with it separates a label from its absence.
    """

    pairs: Array
    """(p, 2) label numbers, the first one lower."""
    basis: "Array | sp.csr_array | None"
    """Support rows B (m, d); None where the weights are folded."""
    coef: "Array | sp.csc_array"
    """Dual weights A (m, p), or weight vectors (d, p)."""
    intercept: Array
    accuracy: Array
    """Share of its own training rows that a machine has right."""
    uncontested: Array
    """(l + 1,) Pairs without a machine in which only this label has rows."""
    n_capped: int
    """Machines that reached the limit of iterations."""


class _Machine(NamedTuple):
    first: int
    second: int
    rows: Array
    dual: Array
    intercept: float
    accuracy: float
    capped: bool


class SVMOptions(NamedTuple):
    """Hinge weight C, and tolerance and limit of the iterations of one machine."""

    C: float = 1.0
    tol: float = 1e-3
    max_iter: int = 100_000
    n_jobs: int | None = None


def kernel_matrix(X: "Array | sp.csr_array") -> Array | None:
    """X X' in double precision, or None if it would not fit into memory."""
    if X.shape[0] > _KERNEL_ROWS:
        return None
    wide: Any = X.astype(np.float64)
    K = wide @ wide.T
    return np.asarray(K.toarray() if sp.issparse(K) else K)


def pairwise_svms(
    X: "Array | sp.csr_array",
    credible: Array,
    candidates: Array,
    *,
    options: SVMOptions,
    virtual: bool,
    K: Array | None = None,
) -> PairModels:
    """For every pair j < k minimise ||w||^2/2 + C sum_i max(0, 1 - y_i (w'x_i + b)) over w, b.

    Positive rows have j credible and k not a candidate; negative ones the other way round. The
    pair of j and the virtual label has the rows where j is credible against those where it is
    no candidate. The intercept is not penalised. A pair without rows on one side has no machine.

    Parameters
    ----------
    credible, candidates : (n, l) bool
    virtual : bool
        Also train the pairs with the virtual label.
    K : array or None
        The kernel matrix X X'; None computes one kernel per problem.
    """

    def train(only_virtual: bool) -> list[_Machine]:
        return _trained(X, K, credible, candidates, only_virtual, options)

    # The machines of the pairs do not depend on the virtual label.
    key = ("pairs", fingerprint(X, credible, candidates), options._replace(n_jobs=None))
    machines = reused(key, lambda: train(False), size=24 * credible.size * credible.shape[1])
    if virtual:
        machines = sorted([*machines, *train(True)], key=itemgetter(0, 1))
    return _assemble(X, machines, _uncontested(credible, candidates))


def _trained(
    X: "Array | sp.csr_array",
    K: Array | None,
    credible: Array,
    candidates: Array,
    only_virtual: bool,
    options: SVMOptions,
) -> list[_Machine]:
    """Train the machines of all pairs of labels, or of each label and the virtual label."""
    train = delayed(_machines_of_label)
    with (
        warnings.catch_warnings(),
        sklearn.config_context(assume_finite=True, skip_parameter_validation=True),
    ):
        # The caller reports how many there are.
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = range(credible.shape[1])
        trained = Parallel(n_jobs=options.n_jobs, prefer="threads", return_as="generator")(
            train(X, K, credible, candidates, j, only_virtual, options) for j in labels
        )
        groups = list(track(trained, "machines of label", len(labels)))
    return [machine for group in groups for machine in group]


def _uncontested(credible: Array, candidates: Array) -> Array:
    """Number of pairs in which a label has rows and the other one has none."""
    exclusive = (credible & ~candidates).astype(np.float64)
    rows = credible.T.astype(np.float64) @ ~candidates
    # A row where both are credible against its candidates counts for the lower label only.
    rows -= np.tril(exclusive.T @ exclusive, -1)
    return np.append(((rows > 0) & (rows.T == 0)).sum(axis=1), 0)


def _machines_of_label(
    X: "Array | sp.csr_array",
    K: Array | None,
    credible: Array,
    candidates: Array,
    j: int,
    only_virtual: bool,
    options: SVMOptions,
) -> list[_Machine]:
    """Train the machines of the pairs with lower label j, or of j and the virtual label."""
    problems = _problems(credible, candidates, j, only_virtual)
    return [
        _train(X, K, j, k, positive, negative, options)
        for k, positive, negative in problems
        if len(positive) and len(negative)
    ]


def _problems(
    credible: Array, candidates: Array, j: int, only_virtual: bool
) -> Iterator[tuple[int, Array, Array]]:
    """The other label, the positive rows and the negative rows of every pair of label j."""
    mine = np.flatnonzero(credible[:, j])
    if not len(mine):
        return
    l = credible.shape[1]
    if only_virtual:
        yield l, mine, np.flatnonzero(~candidates[:, j] & ~credible[:, j])
        return
    absent = ~candidates[mine]
    for k in range(j + 1, l):
        positive = mine[absent[:, k]]
        theirs = np.flatnonzero(credible[:, k] & ~candidates[:, j])
        yield k, positive, np.setdiff1d(theirs, positive, assume_unique=True)


def _train(
    X: "Array | sp.csr_array",
    K: Array | None,
    j: int,
    k: int,
    positive: Array,
    negative: Array,
    options: SVMOptions,
) -> _Machine:
    """One machine by LIBSVM's sequential minimal optimisation."""
    from sklearn.svm import SVC

    rows = np.concatenate([positive, negative])
    target = np.repeat([1, 0], [len(positive), len(negative)])
    data = X[rows] if K is None else K[np.ix_(rows, rows)]
    machine = SVC(
        C=options.C,
        kernel="linear" if K is None else "precomputed",
        tol=options.tol,
        max_iter=options.max_iter,
        cache_size=50,
    )
    try:
        machine.fit(data, target)
    except ValueError as error:
        largest = np.sqrt(abs(data).max()) if K is not None else abs(data).max()
        raise InputError(
            f"a support vector machine overflowed on features of up to {largest:.1g}; set "
            f'scale="minmax", or scale the features first',
            parameter="scale",
        ) from error
    dual = machine.dual_coef_
    dual = (dual.toarray() if sp.issparse(dual) else dual).ravel()
    if K is None:
        decision = data @ (data[machine.support_].T @ dual)
    else:
        decision = data[:, machine.support_] @ dual
    right = (decision + machine.intercept_ > 0) == target
    return _Machine(
        j,
        k,
        rows[machine.support_],
        dual,
        float(machine.intercept_[0]),
        float(right.mean()),
        bool(machine.n_iter_.max() >= options.max_iter),
    )


def _assemble(
    X: "Array | sp.csr_array", machines: list[_Machine], uncontested: Array
) -> PairModels:
    """Put the machines into arrays, folded to weight vectors where those are smaller."""
    sizes = [len(machine.rows) for machine in machines]
    rows = np.concatenate([machine.rows for machine in machines] or [np.zeros(0, np.intp)])
    dual = np.concatenate([machine.dual for machine in machines] or [np.zeros(0)])
    support, index = np.unique(rows, return_inverse=True)
    indptr = np.concatenate([[0], np.cumsum(sizes, dtype=np.intp)])
    A = sp.csc_array((dual, index, indptr), shape=(len(support), len(machines)))
    B = X[support].astype(np.float64)
    folded = B.shape[1] * len(machines) <= A.nnz + B.size
    return PairModels(
        pairs=np.array([machine[:2] for machine in machines], dtype=np.intp).reshape(-1, 2),
        basis=None if folded else B,
        coef=_fold(A, B) if folded else A,
        intercept=np.array([machine.intercept for machine in machines]),
        accuracy=np.array([machine.accuracy for machine in machines]),
        uncontested=uncontested,
        n_capped=sum(machine.capped for machine in machines),
    )


def _fold(A: sp.csc_array, B: "Array | sp.csr_array") -> Array:
    """Weight vectors B'A (d, p), dense."""
    W = A.T @ B
    return np.ascontiguousarray((W.toarray() if sp.issparse(W) else W).T)


def rescale(models: PairModels, scaling: Scaling) -> PairModels:
    """Turn machines trained on scaled features into machines for raw features."""
    factor, shift = scaling
    if models.basis is None:
        coef = np.asarray(models.coef)
        intercept = models.intercept + shift @ coef
        return models._replace(coef=coef * factor[:, None], intercept=intercept)
    intercept = models.intercept + models.coef.T @ (models.basis @ shift)
    basis = models.basis * factor
    basis = sp.csr_array(basis) if sp.issparse(basis) else basis
    return models._replace(basis=basis, intercept=intercept)


def cast_votes(models: PairModels, X: "Array | sp.csr_array", *, weighted: bool) -> Array:
    """Votes (n, l + 1) of all machines for every label, the virtual one last.

    With `weighted` a vote counts as much as the training accuracy of its machine, and a pair
    without a machine has none; otherwise it counts one, and such a pair votes for its only label.
    """
    n = X.shape[0]
    p = len(models.pairs)
    weight = models.accuracy if weighted else np.ones(p)
    l = len(models.uncontested) - 1
    # Every machine starts with a vote for its second label; a win moves it to the first.
    moves = sp.csr_array(
        (np.concatenate([weight, -weight]), (np.tile(np.arange(p), 2), models.pairs.T.ravel())),
        shape=(p, l + 1),
    )
    base = np.bincount(models.pairs[:, 1], weight, l + 1)
    votes = np.tile(base if weighted else base + models.uncontested, (n, 1))
    width = 1 if models.basis is None else models.basis.shape[0]
    rows = max(1, _BLOCK_CELLS // max(width, _BLOCK_PAIRS))
    for i in range(0, n, rows):
        for block, wins in _wins(models, X[i : i + rows]):
            votes[i : i + rows] += wins @ moves[block]
    return votes


def _wins(models: PairModels, X: "Array | sp.csr_array") -> Iterator[tuple[slice, Array]]:
    """Blocks of machines, and 1 where a machine decides for its first label."""
    if models.basis is None:
        features = X
    else:
        features = X @ models.basis.T
        features = features.toarray() if sp.issparse(features) else features
    for i in range(0, len(models.pairs), _BLOCK_PAIRS):
        block = slice(i, i + _BLOCK_PAIRS)
        decision = np.asarray(features @ models.coef[:, block]) + models.intercept[block]
        yield block, (decision > 0).astype(np.float64)

"""Sieve for many rows: the steps of `schirn.solvers.sieve` as sums over rows.

Many rows get features, those of landmarks or their own, whose Gram matrix is a sum over rows. All
rows and one inner split share the features, each with eigenvectors of its own. A step is a function
of one split; it returns the split with new values, and sums over its rows. `Problem.each` runs a
step on every split, and rows in blocks (`schirn.solvers.sieve_blocks`) add up the sums.

Shapes: n rows, l labels. Probabilities p and soft labels q are kept for the candidates only, row by
row, because Q is 0 elsewhere.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import logit

from schirn._checkpoint import Rounds, remembered
from schirn._progress import stage, track
from schirn.linalg.arrays import (
    Array,
    cells_product,
    like,
    namespace,
    row_pieces,
    to_numpy,
)
from schirn.linalg.row_space import below_one
from schirn.noise.model import (
    CellBlock,
    CellPosterior,
    NoiseModel,
    NoiseSums,
    cell_posterior,
    noise_from_sums,
)
from schirn.solvers.sieve import (
    CERTAIN,
    GRIDS,
    KNOWN_ROUNDS,
    LARGEST_RBF_LAM,
    MARGIN,
    PIECE_CELLS,
    POOL_CELLS,
    RATES,
    WINDOW,
    LabelStack,
    Pool,
    TuningSums,
    best_weight,
    collapsed,
    combine,
    newton,
    rankable,
    row_precisions,
    soft_logit,
    stack_half,
)

# Rows held out whose rankings compare ridge weights.
RANKED_ROWS = 2000
# From this size on, cells are drawn without listing all of them.
MANY_CELLS = 1_000_000
# Devices use a dense product if there are at most this many cells per candidate.
_DENSE_CELLS = 64
# The label stack is cubic in the labels; above this many it is left out.
MOST_STACKED = 3000


class Candidates(NamedTuple):
    """The candidate cells of some rows, row by row."""

    indptr: np.ndarray
    shape: tuple[int, int]
    listed: np.ndarray
    """Number of candidates of each label."""
    label: Array
    """This and the following lie on the device of the features."""
    row: Array
    flat: Array
    """Positions of the cells in a flattened (n, l) array."""
    by_label: tuple[Array, Array, Array] | None = None
    """On a device: order of the cells by label; labels and rows in that order."""
    blocks: list[CellBlock] | None = None
    """On a device: blocks for `cell_posterior`."""

    def project(self, values: Array, X: Any) -> Array:
        """X'B in double precision for the (n, l) matrix B with these values at the candidates."""
        xp, (n, l) = namespace(values), self.shape
        if self.by_label is None:
            # Row by row, so that X is read once and in order.
            total = np.zeros((l, X.shape[1]))
            for i, piece in row_pieces(X, piece_rows(dense_part(X), X.shape[1])):
                ends = self.indptr[i : i + piece.shape[0] + 1]
                cells = slice(ends[0], ends[-1])
                B = sp.csr_array(
                    (values[cells], self.label[cells], ends - ends[0]), (piece.shape[0], l)
                )
                product = B.T @ piece
                total += product.toarray() if sp.issparse(product) else product
            return total.T
        if n * l <= _DENSE_CELLS * self.size:
            product = X.T @ self.dense(values, X)
        else:
            order, label, row = self.by_label
            product = cells_product(label, row, xp.take(values, order), X, l).T
        return xp.astype(product, xp.float64)

    def dense(self, values: Array, X: Array) -> Array:
        """The (n, l) matrix with these values at the candidates, of the type of X."""
        xp, (n, l) = namespace(X), self.shape
        B = xp.zeros(n * l, dtype=X.dtype, device=X.device)
        B[self.flat] = xp.astype(values, X.dtype)
        return xp.reshape(B, (n, l))

    def total(self, values: Array) -> np.ndarray:
        """Sum of the values of each label."""
        if self.by_label is None:
            return np.bincount(self.label, values, minlength=self.shape[1])
        # Sums by atomic additions would differ from run to run.
        xp, ends = namespace(values), np.cumsum(self.listed).tolist()
        ordered = xp.take(values, self.by_label[0])
        sums = [xp.sum(ordered[i:j]) for i, j in pairwise([0, *ends])]
        return to_numpy(xp.stack(sums)).astype(np.float64)

    @property
    def size(self) -> int:
        """Number of candidates."""
        return int(self.indptr[-1])


class Rows(NamedTuple):
    """Features and candidates of some rows, and what the user knows about them."""

    X: Any
    candidates: Candidates
    indices: np.ndarray
    """Index of each row among all rows; sorted for rows held out."""
    rates: np.ndarray | None = None
    """Known rate at which false labels are listed in each row."""
    known: Any = None
    """1 for candidates known to be true, -1 for wrong ones, 0 for the others."""


class Split(NamedTuple):
    """Rows to learn from, rows held out (None if there are none), and the values of the round."""

    train: Rows
    held: Rows | None = None
    factors: Any = None
    """1/(1 - h) with the leverage h of each row, (experts, n)."""
    p: Any = None
    """Probability of each candidate."""
    q: Any = None
    """Posterior of each candidate."""
    S: Any = None
    """Leave-one-out scores (experts, n, l); between rounds, the log-odds (n, l) of all rows."""
    S_held: Any = None
    """Scores (experts, m, l) of the rows held out."""


class Problem:
    """The split of all rows, and inner splits with rows held out.

    Parameters
    ----------
    splits : list of Split
    spectra : list of Spectrum
        One per split.
    drawn : list of ndarray
        Rows held out of each inner split, in the order of the draw.
    n_labels : int
    rates : float or ndarray of shape (n,), optional
        Known rate at which false labels are listed, for all rows or for each.
    """

    def __init__(self, splits: Any, spectra: Any, drawn: Any, n_labels: int, rates: Any = None):
        self.splits, self.spectra, self.drawn = list(splits), list(spectra), list(drawn)
        self.n_labels, self.rates = n_labels, rates

    def each(self, step: Callable[..., Any], messages: Sequence[Any], *common: Any) -> list[Any]:
        """Run step(split, message, *common) on every split; the sums of each."""
        pairs = zip(self.splits, messages, strict=True)
        found = [step(split, message, *common) for split, message in pairs]
        self.splits = [split for split, _ in found]
        return [sums for _, sums in found]

    def gather(self, function: Callable[..., Any], *message: Any) -> list[Any]:
        """Call function(splits, *message) on the splits of every block of rows."""
        return [function(self.splits, *message)]

    def ridges(self, sums: Sequence[Any], lams: Sequence[float], exact: bool = False) -> list[Any]:
        """Ridges of every split, given X'B and 1'B; None for a split without sums.

        Rows elsewhere keep them, as messages of `each`, unless they are to be `exact`.
        """
        pairs = zip(self.spectra, sums, strict=True)
        return [None if own is None else spectrum.ridges(*own[:2], lams) for spectrum, own in pairs]

    def keep_first(self) -> None:
        """Drop the inner splits."""
        self.splits, self.spectra, self.drawn = self.splits[:1], self.spectra[:1], []

    def probabilities(self) -> list[Any]:
        """Probabilities of the candidates, for a checkpoint."""
        return self.gather(probabilities)

    def restore(self, p: list[Any]) -> None:
        """Go on with the probabilities of a checkpoint."""
        self.each(with_probabilities, p[0])


def dense_part(X: Any) -> Array:
    """X, or the stored values of a sparse X: an array of its type and on its device."""
    return X.data if sp.issparse(X) else X


class SoftSums(NamedTuple):
    """Sums over the rows of a split: X'Q, 1'Q, and what the noise model needs."""

    XtQ: Array
    soft: np.ndarray
    noise: NoiseSums


def soften(split: Split, noise: NoiseModel, condition: bool = False) -> tuple[Split, SoftSums]:
    """Posterior of the candidates; `condition` makes it that given the known labels."""
    rows, c = split.train, split.train.candidates
    n, l = c.shape
    if not condition:
        found = posterior(rows, split.p, noise)
        q = found.q
        soft = c.total(q)
        # A copy: rows in files share buffers, which the next block fills.
        sums = noise_sums(n, c.listed.astype(np.float64), soft, found)
    else:
        q = known_posterior(rows, split.p, noise)
        # The noise is that of rows with an undecided candidate: others may have been corrected.
        row = to_numpy(c.row)
        undecided = np.unique(row[rows.known == 0])
        inside = np.isin(row, undecided)
        indptr = np.append(0, np.cumsum(np.diff(c.indptr)[undecided]))
        rest = c._replace(label=c.label[inside], indptr=indptr, blocks=None)
        rates = None if rows.rates is None else rows.rates[undecided]
        rest_rows = rows._replace(candidates=rest, rates=rates)
        found = posterior(rest_rows, known_probability(rows, split.p)[inside], noise)
        soft = c.total(q)
        listed, own = (np.bincount(rest.label, v, minlength=l) for v in (found.q**0, found.q))
        sums = noise_sums(len(undecided), listed, own, found)
    q = like(q, split.p)
    return split._replace(q=q), SoftSums(c.project(q, rows.X), soft, sums)


def posterior(rows: Rows, p: Array, noise: NoiseModel) -> CellPosterior:
    """Posterior of the candidates of some rows, given their probabilities."""
    c = rows.candidates
    if rows.rates is not None:
        noise = noise._replace(rate=np.clip(rows.rates, *RATES))
    return cell_posterior(p, c.indptr, c.label, c.shape[1], noise, c.blocks)


def known_posterior(rows: Rows, p: Array, noise: NoiseModel) -> np.ndarray:
    """Posterior given the known labels, which get 1 or 0."""
    q = posterior(rows, known_probability(rows, p), noise).q
    return np.where(rows.known > 0, 1.0, np.where(rows.known < 0, 0.0, q))


def known_probability(rows: Rows, p: Array) -> np.ndarray:
    """Probabilities of the candidates, with those of known labels next to 1 or 0."""
    p = to_numpy(p).astype(np.float64)
    return np.where(rows.known > 0, 1 - CERTAIN, np.where(rows.known < 0, CERTAIN, p))


def noise_sums(n: int, listed: np.ndarray, soft: np.ndarray, found: CellPosterior) -> NoiseSums:
    """Sums of a posterior over n rows."""
    true = np.pad(found.true_counts, (0, len(listed) + 1 - len(found.true_counts)))
    return NoiseSums(n, listed, soft, found.noise_counts, true)


def update_noise(sums: NoiseSums, noise: NoiseModel, rates: Any) -> NoiseModel:
    """Noise model of a posterior; known rates stay."""
    if isinstance(rates, np.ndarray) or not sums.n_rows:
        return noise
    return noise_from_sums(sums, None if rates is None else float(noise.rate))


class Spectrum(NamedTuple):
    """Eigenvalues of the centred Gram matrix of the features of a split."""

    eigenvalues: Array
    n: int
    basis: Array | None = None
    """Eigenvectors. None: the features are centred coordinates in them, then a column of ones."""
    mean: Array | None = None

    def ridges(
        self, XtB: Array, total: np.ndarray, lams: Sequence[float]
    ) -> list[tuple[Array, Array | None]]:
        """Weights and intercepts of argmin ||X W + b - B||^2 + lam ||W||^2, given X'B and 1'B."""
        if self.basis is None or self.mean is None:
            return [(XtB / np.append(self.eigenvalues + t, self.n)[:, None], None) for t in lams]
        total = like(total, self.mean)
        projected = self.basis.T @ (XtB - self.mean[:, None] * total)
        W = [self.basis @ (projected / (self.eigenvalues + t)[:, None]) for t in lams]
        return [(A, total / self.n - self.mean @ A) for A in W]

    def leverages(self, X: Any, lams: Sequence[float]) -> Array:
        """Diagonals of the hat matrices, (ridge weights, n), below 1."""
        near = dense_part(X)
        xp = namespace(near)
        own = namespace(self.eigenvalues)
        weights = own.stack([1 / (self.eigenvalues + t) for t in lams], axis=1)
        basis, shift, last = None, 0.0, 0.0
        if self.basis is not None and self.mean is not None:
            basis, shift = like(self.basis, near), like(self.mean @ self.basis, near)
            last = 1 / self.n
        else:
            weights = np.concatenate([weights, np.full((1, len(lams)), 1 / self.n)])
        weights = like(weights, near)
        blocks = row_pieces(X, piece_rows(near, len(weights)))
        F = (A if basis is None else A @ basis - shift for _, A in blocks)
        pieces = [A**2 @ weights + last for A in F]
        h = xp.concat(pieces).T
        return below_one(h)


def piece_rows(near: Array, width: int) -> int:
    """Rows of a piece of a product; devices take more of them, for fewer launches."""
    cells = PIECE_CELLS if isinstance(near, np.ndarray) else 16 * PIECE_CELLS
    return max(1, cells // max(1, width))


def ridge_scores(X: Any, ridges: Sequence[tuple[Array, Array | None]]) -> Array:
    """X W + b of several ridges, (ridges, n, l), with one product."""
    near, l = dense_part(X), ridges[0][0].shape[1]
    join = namespace(ridges[0][0]).concat
    W = like(join([W for W, _ in ridges], axis=1), near)
    b = None if ridges[0][1] is None else like(join([b for _, b in ridges]), near)
    S = namespace(near).empty((len(ridges), X.shape[0], l), dtype=near.dtype, device=near.device)
    for i, piece in row_pieces(X, piece_rows(near, max(X.shape[1], W.shape[1]))):
        scores = piece @ W if b is None else piece @ W + b
        for k in range(len(ridges)):
            S[k, i : i + piece.shape[0]] = scores[:, k * l : (k + 1) * l]
    return S


def leave_out(S: Array, q: Array, c: Candidates, factors: Array) -> Array:
    """Q - (Q - S) factors for fitted scores S (n, l), written into S."""
    xp = namespace(S)
    S *= factors[:, None]
    xp.reshape(S, (-1,))[c.flat] += q * xp.take(1 - factors, c.row)
    return S


class CountSums(NamedTuple):
    """X'Y, and the number of candidates of each label."""

    XtY: Array
    listed: np.ndarray


class MeanSums(NamedTuple):
    """Sum and number of some values."""

    total: float
    number: float


def count(split: Split, message: None = None) -> tuple[Split, CountSums]:
    """Begin with every candidate as true."""
    c, X = split.train.candidates, split.train.X
    ones = like(np.ones(c.size), dense_part(X))
    listed = c.listed.astype(np.float64)
    return split._replace(p=ones, q=ones), CountSums(c.project(ones, X), listed)


def first_scores(
    split: Split, message: tuple[Spectrum, Any], lams: Sequence[float], first: int
) -> tuple[Split, MeanSums]:
    """Leverages of all ridges, and leave-one-out scores of the first one on the candidates."""
    (spectrum, ridges), c = message, split.train.candidates
    factors = 1 / (1 - spectrum.leverages(split.train.X, lams))
    S = leave_out(ridge_scores(split.train.X, ridges)[0], split.q, c, factors[first])
    p = take(S, c.flat)
    outside = MeanSums(double_sum(S) - double_sum(p), S.shape[0] * S.shape[1] - c.size)
    return split._replace(factors=factors, p=p), outside


def first_probabilities(split: Split, rate: float) -> tuple[Split, None]:
    """Probabilities by which the first scores exceed the rate of false labels."""
    rows, rates, xp = split.train, np.asarray(rate), namespace(split.p)
    if rows.rates is not None:
        rates = np.clip(rows.rates, *RATES)[to_numpy(rows.candidates.row)]
    rates = like(rates, split.p, xp.float64)
    p = xp.clip((split.p - rates) / (1 - rates), MARGIN, 1 - MARGIN)
    return split._replace(p=like(p, split.p)), None


def score(
    split: Split, ridges: Any, leader: int, correlated: bool
) -> tuple[Split, "StackSums | None"]:
    """Leave-one-out scores of all ridges, and the sums of the label stack."""
    rows, c = split.train, split.train.candidates
    S = ridge_scores(rows.X, ridges)
    for fitted, factors in zip(S, split.factors, strict=True):
        leave_out(fitted, split.q, c, factors)
    held = None if split.held is None else ridge_scores(split.held.X, ridges)
    sums = stack_sums(S[leader], split.q, c) if correlated else None
    return split._replace(S=S, S_held=held), sums


def held_losses(
    split: Split, ridges: Sequence[Any], ranked: np.ndarray
) -> tuple[Split, TuningSums | None]:
    """Squared errors of the rows held out, and average precisions of those in `ranked`."""
    if split.held is None:
        return split, None
    c = split.held.candidates
    listed = sp.csr_array((np.ones(c.size), to_numpy(c.label), c.indptr), c.shape)
    some = np.flatnonzero(np.isin(split.held.indices, ranked))
    Y = listed[some].toarray()
    rows = rankable(Y)
    near = like(some[rows], c.label, "own")
    errors, precisions = [], []
    for ridge in ridges:
        S = ridge_scores(split.held.X, [ridge])[0]
        errors.append(squared_error(S, c))
        precisions.append(row_precisions(Y[rows], to_numpy(namespace(S).take(S, near, axis=0))))
    return split, TuningSums.of(errors, precisions)


def choose_ridge(problem: Problem, grid: np.ndarray, *, kernel: str, trusting: bool) -> float:
    """The ridge weight that predicts the candidates of the rows held out best.

    Parameters
    ----------
    problem : Problem
    grid : ndarray
        Ridge weights to try.
    kernel : {"rbf", "linear"}
    trusting : bool
        Take every candidate as true.
    """
    counts = problem.each(count, [None] * len(problem.spectra))
    if not problem.drawn:
        return float(grid[0])
    ranked = problem.drawn[0][: RANKED_ROWS if kernel == "linear" or trusting else 0]
    ridges = problem.ridges([None, *counts[1:]], grid.tolist())
    sums = problem.each(held_losses, ridges, np.sort(ranked))[1]
    return float(grid[best_weight(sums, kernel, trusting)])


def choose_lams(problem: Problem, *, kernel: str, lam: float | None, trusting: bool) -> list[float]:
    """Ridge weights of the experts: as given, or around the best one for held-out candidates."""
    if lam is not None:
        return [float(lam)]
    whole = problem.spectra[0]
    variance = max(float(whole.eigenvalues.sum()) / whole.n, 1e-12)
    best = choose_ridge(problem, variance * GRIDS[kernel], kernel=kernel, trusting=trusting)
    if trusting:
        return [best]
    if kernel == "rbf":
        best = min(best, LARGEST_RBF_LAM * variance)
    return (best * WINDOW).tolist()


class FittedStack(NamedTuple):
    """A label stack, and what its own rows need to be left out."""

    stack: LabelStack
    half: np.ndarray
    """The squared columns of half (S - centre)' sum to the leverages."""
    n: int

    def factors(self, S: Array) -> Array:
        """1/(1 - h) with the leverage h of each row."""
        xp = namespace(S)
        D = S @ like(self.half.T, S) - like(self.half @ self.stack.centre, S)
        return 1 / xp.clip(1 - 1 / self.n - xp.sum(D**2, axis=1), 1e-3, None)


class StackSums(NamedTuple):
    """1'S, S'S and S'Q over the rows of a split."""

    total: np.ndarray
    gram: np.ndarray
    product: np.ndarray


def stack_sums(S: Array, q: Array, c: Candidates) -> StackSums:
    """Sums for scores S (n, l), in double precision."""
    xp, l = namespace(S), S.shape[1]
    step = piece_rows(S, l)
    total, gram = xp.zeros(l, **_double(S)), xp.zeros((l, l), **_double(S))
    for i in range(0, S.shape[0], step):
        piece = xp.astype(S[i : i + step], xp.float64)
        total += xp.sum(piece, axis=0)
        gram += piece.T @ piece
    q = xp.astype(q, xp.float64)
    return StackSums(to_numpy(total), to_numpy(gram), to_numpy(c.project(q, S)))


def fit_stack(sums: StackSums, soft: np.ndarray, n: int) -> FittedStack:
    """Fit the label stack to n rows whose soft labels sum to `soft`."""
    centre, mean = sums.total / n, soft / n
    G = sums.gram - n * np.outer(centre, centre)
    half = stack_half(G, float(np.trace(sums.gram)))
    W = half.T @ (half @ (sums.product - n * np.outer(centre, mean)))
    return FittedStack(LabelStack(W, centre, mean), half, n)


class Fitted(NamedTuple):
    """What a round has fitted to one split, besides the ridges."""

    noise: NoiseModel
    prior: np.ndarray
    stack: FittedStack | None


def probability(z: Array) -> Array:
    """Probabilities of log-odds, kept off 0 and 1."""
    xp = namespace(z)
    return xp.clip(1 / (1 + xp.exp(-xp.clip(z, -30, 30))), MARGIN, 1 - MARGIN)


def fit_pool(
    problem: Problem,
    fitted: Sequence[Fitted],
    leader: int,
    weights: np.ndarray,
    equal: np.ndarray,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Logistic regression of the posterior of held-out cells on the expert scores, in two turns."""
    most = POOL_CELLS // len(problem.drawn)
    for _ in range(2):
        cells = [pick_cells(rows, problem.n_labels, most, rng) for rows in problem.drawn]
        blocks = problem.gather(pool_cells, fitted, leader, weights, cells)
        found = [
            pooled(S, label, q, model.prior)
            for block in blocks
            for (S, label, q), model in zip(block, fitted[1:], strict=True)
        ]
        Z, q = (namespace(a[0]).concat(list(a)) for a in zip(*found, strict=True))
        weights = newton(Z, q, weights, equal)
    return weights


def _double(A: Array) -> dict[str, Any]:
    """Keywords of an array in double precision beside A."""
    return {"dtype": namespace(A).float64, "device": A.device}


def pick_cells(
    rows: np.ndarray, l: int, most: int, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Draw at most `most` cells of the rows held out; their rows, sorted, and labels."""
    size = len(rows) * l
    if size <= MANY_CELLS:
        cells = rng.choice(size, min(size, most), replace=False)
    else:
        other = np.random.default_rng(rng.randint(2**31))
        cells = other.choice(size, most, replace=False, shuffle=False)
    position, label = np.divmod(cells, l)
    row, label = np.divmod(np.sort(rows[position] * l + label), l)
    # They travel to the rows: as few bytes as can hold them.
    return row.astype(np.min_scalar_type(row.max(initial=0))), label.astype(np.min_scalar_type(l))


def pool_cells(
    splits: Sequence[Split],
    fitted: Sequence[Fitted],
    leader: int,
    weights: np.ndarray,
    cells: Sequence[tuple[np.ndarray, np.ndarray]],
) -> list[tuple[Array, Array, Array]]:
    """Expert scores, labels and posterior of the given cells held out, per inner split."""
    found = []
    for split, model, (rows, labels) in zip(splits[1:], fitted[1:], cells, strict=True):
        held: Any = split.held
        c = held.candidates
        experts = [*split.S_held]
        if model.stack is not None:
            experts.append(model.stack.stack.scores(experts[leader]))
        S = experts[0]
        xp = namespace(S)
        prior = like(model.prior, S, xp.float64)
        z = combine(weights, [take(A, c.flat) for A in experts], prior[c.label])
        target = c.dense(posterior(held, probability(z), model.noise).q, prior)
        row = np.searchsorted(held.indices, rows)
        inside = np.append(held.indices, -1)[row] == rows
        row, label = row[inside], labels[inside]
        flat = like(row * c.shape[1] + label, c.flat)
        scores = xp.stack([take(A, flat) for A in experts])
        found.append((scores, label, take(target, flat)))
    return found


def pooled(S: Array, label: np.ndarray, q: Array, prior: np.ndarray) -> tuple[Array, Array]:
    """Inputs (cells, experts + 2) and targets of the pool."""
    xp = namespace(S)
    Z = soft_logit(xp.astype(S, xp.float64))
    last = like(prior[label], Z)
    return xp.stack([xp.ones_like(last), *Z, last], axis=1), q


def judge(
    split: Split, fitted: Fitted, weights: np.ndarray, leader: int, left_out: bool = True
) -> tuple[Split, float]:
    """New probabilities; of all rows also the log-odds, and the cross-entropy of the soft labels.

    Parameters
    ----------
    left_out : bool
        Whether the label stack was fitted to these rows.
    """
    c, experts, stack = split.train.candidates, [*split.S], fitted.stack
    if stack is not None:
        S = stack.stack.scores(experts[leader])
        experts.append(leave_out(S, split.q, c, stack.factors(experts[leader])) if left_out else S)
    z = combine(weights, experts, fitted.prior)
    split = split._replace(p=probability(take(z, c.flat)), S=None, S_held=None)
    if split.held is not None:
        return split, 0.0
    return split._replace(S=z), cross_entropy(z, split.q, c)


def judge_and_soften(
    split: Split, message: tuple[Fitted, NoiseModel], weights: np.ndarray, leader: int
) -> tuple[Split, tuple[float, SoftSums]]:
    """The last step of a round and the first one of the next."""
    split, loss = judge(split, message[0], weights, leader)
    split, sums = soften(split, message[1])
    return split, (loss, sums)


class SieveResult(NamedTuple):
    """Ridges of the experts, pool, noise model, and a trace of the rounds."""

    ridges: list[tuple[Array, Array | None]]
    lams: list[float]
    pool: Pool
    noise: NoiseModel
    rates: np.ndarray
    """Estimated rate of false labels after each round."""
    objective: np.ndarray
    """Mean cross-entropy of the soft labels per round."""
    problem: Problem

    @property
    def log_odds(self) -> np.ndarray:
        """Leave-one-out log-odds (n, l) of all rows."""
        return np.concatenate(self.problem.gather(log_odds))

    @property
    def Q(self) -> np.ndarray:
        """Posterior (n, l) of the candidates, 0 elsewhere."""
        return np.concatenate([Q.toarray() for Q in self.soft_labels()])

    def soft_labels(self) -> list[sp.csr_array]:
        """Posterior of the candidates as one CSR array per block, with all candidates stored."""
        return self.problem.gather(
            soft_labels, self.noise._replace(rate=float(np.mean(self.noise.rate)))
        )

    def scores(self, X: Array) -> Array:
        """Pooled log-odds of new rows, given their features."""
        return self.pool.log_odds([X @ W if b is None else X @ W + b for W, b in self.ridges])


def solve(
    problem: Problem,
    *,
    kernel: str,
    lam: float | None,
    trusting: bool,
    max_iter: int,
    rng: np.random.RandomState,
    known: bool = False,
) -> SieveResult:
    """Choose the ridge weights and run the rounds.

    Parameters
    ----------
    kernel, lam, max_iter
        As in `schirn.Sieve`.
    trusting : bool
        Take every candidate as true.
    known : bool
        Condition on the known labels of the rows.
    """
    stage("choosing the ridge weights")
    options: dict[str, Any] = {"kernel": kernel, "lam": lam, "trusting": trusting}
    lams = remembered("lams", lambda: choose_lams(problem, **options))
    if trusting:
        return trusting_ridge(problem, lams[0])
    result = sieve(problem, lams, max_iter=max_iter, rng=rng)
    return condition_on_known(result) if known else result


def sieve(
    problem: Problem,
    lams: Sequence[float],
    *,
    start: int = -1,
    label_correlations: bool = True,
    max_iter: int = 8,
    rng: np.random.RandomState,
) -> SieveResult:
    """Alternate between the posterior of the candidates and ridges on the soft labels.

    Parameters
    ----------
    problem : Problem
    lams : sequence of float
        Ridge weights of the experts.
    start : int
        The expert that makes the first scores.
    label_correlations : bool
        Use the label stack.
    """
    l, sizes = problem.n_labels, [spectrum.n for spectrum in problem.spectra]
    correlated = label_correlations and 1 < l <= MOST_STACKED
    noises = first_round(problem, lams, range(len(lams))[start])
    own = np.clip(problem.rates, *RATES) if isinstance(problem.rates, np.ndarray) else None
    n_experts = len(lams) + correlated
    equal = np.concatenate([[0.0], np.full(n_experts, 1 / n_experts), [0.0]])
    weights = equal
    rates: list[float] = []
    objective: list[float] = []
    true: list[float] = []
    rounds = Rounds(max_iter)
    if rounds.state is not None:
        models, p, weights, rates, objective, true, state = rounds.state
        noises = [NoiseModel(*model) for model in models]
        problem.restore(p)
        rng.set_state(tuple(state))
    sums = problem.each(soften, noises)
    for n_iter in track(rounds.left(), "round", before=rounds.done):
        leader = int(np.argmax(weights[1 : 1 + len(lams)])) if n_iter > 1 else len(lams) // 2
        true.append(float(sums[0].soft.sum()))
        if problem.rates is None and collapsed(true):
            return only_guess(problem, lams[-1], np.array(rates), np.array(objective))
        noises = [
            update_noise(s.noise, m, problem.rates) for s, m in zip(sums, noises, strict=True)
        ]
        pairs = [(s.soft, n) for s, n in zip(sums, sizes, strict=True)]
        priors = [logit(np.clip(soft / n, MARGIN, 1 - MARGIN)) for soft, n in pairs]
        inputs = problem.each(score, problem.ridges(sums, lams), leader, correlated)
        stacks = [
            fit_stack(total, *pair) if correlated else None
            for total, pair in zip(inputs, pairs, strict=True)
        ]
        fitted = [Fitted(*model) for model in zip(noises, priors, stacks, strict=True)]
        if n_iter > 1 and problem.drawn:
            weights = fit_pool(problem, fitted, leader, weights, equal, rng)
        if n_iter < max_iter:
            both = list(zip(fitted, noises, strict=True))
            found = problem.each(judge_and_soften, both, weights, leader)
            losses, sums = (list(values) for values in zip(*found, strict=True))
        else:
            losses = problem.each(judge, fitted, weights, leader)
        rates.append(float(noises[0].rate) if own is None else float(own.mean()))
        objective.append(losses[0] / (sizes[0] * l))
        if rounds.due(n_iter):
            now = noises, problem.probabilities(), weights, rates, objective, true
            rounds.save(n_iter, (*now, rng.get_state()))
    stack = None if stacks[0] is None else stacks[0].stack
    pool = Pool(weights, priors[0], leader, stack)
    noise = noises[0] if own is None else noises[0]._replace(rate=own)
    trace = np.array(rates), np.array(objective)
    ridges = problem.ridges([sums[0], *[None] * (len(sums) - 1)], lams, exact=True)[0]
    return SieveResult(_in_memory(ridges), list(lams), pool, noise, *trace, problem)


def _in_memory(ridges: Sequence[tuple[Array, Any]]) -> list[tuple[np.ndarray, Any]]:
    return [(to_numpy(W), None if b is None else to_numpy(b)) for W, b in ridges]


def probabilities(splits: Sequence[Split]) -> list[np.ndarray]:
    """Probabilities of the candidates of each split."""
    # A copy: rows in files share buffers, which the next block fills.
    return [to_numpy(split.p).copy() for split in splits]


def with_probabilities(split: Split, p: np.ndarray) -> tuple[Split, None]:
    """A split with other probabilities of the candidates."""
    return split._replace(p=like(p, split.p)), None


def first_round(problem: Problem, lams: Sequence[float], first: int) -> list[NoiseModel]:
    """First probabilities from a ridge on the candidates, and the first noise models."""
    stage("scoring the candidates for the first time")
    counts = problem.each(count, [None] * len(problem.spectra))
    ridges = problem.ridges(counts, lams[first : first + 1])
    messages = list(zip(problem.spectra, ridges, strict=True))
    outside = problem.each(first_scores, messages, lams, first)
    # Outside the candidates nothing is listed: scores there are the rate of false labels.
    rates = [s.total / s.number if s.number else 0.5 for s in outside]
    if isinstance(problem.rates, float):
        rates = [problem.rates] * len(outside)
    rates = [float(np.clip(rate, *RATES)) for rate in rates]
    problem.each(first_probabilities, rates)
    return [NoiseModel.independent(rate, problem.n_labels) for rate in rates]


def condition_on_known(result: SieveResult) -> SieveResult:
    """Run a few more rounds on all rows, conditioned on the known labels.

    Before every posterior the probability of a known label is put next to 1 or 0, so that its row,
    similar rows and correlated labels learn from it. A wrong candidate still counts as listed. The
    pool stays as it is.
    """
    problem, pool, noise = result.problem, result.pool, result.noise
    problem.keep_first()
    stack = None if pool.stack is None else FittedStack(pool.stack, np.zeros((0, 0)), 0)
    for _ in range(KNOWN_ROUNDS):
        (sums,) = problem.each(soften, [noise], True)
        noise = update_noise(sums.noise, noise, problem.rates)
        problem.each(score, problem.ridges([sums], result.lams), pool.leader, False)
        fitted = Fitted(noise, pool.prior, stack)
        problem.each(judge, [fitted], pool.weights, pool.leader, False)
    (ridges,) = problem.ridges([sums], result.lams, exact=True)
    return result._replace(ridges=_in_memory(ridges), noise=noise)


def only_guess(problem: Problem, lam: float, *trace: np.ndarray) -> SieveResult:
    """The first guess as a result: a ridge on the candidates, and the rate outside them."""
    problem.keep_first()
    (noise,) = first_round(problem, [lam], 0)
    rate = float(noise.rate)
    result = trusting_ridge(problem, lam, rate)
    ((W, b),) = result.ridges
    W, last = W / (1 - rate), rate / (1 - rate)
    if b is None:
        W[-1] -= last
    else:
        b = b / (1 - rate) - last
    rates, objective = trace
    return result._replace(ridges=[(W, b)], noise=noise, rates=rates, objective=objective)


def trusting_ridge(problem: Problem, lam: float, rate: float = 0.0) -> SieveResult:
    """One ridge on the candidates as they are; false labels are listed at the given rate."""
    problem.keep_first()
    counts, l = problem.each(count, [None]), problem.n_labels
    messages = list(zip(problem.spectra, problem.ridges(counts, [lam]), strict=True))
    (loss,) = problem.each(trust, messages, lam, rate)
    (ridges,) = problem.ridges(counts, [lam], exact=True)
    pool = Pool(np.array([0.0, 1.0, 0.0]), np.zeros(l), 0, None)
    trace = np.zeros(1), np.array([loss / (problem.spectra[0].n * l)])
    noise = NoiseModel.independent(MARGIN, l)
    return SieveResult(_in_memory(ridges), [lam], pool, noise, *trace, problem)


def trust(
    split: Split, message: tuple[Spectrum, Any], lam: float, rate: float
) -> tuple[Split, float]:
    """Leave-one-out log-odds of one ridge, and the squared error of its leave-one-out scores."""
    (spectrum, ridges), c = message, split.train.candidates
    (S,) = ridge_scores(split.train.X, ridges)
    factors = 1 / (1 - spectrum.leverages(split.train.X, [lam]))
    S = leave_out(S, split.q, c, factors[0])
    z = soft_logit((S - rate) / (1 - rate))
    if rate > 0:
        split = split._replace(p=probability(take(z, c.flat)))
    return split._replace(S=z), squared_error(S, c)


def soft_labels(splits: Sequence[Split], noise: NoiseModel) -> sp.csr_array:
    """Posterior (n, l) of the candidates, rows in the order of their index."""
    rows, p = splits[0].train, splits[0].p
    c = rows.candidates
    known = rows.known is not None
    q = known_posterior(rows, p, noise) if known else posterior(rows, p, noise).q
    cells = to_numpy(q), to_numpy(c.label), c.indptr
    return sp.csr_array(cells, shape=c.shape)[np.argsort(rows.indices)]


def log_odds(splits: Sequence[Split]) -> np.ndarray:
    """Log-odds (n, l) of all labels, rows in the order of their index."""
    return to_numpy(splits[0].S)[np.argsort(splits[0].train.indices)]


def take(S: Array, flat: Array) -> Array:
    """Entries of an (n, l) array at flat positions."""
    xp = namespace(S)
    return xp.take(xp.reshape(S, (-1,)), flat, axis=0)


def cross_entropy(z: Array, q: Array, c: Candidates) -> float:
    """Sum of -Q log P - (1 - Q) log(1 - P) over all cells, for the probabilities P of z."""
    xp = namespace(z)
    most = float(logit(1 - MARGIN))
    z = xp.clip(z, -most, most)
    # log(1 + exp(z)), and for the candidates minus q z.
    total = double_sum(xp.log(1 + xp.exp(-abs(z)))) + double_sum(xp.clip(z, 0, None))
    return total - double_sum(q * take(z, c.flat))


def squared_error(S: Array, c: Candidates) -> float:
    """||S - Y||_F^2."""
    return double_sum(S * S) - 2 * double_sum(take(S, c.flat)) + c.size


def double_sum(values: Array) -> float:
    """Sum in double precision."""
    xp = namespace(values)
    return float(xp.sum(values, dtype=xp.float64))

"""Find wrong tags among very many labels: only listed cells and a sample of the others are scored.

Nothing here has a row for each row of the table and a column for each label. With c tags, l labels
and k sampled cells per label, memory and time grow with c + k l, whatever the engine needs besides.

1. Half of the rows teach an engine, which scores cells of the other half: all listed ones, and for
   each label some rows that do not list it. Then the halves change places.
2. If wrong tags are listed regardless of the features, half of them score below the median of the
   rows that do not list the label, and hardly any correct tag does. So the share w of wrong tags
   is twice the share of the tags below it. Labels with few tags share an estimate.
3. The density of the scores of listed cells, divided by that of the others, is w + (1 - w) h, where
   h is the ratio of correct to wrong tags. Isotonic regression yields it, for all labels at once.
   The odds of a tag are h (1 - w) / w, with the w of its label.
4. The number of wrong tags per row follows the count law of `schirn.noise.model`, which lets the
   tags of a row inform each other.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from schirn._checkpoint import kept_in, remembered, section
from schirn._input import Number, check_values
from schirn._progress import shown, stage, track
from schirn.cleaning.find import MIN_COUNT, known_cells, prepare
from schirn.cleaning.found import NoisyLabels
from schirn.cleaning.groups import group_numbers, with_copies
from schirn.cleaning.trust import MAX_PLANTED, Planted
from schirn.cleaning.verdicts import PRECISION, Verdicts, decide
from schirn.exceptions import InputError
from schirn.labels.tags import Tags, read_tags
from schirn.linalg.arrays import is_device_array, release, row_pieces, to_numpy
from schirn.noise.model import NoiseModel, cell_blocks, cell_posterior, count_tilt
from schirn.scale.memory import large_array
from schirn.scale.row_file import RowFile

Array = np.ndarray
Fit = Callable[[Any, sp.csr_array], Any]
Score = Callable[[Any, Any, Array, Array], Any]

CENTROIDS = "label centroids"
"""What the default engine is called."""
_ROUNDS = 6
# Cells of a block of centroids, and entries of the rows that are multiplied with them at a time.
_BLOCK_CELLS = 4_000_000
# The smallest ratio of correct to wrong tags that a score stands for; the largest is its inverse.
_LEAST_RATIO = 1e-3
# A label is never taken to be all wrong or all right.
_LEAST_SHARE = 0.01
# Hardly any correct tag scores as low as this share of the unlisted cells.
_LOWEST = 0.1
# A correct tag stands out if it scores above this share of the unlisted cells. If fewer correct
# tags than the first share do, nothing is removed; from the second on, verdicts count in full.
# Chosen, with the truth known, on EUR-Lex with all, 300 and 30 of its features and with shuffled
# rows, and on two generated sets.
_HIGHEST = 0.95
_STAND_OUT = 0.3, 0.7
_TRIES = 30
# Cells of the posteriors of all planted tags; a row has the square of its number of tags.
_MAX_CELLS = 20_000_000
# Even sure tags are sometimes replaced by planted ones.
_SELDOM = 1e-3


def find_noisy_labels_sparse(
    X: Any,
    candidates: Any,
    *,
    fit: Fit | None = None,
    score: Score | None = None,
    n_unlisted: int = 20,
    threshold: float = 0.5,
    max_remove_per_row: int | None = None,
    precision: float | None = PRECISION,
    keep_one: bool = True,
    known_clean: Any = None,
    groups: Any = None,
    min_count: int = MIN_COUNT,
    label_names: Sequence[str] | None = None,
    random_state: int | None = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> NoisyLabels:
    """Find wrong tags among very many labels, without any array of rows x labels.

    For thousands of labels and more. With fewer, `find_noisy_labels` finds more, because it learns
    how labels occur together. No row influences its own verdicts: the tags of one half of the rows
    are judged by an engine that has learned from the other half. Rows with equal features are
    taken as copies and stay together.

    Parameters
    ----------
    X : (n, d) array, CSR matrix or DataFrame of numbers, or sequence of n texts
        Features of the rows. Those of a `numpy.memmap` or a `schirn.scale.RowFile` stay in their
        file; half of them is copied to a temporary file if it does not fit into memory.
    candidates : (n, l) sparse matrix or 0/1 array, or sequence of n lists of names
        Tags of the rows.
    fit : function from (X, candidates) to a model, optional
        Trains an engine on some rows; `candidates` is a 0/1 CSR array that has all labels. None
        compares each row with the mean of the rows that list the label.
    score : function from (model, X, rows, labels) to scores, optional
        Score of row `rows[k]` of X for label `labels[k]`, for all k: the higher, the more likely
        the label is correct. Scores should be comparable between labels. Cells that the engine
        leaves out, such as those outside its best hundred, may all get the same low score. It is
        called with all rows of X, but only with cells of those that the model has not seen.
    n_unlisted : int, default=20
        Number of rows without the label that are scored for each label.
    threshold : float, default=0.5
        A tag is removed when its probability of being correct is below this value.
    max_remove_per_row : int, optional
        Remove at most this many tags per row, least likely first.
    precision : float, optional
        Share of the removals that should be right, by planted tags. Tags below the threshold are
        kept if their removal cannot be expected to reach it. None removes every tag below the
        threshold.
    keep_one : bool, default=True
        Whether a row that would lose all its tags keeps the most likely one.
    known_clean : (n,) bool array, optional
        Rows that were checked: their tags are kept with confidence 1. Nothing is learned from it.
    groups : sequence of n values, optional
        Rows with the same value stay together, as copies do. A row with a missing value is a group
        of its own.
    min_count : int, default=5
        A tag listed in fewer rows than this, in all of them, or in no row of the other half is not
        judged: it is kept with confidence 0.5 and the verdict "unjudged".
    label_names : sequence of str, optional
        Names of the columns of `candidates`, if it has none.
    random_state : int, default=0
        Seed of the halves, of the sampled cells and of the planted tags.
    checkpoint : path, optional
        Folder for the scores of the first half, so that a run that was killed goes on there if it
        is started again with the same data and parameters. When it is done, it is removed.
    verbose : bool, default=False
        Show stage, half, share done and time left on stderr.

    Returns
    -------
    NoisyLabels
        Its `clean_sparse` holds the remaining tags as a CSR array; `clean` and `matrix` are dense.

    Examples
    --------
    >>> from schirn.cleaning import find_noisy_labels_sparse
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(
    ...     n_samples=400, n_features=30, n_labels=40, cardinality=2, r=2, random_state=0
    ... )
    >>> found = find_noisy_labels_sparse(data.X, data.candidates)
    >>> found.n_rows, found.clean_sparse.shape
    (400, (400, 40))
    """
    if (fit is None) != (score is None):
        missing = "score" if score is None else "fit"
        raise InputError("fit and score belong together: give both or neither", parameter=missing)
    Number(1, integer=True).check("n_unlisted", n_unlisted)
    Number(high=1).check("threshold", threshold)
    Number(integer=True, none=True).check("max_remove_per_row", max_remove_per_row)
    Number(high=1, none=True).check("precision", precision)
    Number(1).check("min_count", min_count)
    tags = read_tags(candidates, label_names)
    if not len(tags.row):
        raise InputError("no row has a tag, so there is nothing to clean")
    X = prepare(X, None)[0]
    X = to_numpy(X) if is_device_array(X) else X.mapped() if isinstance(X, RowFile) else X
    if len(X.shape) != 2 or X.shape[0] != tags.n_rows:
        raise InputError(f"X has shape {X.shape}, but there are tags for {tags.n_rows} rows")
    check_values(X)
    # Sorted by row and label; a tag that is listed twice is one tag.
    order = np.unique(tags.row * len(tags.names) + tags.column)
    tags = tags._replace(row=order // len(tags.names), column=order % len(tags.names))
    certain = known_cells(None, known_clean, tags)
    together = None if groups is None else group_numbers(groups, tags.n_rows)
    rng = np.random.default_rng(random_state)
    engine = (fit_centroids, score_centroids) if fit is None or score is None else (fit, score)
    options: dict[str, Any] = {"min_count": min_count, "n_unlisted": n_unlisted}
    options["seed"] = random_state
    options["engine"] = [getattr(each, "__qualname__", repr(each)) for each in engine]
    with (
        kept_in(checkpoint),
        shown(f"judging {len(tags.row):,} tags", verbose),
        section("find_noisy_labels_sparse", options, X, tags.row, tags.column, together),
    ):
        cells = _scored(X, tags, together, engine, min_count, n_unlisted, rng)
        stage("posterior")
        law = _law(cells, tags)
        confidence = np.where(cells.judged, law.q, 0.5)
        stage("judging planted tags")
        planted = _plant(law, cells, tags, rng)
    share = law.share if cells.judged.any() else None
    return decide(
        tags,
        Verdicts(
            confidence,
            cells.judged,
            {} if share is None else {"wrong_share": share},
            None,
            np.nan,
            planted,
            min(law.cautious_share, law.share),
        ),
        certain,
        method=CENTROIDS if fit is None else getattr(fit, "__name__", "engine"),
        threshold=threshold,
        precision=precision,
        max_remove_per_row=max_remove_per_row,
        keep_one=keep_one,
    )


class Cells(NamedTuple):
    """Scores of the tags and of sampled cells that are not listed."""

    judged: Array
    """Whether each tag can be judged; the others have score 0."""
    listed: Array
    row: Array
    column: Array
    unlisted: Array
    """Row, label and score of the sampled cells, sorted by label."""


def _scored(
    X: Any,
    tags: Tags,
    together: Array | None,
    engine: tuple[Fit, Score],
    min_count: int,
    n_unlisted: int,
    rng: np.random.Generator,
) -> Cells:
    """Score each half of the rows by an engine that has learned from the other."""
    n, l = tags.shape
    stage("looking for copies")
    groups = with_copies(X, tags, together)
    groups = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    half = (rng.permutation(int(groups.max()) + 1) % 2)[groups]
    columns = np.flatnonzero((tags.counts >= min_count) & (tags.counts < n))
    row, column = _sample(tags, columns, n_unlisted, rng)
    judged, known = np.zeros(len(tags.row), dtype=bool), np.zeros(len(row), dtype=bool)
    listed, unlisted = np.zeros(len(tags.row)), np.zeros(len(row))
    fit, score = engine
    for side in track(range(2), "half"):
        train = np.flatnonzero(half != side)
        taught = half[tags.row] != side
        # Judged: frequent enough, and seen by the engine.
        able = np.zeros(l, dtype=bool)
        able[columns] = np.bincount(tags.column[taught], minlength=l)[columns] > 0
        mine = np.flatnonzero(~taught & able[tags.column])
        sampled = np.flatnonzero((half[row] == side) & able[column])
        if not len(mine):
            continue
        position = np.cumsum(half != side) - 1
        own = position[tags.row[taught]], tags.column[taught]
        Y = sp.csr_array((np.ones(len(own[0]), np.uint8), own), shape=(len(train), l))
        rows = np.r_[tags.row[mine], row[sampled]]
        labels = np.r_[tags.column[mine], column[sampled]]

        def scores(train: Array = train, Y: Any = Y, rows: Array = rows, of: Array = labels) -> Any:
            found = score(fit(_taken(X, train), Y), X, rows, of)
            return np.asarray(found, dtype=np.float64)

        found = remembered(f"half-{side}", scores)
        if found.shape != rows.shape or not np.isfinite(found).all():
            raise InputError(
                f"score must return {len(rows):,} finite numbers, one per cell, but returned an "
                f"array of shape {found.shape}"
                + (" with NaN or infinity" if found.shape == rows.shape else ""),
                parameter="score",
            )
        listed[mine], unlisted[sampled] = found[: len(mine)], found[len(mine) :]
        judged[mine], known[sampled] = True, True
    # Without a single cell to compare with, a tag cannot be judged.
    judged &= (np.bincount(column[known], minlength=l) > 0)[tags.column]
    return Cells(judged, np.where(judged, listed, 0), row[known], column[known], unlisted[known])


def _taken(X: Any, rows: Array) -> Any:
    """Some rows of X; those of a file may lie in a file again."""
    if not isinstance(X, np.memmap):
        return X[rows]
    out = large_array((len(rows), X.shape[1]), X.dtype)
    step = max(1, _BLOCK_CELLS // X.shape[1])
    for i in range(0, len(rows), step):
        some = rows[i : i + step]
        out[i : i + step] = X[some]
        release(X[some[0] : some[-1] + 1])
        release(out[i : i + step])
    return out


def _sample(
    tags: Tags, columns: Array, count: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Rows that do not list a label, `count` draws with replacement for each of `columns`."""
    n, l = tags.shape
    taken = tags.row * l + tags.column
    column = np.repeat(columns, count)
    row = rng.integers(n, size=len(column))

    def is_listed(which: Array) -> Array:
        cell = row[which] * l + column[which]
        return np.asarray(taken[np.searchsorted(taken, cell).clip(max=len(taken) - 1)] == cell)

    again = np.arange(len(row))
    for _ in range(_TRIES):
        again = again[is_listed(again)]
        row[again] = rng.integers(n, size=len(again))
    free = np.ones(len(row), dtype=bool)
    free[again] = ~is_listed(again)
    return row[free], column[free]


class Law(NamedTuple):
    """What the scores say about tags, and the posterior of all tags."""

    q: Array
    share: float
    """Share of wrong tags, by the median of the unlisted cells."""
    cautious_share: float
    """The same, by their lowest scores, and less if correct tags do not stand out."""
    shares: Array
    """Share of wrong tags of each label."""
    p: Array
    """Probability of each tag before the tags of its row are considered."""
    p_unlisted: Array
    """The same of the sampled cells, as if they were listed."""
    model: NoiseModel


def _law(cells: Cells, tags: Tags) -> Law:
    """Estimate how many tags of each label are wrong, and compute the posterior of all tags."""
    n, l = tags.shape
    listed, column = cells.listed[cells.judged], tags.column[cells.judged]
    counts = np.bincount(column, minlength=l)
    share, shares = wrong_shares(listed, column, cells.unlisted, cells.column, l)
    # Each label has as much weight among the unlisted cells as among the tags.
    sampled = np.bincount(cells.column, minlength=l)
    weight = (counts / np.maximum(sampled, 1))[cells.column]
    ratio = _ratio(listed, cells.unlisted, weight, share)
    cautious = _cautious_share(listed, cells.unlisted, weight)
    # Rate at which rows without the label list it all the same, for each label and for all.
    wrong = shares * tags.counts
    rates = np.clip(wrong / np.maximum(n - tags.counts + wrong, 1), 1e-9, 0.99)
    rate = float(np.clip(wrong.sum() / max(n * l - len(tags.row) + wrong.sum(), 1), 1e-9, 0.99))

    def before(h: Array, label: Array) -> Array:
        """Probability before a cell is known to be listed."""
        odds = np.log(h) + logit(1 - shares[label]) + np.log(rates[label])
        return np.asarray(expit(odds))

    h = np.ones(len(tags.row))
    h[cells.judged] = ratio(listed)
    p = before(h, tags.column)
    indptr = np.searchsorted(tags.row, np.arange(n + 1))
    model, blocks = NoiseModel(rate, np.zeros(l + 1), np.log(rates / rate)), cell_blocks(indptr)
    for _ in range(_ROUNDS):
        found = cell_posterior(p, indptr, tags.column, l, model, blocks)
        tilt = count_tilt(found.noise_counts, found.true_counts, rate)
        model = model._replace(tilt=tilt)
    q = cell_posterior(p, indptr, tags.column, l, model, blocks).q
    p_unlisted = before(ratio(cells.unlisted), cells.column)
    return Law(q, share, cautious, shares, p, p_unlisted, model)


def wrong_shares(
    listed: Array, column: Array, unlisted: Array, unlisted_column: Array, n_labels: int
) -> tuple[float, Array]:
    """Share of wrong tags among all tags, and of each label.

    Twice the share of the tags below the median of the unlisted cells of their label; a tag at the
    median counts half. Labels are pulled towards the common share by as much as chance explains
    their differences.

    Parameters
    ----------
    listed, column : ndarray
        Score and label of the tags.
    unlisted, unlisted_column : ndarray
        Score and label of the cells that are not listed, sorted by label.
    n_labels : int
    """
    if not len(listed):
        return 0.5, np.full(n_labels, 0.5)
    order = np.lexsort((unlisted, unlisted_column))
    ends = np.searchsorted(unlisted_column[order], np.arange(n_labels + 1))
    first, size = ends[:-1], np.maximum(np.diff(ends), 1)
    ordered = np.r_[unlisted[order], 0.0]
    median = (ordered[first + (size - 1) // 2] + ordered[first + size // 2]) / 2
    below = (listed < median[column]) + 0.5 * (listed == median[column])
    counts = np.bincount(column, minlength=n_labels)
    sums = np.bincount(column, below, minlength=n_labels)
    mean = float(below.mean())
    spread = max(mean * (1 - mean), 1e-9)
    several = counts > 1
    # Variance between labels, by moments: what is left of it after the variance of a coin toss.
    excess = ((sums - mean * counts) ** 2 - counts * spread)[several] / counts[several]
    between = float(excess.sum() / max((counts[several] - 1).sum() * spread, 1e-9))
    pull = 1 / np.clip(between, 1e-4, 1.0) - 1
    each = 2 * (sums + pull * mean) / np.maximum(counts + pull, 1e-9)
    each[counts == 0] = 2 * mean
    limits = _LEAST_SHARE, 1 - _LEAST_SHARE
    return float(np.clip(2 * mean, *limits)), np.clip(each, *limits)


def _ratio(listed: Array, unlisted: Array, weight: Array, share: float) -> Callable[[Array], Array]:
    """The ratio h of the densities of correct and wrong tags as a rising function of the score."""
    if not len(listed):
        return np.ones_like
    # Here, since most programs that import the library have few labels.
    from sklearn.isotonic import IsotonicRegression

    scores, is_listed = np.r_[listed, unlisted], np.zeros(len(listed) + len(unlisted))
    is_listed[: len(listed)] = 1
    found = IsotonicRegression(y_min=1e-6, y_max=1 - 1e-6, out_of_bounds="clip").fit(
        scores, is_listed, sample_weight=np.r_[np.ones(len(listed)), np.maximum(weight, 1e-9)]
    )

    def ratio(score: Array) -> Array:
        p = found.predict(score)
        h = (p / (1 - p) - share) / (1 - share)
        return np.asarray(np.clip(h, _LEAST_RATIO, 1 / _LEAST_RATIO), dtype=np.float64)

    return ratio


def _cautious_share(listed: Array, unlisted: Array, weight: Array) -> float:
    """Share of wrong tags if no correct tag scores as low as the lowest tenth of the others.

    Tags that look like all other cells may be wrong, or correct with features that do not show it.
    So the share counts in full only if most correct tags stand out from the unlisted cells.
    """
    if not weight.sum():
        return 0.0
    order = np.argsort(unlisted)
    ordered, mass = unlisted[order], np.cumsum(weight[order]) / weight.sum()
    low, high = (
        ordered[min(int(np.searchsorted(mass, at)), len(order) - 1)] for at in (_LOWEST, _HIGHEST)
    )
    share = (listed <= low).mean() * weight.sum() / weight[unlisted <= low].sum()
    share = float(min(share, 1 - _LEAST_SHARE))
    top = float(weight[unlisted > high].sum() / weight.sum())
    stand_out = ((listed > high).mean() - share * top) / (1 - share)
    none, most = _STAND_OUT
    return share * float(np.clip((stand_out - none) / (most - none), 0, 1))


def _plant(law: Law, cells: Cells, tags: Tags, rng: np.random.Generator) -> Planted:
    """Judge sampled cells as if they were listed in the place of a tag that is probably wrong."""
    l = len(tags.names)
    wrong = np.where(cells.judged, _SELDOM + 1 - law.q, 0)
    total = np.r_[0.0, np.cumsum(wrong)]
    indptr = np.searchsorted(tags.row, np.arange(tags.n_rows + 1))
    low, high = total[indptr[cells.row]], total[indptr[cells.row + 1]]
    # Labels are planted as often as they are listed wrongly.
    sampled = np.maximum(np.bincount(cells.column, minlength=l), 1)
    weight = np.where(high > low, (law.shares * tags.counts / sampled)[cells.column], 0)
    if not weight.sum():
        return Planted.none()
    cost = float((np.diff(indptr).astype(float) ** 2).sum() / len(tags.row))
    most = min(MAX_PLANTED, len(tags.row), max(1, int(_MAX_CELLS / cost)))
    k = rng.choice(len(weight), most, p=weight / weight.sum())
    target = low[k] + rng.random(len(k)) * (high[k] - low[k])
    tag = np.searchsorted(total, target, side="right") - 1
    tag = np.clip(tag, indptr[cells.row[k]], indptr[cells.row[k] + 1] - 1)
    # Rows of the planted tags, one after the other, with one tag exchanged.
    first, size = indptr[cells.row[k]], np.diff(indptr)[cells.row[k]]
    starts = np.r_[0, np.cumsum(size)]
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], size)
    source = np.repeat(first, size) + within
    p, label = law.p[source], tags.column[source]
    at = starts[:-1] + tag - first
    p[at], label[at] = law.p_unlisted[k], cells.column[k]
    found = cell_posterior(p, starts, label, l, law.model).q[at]
    return Planted(tag, cells.column[k], found)


class Centroids(NamedTuple):
    """The default engine: rows that have been seen, and how they make the mean of each label."""

    X: Any
    weights: sp.csr_array
    """(l, n): each row that lists the label, divided by its length and by their number."""
    mean: Array
    """Mean of all rows of length one."""


def fit_centroids(X: Any, candidates: sp.csr_array) -> Centroids:
    """Prepare the means of the rows that list a label.

    Parameters
    ----------
    X : (n, d) array or CSR matrix
    candidates : (n, l) CSR array
    """
    inverse = 1 / np.maximum(_lengths(X), 1e-30)
    total = np.zeros(X.shape[1])
    for i, some in _row_blocks(X):
        total += np.asarray(inverse[i : i + some.shape[0]] @ some).ravel()
    counts = np.maximum(np.bincount(candidates.indices, minlength=candidates.shape[1]), 1)
    weights = sp.csr_array(candidates.T).astype(np.float32)
    weights.data = (inverse[weights.indices] / np.repeat(counts, np.diff(weights.indptr))).astype(
        np.float32
    )
    return Centroids(X, weights, total / X.shape[0])


def score_centroids(model: Centroids, X: Any, rows: Array, labels: Array) -> Array:
    """Cosine between a row and the mean of its label, both without what all rows have in common.

    The score is (x'm - x'g) / |m - g| for a row x of length one, the mean m of the rows that list
    the label and the mean g of all; it is 0 if the two means are equal.

    Parameters
    ----------
    model : Centroids
    X : (n, d) array or CSR matrix
    rows, labels : ndarray
        The cells to score.
    """
    lengths = np.maximum(_lengths(X), 1e-30)
    g = model.mean
    common = np.concatenate([np.asarray(some @ g).ravel() for _, some in _row_blocks(X)])
    order = np.argsort(labels, kind="stable")
    distinct, starts = np.unique(labels[order], return_index=True)
    ends = np.r_[starts[1:], len(order)]
    n_features = X.shape[1]
    sizes = np.diff(X.indptr) if sp.issparse(X) else np.full(X.shape[0], n_features)
    step = max(1, _BLOCK_CELLS // max(n_features, 1))
    scores = np.zeros(len(rows))
    buffer = np.zeros((min(step, len(distinct)), n_features), dtype=np.float32)
    for first in track(range(0, len(distinct), step), "block of labels"):
        some = distinct[first : first + step]
        M = model.weights[some] @ model.X
        if sp.issparse(M):
            # Only entries that are not zero are written, and cleared afterwards.
            line = np.repeat(np.arange(len(some)), np.diff(M.indptr))
            squares = np.bincount(line, M.data.astype(np.float64) ** 2, minlength=len(some))
            buffer[line, M.indices] = M.data
            dense = buffer
        else:
            dense, line = np.asarray(M), None
            squares = np.einsum("ij,ij->i", dense, dense, dtype=np.float64)
        off = squares - 2 * np.asarray(M @ g).ravel() + g @ g
        far = off > 1e-9 * (squares + g @ g)
        norm = np.sqrt(np.where(far, off, 1))
        cells = order[starts[first] : ends[min(first + step, len(distinct)) - 1]]
        for piece in _pieces(sizes[rows[cells]], _BLOCK_CELLS):
            k = cells[piece]
            place = np.searchsorted(some, labels[k])
            x = X[rows[k]]
            if sp.issparse(x):
                of = np.repeat(np.arange(len(k)), np.diff(x.indptr))
                products = dense[place[of], x.indices] * x.data
                dots = np.bincount(of, products, minlength=len(k))
            else:
                dots = np.einsum("ij,ij->i", x, dense[place])
            found = (dots - common[rows[k]]) / (norm[place] * lengths[rows[k]])
            scores[k] = np.where(far[place], found, 0)
        if line is not None:
            buffer[line, M.indices] = 0
    return scores


def _lengths(X: Any) -> Array:
    """Euclidean length of each row."""
    if not sp.issparse(X):
        squares = (
            np.einsum("ij,ij->i", some, some, dtype=np.float64) for _, some in _row_blocks(X)
        )
        return np.sqrt(np.concatenate(list(squares)))
    line = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return np.sqrt(np.bincount(line, X.data.astype(np.float64) ** 2, minlength=X.shape[0]))


def _row_blocks(X: Any) -> Iterator[tuple[int, Any]]:
    """First row and rows of each block: products in double precision copy no more than that."""
    if sp.issparse(X):
        return iter([(0, X)])
    return row_pieces(X, max(1, _BLOCK_CELLS // max(X.shape[1], 1)))


def _pieces(sizes: Array, most: int) -> Iterator[slice]:
    """Slices of consecutive cells whose rows have at most `most` entries, or of single cells."""
    total, first = np.cumsum(sizes), 0
    while first < len(sizes):
        done = total[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(total, done + most, side="right")))
        yield slice(first, last)
        first = last

"""Find wrong tags among very many labels: only listed cells and a sample of the others are scored.

Nothing here has a row for each row of the table and a column for each label. With c tags, l labels
and k sampled cells per label, memory and time grow with c + k l, whatever the engine needs besides.

1. Half of the rows teach an engine, which scores cells of the other half: all listed ones, and for
   each label some rows that do not list it. Then the halves change places.
2. `schirn.cleaning.shares` estimates the share w of wrong tags of each label from these scores.
3. The density of the scores of listed cells, divided by that of the others, is w + (1 - w) h, where
   h is the ratio of correct to wrong tags. Isotonic regression yields it, for each group of labels
   of similar frequency. The odds of a tag are h (1 - w) / w, with the w of its label.
4. The number of wrong tags per row follows the count law of `schirn.noise.model`, which lets the
   tags of a row inform each other.
5. Planted tags tell how many wrong tags are caught, and with the share of wrong tags and its error,
   how many removals should be right.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from schirn._checkpoint import kept_in, remembered, section
from schirn._input import Number, check_values
from schirn._progress import shown, stage, track
from schirn.cleaning.centroids import fit_centroids, score_centroids, taken
from schirn.cleaning.find import MIN_COUNT, known_cells, prepare
from schirn.cleaning.found import NoisyLabels
from schirn.cleaning.groups import group_numbers, with_copies
from schirn.cleaning.shares import Cells, Shares, wrong_shares
from schirn.cleaning.trust import MAX_PLANTED, ONE_SIDED, Planted
from schirn.cleaning.verdicts import PRECISION, Verdicts, decide
from schirn.exceptions import InputError
from schirn.labels.tags import Tags, read_tags
from schirn.linalg.arrays import is_device_array, to_numpy
from schirn.noise.model import NoiseModel, cell_blocks, cell_posterior, count_tilt
from schirn.scale.row_file import RowFile

Array = np.ndarray
Fit = Callable[[Any, sp.csr_array], Any]
Score = Callable[[Any, Any, Array, Array], Any]

CENTROIDS = "label centroids"
"""What the default engine is called."""
_ROUNDS = 6
# The smallest ratio of correct to wrong tags that a score stands for; the largest is its inverse.
_LEAST_RATIO = 1e-3
# A correct tag stands out if it scores above this share of the unlisted cells. If fewer correct
# tags than the first share do, nothing is removed; from the second on, verdicts count in full.
# Chosen, with the truth known, on EUR-Lex with all, 300 and 30 of its features and with shuffled
# rows, and on two generated sets.
_HIGHEST = 0.95
_STAND_OUT = 0.3, 0.7
# Frequent labels have more unlisted cells than others, but at most this many times as many.
_MOST_UNLISTED = 25
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
        Trains an engine on some rows; `candidates` is a 0/1 CSR array that has all labels. It is
        called twice for each half: the second time, frequent labels are thinned to a few rows, to
        find out how much of a rare label can be learned. None compares each row with the mean of
        the rows that list the label.
    score : function from (model, X, rows, labels) to scores, optional
        Score of row `rows[k]` of X for label `labels[k]`, for all k: the higher, the more likely
        the label is correct. Scores should be comparable between labels. Cells that the engine
        leaves out, such as those outside its best hundred, may all get the same low score. It is
        called with all rows of X, but only with cells of those that the model has not seen.
    n_unlisted : int, default=20
        Number of rows without the label that are scored for each label; labels with more tags than
        this have more.
    threshold : float, default=0.5
        A tag is removed when its probability of being correct is below this value.
    max_remove_per_row : int, optional
        Remove at most this many tags per row, least likely first.
    precision : float, optional
        Share of the removals that should be right, by planted tags and by a lower limit of the
        share of wrong tags. Tags below the threshold are kept if their removal cannot be expected
        to reach it. None removes every tag below the threshold.
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
        Folder for what has been scored, so that a run that was killed goes on there if it
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
        cells, scorer = _scored(X, tags, together, engine, min_count, n_unlisted, rng)
        shares = wrong_shares(X, tags, cells, scorer, fit is not None, rng)
        stage("posterior")
        law = _law(cells, tags, shares)
        confidence = np.where(cells.judged, law.q, 0.5)
        stage("judging planted tags")
        planted = _plant(law, cells, tags, shares.each, rng)
    return decide(
        tags,
        Verdicts(
            confidence,
            cells.judged,
            {"wrong_share": shares.total} if cells.judged.any() else {},
            None,
            np.nan,
            planted,
            _cautious_share(cells, tags, shares),
        ),
        certain,
        method=CENTROIDS if fit is None else getattr(fit, "__name__", "engine"),
        threshold=threshold,
        precision=precision,
        max_remove_per_row=max_remove_per_row,
        keep_one=keep_one,
    )


def _scored(
    X: Any,
    tags: Tags,
    together: Array | None,
    engine: tuple[Fit, Score],
    min_count: int,
    n_unlisted: int,
    rng: np.random.Generator,
) -> tuple[Cells, Callable[..., Array]]:
    """Score each half of the rows by an engine that has learned from the other.

    Also returns the function that does so, with any tags to learn and any cells to score.
    """
    n, l = tags.shape
    stage("looking for copies")
    groups = with_copies(X, tags, together)
    groups = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    half = (rng.permutation(int(groups.max()) + 1) % 2)[groups]
    fit, score = engine

    def scores(
        name: str, side: int, row: Array, column: Array, rows: Array, labels: Array
    ) -> Array:
        def compute() -> Any:
            train = np.flatnonzero(half != side)
            own = (np.cumsum(half != side) - 1)[row], column
            width = max(l, int(column.max(initial=0)) + 1)
            Y = sp.csr_array((np.ones(len(row), np.uint8), own), shape=(len(train), width))
            Y.sum_duplicates()
            Y.data[:] = 1
            return np.asarray(score(fit(taken(X, train), Y), X, rows, labels), dtype=np.float64)

        found = remembered(f"{name}-{side}", compute)
        if found.shape != rows.shape or not np.isfinite(found).all():
            raise InputError(
                f"score must return {len(rows):,} finite numbers, one per cell, but returned an "
                f"array of shape {found.shape}"
                + (" with NaN or infinity" if found.shape == rows.shape else ""),
                parameter="score",
            )
        return np.asarray(found)

    columns = np.flatnonzero((tags.counts >= min_count) & (tags.counts < n))
    row, column = _sample(tags, columns, n_unlisted, rng)
    judged, known = np.zeros(len(tags.row), dtype=bool), np.zeros(len(row), dtype=bool)
    listed, unlisted = np.zeros(len(tags.row)), np.zeros(len(row))
    for side in track(range(2), "half"):
        taught = half[tags.row] != side
        # Judged: frequent enough, and seen by the engine.
        able = np.zeros(l, dtype=bool)
        able[columns] = np.bincount(tags.column[taught], minlength=l)[columns] > 0
        mine = np.flatnonzero(~taught & able[tags.column])
        sampled = np.flatnonzero((half[row] == side) & able[column])
        if not len(mine):
            continue
        rows = np.r_[tags.row[mine], row[sampled]]
        labels = np.r_[tags.column[mine], column[sampled]]
        found = scores("half", side, tags.row[taught], tags.column[taught], rows, labels)
        listed[mine], unlisted[sampled] = found[: len(mine)], found[len(mine) :]
        judged[mine], known[sampled] = True, True
    # Without a single cell to compare with, a tag cannot be judged.
    judged &= (np.bincount(column[known], minlength=l) > 0)[tags.column]
    listed[~judged] = 0
    return Cells(half, judged, listed, row[known], column[known], unlisted[known]), scores


def _sample(
    tags: Tags, columns: Array, count: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Rows that do not list a label, at least `count` draws with replacement for each."""
    n, l = tags.shape
    taken = tags.row * l + tags.column
    counts = np.clip(tags.counts[columns], count, _MOST_UNLISTED * count)
    column = np.repeat(columns, counts)
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
    p: Array
    """Probability of each tag before the tags of its row are considered."""
    p_unlisted: Array
    """The same of the sampled cells, as if they were listed."""
    model: NoiseModel


def _law(cells: Cells, tags: Tags, found: Shares) -> Law:
    """Compute the posterior of all tags from the shares of wrong tags."""
    n, l = tags.shape
    weight = _weights(cells, tags)
    group, shares = found.group, found.each
    h, h_unlisted = np.ones(len(tags.row)), np.ones(len(cells.unlisted))
    for k, share in enumerate(found.groups):
        own, others = group[tags.column] == k, group[cells.column] == k
        own &= cells.judged
        ratio = _ratio(cells.listed[own], cells.unlisted[others], weight[others], share)
        h[own], h_unlisted[others] = ratio(cells.listed[own]), ratio(cells.unlisted[others])
    # Rate at which rows without the label list it all the same, for each label and for all.
    wrong = shares * tags.counts
    rates = np.clip(wrong / np.maximum(n - tags.counts + wrong, 1), 1e-9, 0.99)
    rate = float(np.clip(wrong.sum() / max(n * l - len(tags.row) + wrong.sum(), 1), 1e-9, 0.99))

    def before(h: Array, label: Array) -> Array:
        """Probability before a cell is known to be listed."""
        odds = np.log(h) + logit(1 - shares[label]) + np.log(rates[label])
        return np.asarray(expit(odds))

    p = before(h, tags.column)
    indptr = np.searchsorted(tags.row, np.arange(n + 1))
    model, blocks = NoiseModel(rate, np.zeros(l + 1), np.log(rates / rate)), cell_blocks(indptr)
    for _ in range(_ROUNDS):
        once = cell_posterior(p, indptr, tags.column, l, model, blocks)
        tilt = count_tilt(once.noise_counts, once.true_counts, rate)
        model = model._replace(tilt=tilt)
    q = cell_posterior(p, indptr, tags.column, l, model, blocks).q
    return Law(q, p, before(h_unlisted, cells.column), model)


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


def _cautious_share(cells: Cells, tags: Tags, shares: Shares) -> float:
    """Lower limit of the share of wrong tags, and less if correct tags do not stand out.

    Tags that look like all other cells may be wrong, or correct with features that do not show it.
    The estimate counts in full only if most correct tags stand out from the unlisted cells.
    """
    listed = cells.listed[cells.judged]
    if not len(listed):
        return 0.0
    order = np.argsort(cells.unlisted)
    weight = _weights(cells, tags)
    mass = np.cumsum(weight[order]) / weight.sum()
    high = cells.unlisted[order][min(int(np.searchsorted(mass, _HIGHEST)), len(order) - 1)]
    top = float(weight[cells.unlisted > high].sum() / weight.sum())
    stand_out = ((listed > high).mean() - shares.total * top) / (1 - shares.total)
    none, most = _STAND_OUT
    low = max(shares.total - ONE_SIDED * shares.error, 0.0)
    return low * float(np.clip((stand_out - none) / (most - none), 0, 1))


def _weights(cells: Cells, tags: Tags) -> Array:
    """Weights of the unlisted cells that give each label the weight that it has among the tags."""
    l = len(tags.names)
    counts = np.bincount(tags.column[cells.judged], minlength=l)
    sampled = np.bincount(cells.column, minlength=l)
    return np.asarray((counts / np.maximum(sampled, 1))[cells.column])


def _plant(law: Law, cells: Cells, tags: Tags, shares: Array, rng: np.random.Generator) -> Planted:
    """Judge sampled cells as if they were listed in the place of a tag that is probably wrong."""
    l = len(tags.names)
    wrong = np.where(cells.judged, _SELDOM + 1 - law.q, 0)
    total = np.r_[0.0, np.cumsum(wrong)]
    indptr = np.searchsorted(tags.row, np.arange(tags.n_rows + 1))
    low, high = total[indptr[cells.row]], total[indptr[cells.row + 1]]
    # Labels are planted as often as they are listed wrongly.
    sampled = np.maximum(np.bincount(cells.column, minlength=l), 1)
    weight = np.where(high > low, (shares * tags.counts / sampled)[cells.column], 0)
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

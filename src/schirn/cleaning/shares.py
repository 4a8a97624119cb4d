"""How many tags of each label are wrong, from held-out scores of listed and of other cells.

Wrong tags that are listed regardless of the features score below the median of the rows that do not
list the label half of the time. So twice the share of the tags below it, the apparent share, is
the share w of wrong tags, plus that of the correct tags that look like any other cell:

    1 - apparent share = (1 - w) v,    v the share of the correct tags that show.

Rare labels show few of their correct tags: there are few rows to learn from, and some of those list
the label wrongly. So v is measured, by taking away what makes tags show:

1. Frequent labels are thinned: learned from as few rows as rare ones have, with random rows among
   them, as if they had as many wrong ones. Their tags are scored again; those that no longer
   stand out are correct ones that do not show. Labels are grouped by frequency, and v depends on
   the share p of correct rows as 1 - exp(-c p), with the c that explains what the thinned labels of
   the group have lost.
2. Labels too frequent to be made of others follow a law: the share that does not show falls by the
   same factor with each doubling of the rows, and this law is fitted to the groups below.
3. Features are taken away, half of them and three quarters. Another doubling of the features would
   show as many tags as the last did, or fewer if the doubling before showed more; that many correct
   tags count as hidden.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._progress import stage
from schirn.cleaning.centroids import fit_centroids, score_centroids, taken
from schirn.labels.tags import Tags

Array = np.ndarray

# A label is never taken to be all wrong or all right, or to show nothing at all.
LEAST_SHARE = 0.01
# Tags that a group of labels should have.
_LEAST_TAGS = 500
# Labels with more rows to learn from are one group.
_MOST_ROWS = 128
# A thinned label keeps at most this share of its rows.
_THINNED = 0.25
# Thinned labels of a group and half of the rows; tags and other cells that are scored for each.
_PER_GROUP, _TAGS, _OTHERS = 500, 20, 20
# A group needs thinned labels of this many sources, or follows the law of the others.
_LEAST_SOURCES = 10
# For the features: labels, tags and other cells of each, rows to learn from, their entries if they
# are dense, and draws of features.
_LABELS, _PER_LABEL, _ROWS, _ENTRIES, _DRAWS = 200, 40, 10_000, 20_000_000, 5
# Each doubling of the rows shows at least a quarter of what more rows can show.
_SLOWEST = 0.75
_STEPS = 200


class Cells(NamedTuple):
    """Held-out scores of the tags and of sampled cells that are not listed."""

    half: Array
    """Half of each row; it is scored by an engine that has learned from the other one."""
    judged: Array
    """Whether each tag can be judged; the others have score 0."""
    listed: Array
    row: Array
    column: Array
    unlisted: Array
    """Row, label and score of the sampled cells, sorted by label."""


class Shares(NamedTuple):
    """Shares of wrong tags."""

    group: Array
    """Group of each label, the rarest first."""
    groups: Array
    """Share of each group."""
    each: Array
    """Share of each label."""
    total: float
    error: float
    """Share of all tags, and its standard error."""


Score = Callable[[str, int, Array, Array, Array, Array], Array]


def wrong_shares(
    X: Any, tags: Tags, cells: Cells, score: Score, in_place: bool, rng: np.random.Generator
) -> Shares:
    """Estimate the share of wrong tags of each label.

    Parameters
    ----------
    X : (n, d) array or CSR matrix
    tags : Tags
        Sorted by row and label.
    cells : Cells
    score : function from (name, half, row, column, rows, labels) to scores
        Scores cells of one half, `rows` and `labels`, by an engine that has learned the tags `row`
        and `column` of the other; `name` tells apart what is learned.
    in_place : bool
        Whether thinned labels take the place of their sources, among all others, so that the engine
        has the same labels as before. Otherwise, they are learned alone, several of a source, with
        numbers of their own.
    rng : Generator
    """
    l = len(tags.names)
    if not cells.judged.any():
        nothing = np.full(l, 0.5)
        return Shares(np.zeros(l, dtype=np.int64), nothing[:1], nothing, 0.5, 0.0)
    column = tags.column[cells.judged]
    number = np.bincount(column, minlength=l)
    apparent = _apparent_shares(
        _is_below(cells.listed[cells.judged], column, cells.unlisted, cells.column, l),
        column,
        np.bincount(cells.column, minlength=l),
    )
    stage("learning from fewer features")
    hidden, doubt = _hidden_share(X, tags, cells, rng)
    stage("learning from fewer rows")
    parts = [_thinned(tags, cells, apparent, score, side, in_place, rng) for side in range(2)]
    thinned = _Thinned(*map(np.concatenate, zip(*parts, strict=True)))
    groups, errors, each = _corrected(apparent, thinned, 1 - hidden)
    weight = np.bincount(apparent.group, number) / number.sum()
    limits = LEAST_SHARE, 1 - LEAST_SHARE
    # All groups have the error of the hidden share in common.
    common = doubt * (weight @ (1 - groups)) / max(1 - hidden, LEAST_SHARE)
    return Shares(
        apparent.group,
        np.clip(groups, *limits),
        np.clip(each, *limits),
        float(np.clip(weight @ groups, 0, 1 - LEAST_SHARE)),
        float(np.hypot(np.linalg.norm(weight * errors), common)),
    )


class _Apparent(NamedTuple):
    """Apparent shares: group of each label, share and error of each group, share of each label."""

    group: Array
    groups: Array
    errors: Array
    each: Array


def _apparent_shares(below: Array, column: Array, n_others: Array) -> _Apparent:
    """Apparent shares of wrong tags; those of labels are pulled towards the share of their group.

    Parameters
    ----------
    below : ndarray
        Whether each tag scores below the median of the other cells of its label; 0.5 if at it.
    column : ndarray
        Label of each tag.
    n_others : ndarray of shape (l,)
        Number of other cells of each label.
    """
    number = np.bincount(column, minlength=len(n_others))
    own = np.bincount(column, below, minlength=len(n_others)) / np.maximum(number, 1)
    group = _by_frequency(number)
    n = np.maximum(np.bincount(group, number), 1)
    mean = np.bincount(group, number * own) / n
    # What chance adds to the variance: a coin toss per tag, and the median of few cells.
    coin = np.maximum(mean * (1 - mean), 1e-9)[group]
    chance = coin / np.maximum(number, 1) + mean[group] ** 2 / (n_others + 2)
    # The number of wrong tags of a group is what it is; only where they fall is chance.
    fixed = mean[group] / 2 / np.maximum(number, 1) + mean[group] ** 2 / (n_others + 2)
    errors = 2 * np.sqrt(np.bincount(group, number**2 * fixed)) / n
    # Variance between the labels of a group, by moments, in units of the coin toss.
    excess = number * ((own - mean[group]) ** 2 - chance * (1 - number / n[group]))
    several = number > 1
    between = excess[several].sum() / max(((number - 1) * coin)[several].sum(), 1e-9)
    between = coin * np.clip(between, 1e-4, 1.0)
    pulled = mean[group] + between / (between + chance) * (own - mean[group])
    return _Apparent(group, 2 * mean, errors, 2 * np.where(number, pulled, mean[group]))


def _by_frequency(number: Array) -> Array:
    """A group of labels per doubling of their tags, joined until each has enough tags."""
    doublings = np.floor(np.log2(np.clip(number, 1, 2 * _MOST_ROWS))).astype(np.int64)
    tags = np.bincount(doublings, number)
    group, k, total = np.zeros(len(tags), dtype=np.int64), 0, 0
    for i, more in enumerate(tags):
        if total >= _LEAST_TAGS:
            k, total = k + 1, 0
        group[i] = k
        total += more
    if total < _LEAST_TAGS:
        group[group == k] = max(k - 1, 0)
    return group[doublings]


def _is_below(
    scores: Array, label: Array, other_scores: Array, other_label: Array, n_labels: int
) -> Array:
    """1 if a tag scores below the median of the other cells of its label, 0.5 if at it, else 0."""
    order = np.lexsort((other_scores, other_label))
    ends = np.searchsorted(other_label[order], np.arange(n_labels + 1))
    first, size = ends[:-1], np.maximum(np.diff(ends), 1)
    ordered = np.r_[other_scores[order], 0.0]
    median = ((ordered[first + (size - 1) // 2] + ordered[first + size // 2]) / 2)[label]
    return np.asarray((scores < median) + 0.5 * (scores == median))


def _shown(scores: Array, tag_label: Array, other_label: Array, n_labels: int) -> Array:
    """Share of the tags of each label that stand out: one minus their apparent share."""
    own, others = np.split(scores, [len(tag_label)])
    below = _is_below(own, tag_label, others, other_label, n_labels)
    number = np.maximum(np.bincount(tag_label, minlength=n_labels), 1)
    return np.asarray(1 - 2 * np.bincount(tag_label, below, minlength=n_labels) / number)


class _ByLabel(NamedTuple):
    """Members of each label, one label after the other, in random order."""

    order: Array
    start: Array
    size: Array

    @classmethod
    def of(cls, label: Array, n_labels: int, rng: np.random.Generator) -> "_ByLabel":
        size = np.bincount(label, minlength=n_labels)
        order = rng.permutation(len(label))
        order = order[np.argsort(label[order], kind="stable")]
        return cls(order, np.cumsum(size) - size, size)

    def some(self, label: Array, count: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Different members of `label[t]`, at most `count[t]` for each t, and t of each of them."""
        count = np.minimum(count, self.size[label])
        t = np.repeat(np.arange(len(label)), count)
        within = np.arange(len(t)) - np.repeat(np.cumsum(count) - count, count)
        # Members that follow each other, from a random one on: their order is random.
        first = (rng.random(len(label)) * self.size[label]).astype(np.int64)
        at = (first[t] + within) % self.size[label[t]]
        return self.order[self.start[label[t]] + at], t


class _Thinned(NamedTuple):
    """Thinned labels."""

    source: Array
    """Label that was thinned."""
    group: Array
    """Group that it was thinned to."""
    purity: Array
    """Share of its rows that are its own; the others are random."""
    shown: Array
    full: Array
    """Share of its tags that stand out, learned from few rows, and from all."""


def _thinned(
    tags: Tags,
    cells: Cells,
    apparent: _Apparent,
    score: Score,
    side: int,
    in_place: bool,
    rng: np.random.Generator,
) -> _Thinned:
    """Thin labels, have them learned from one half of the rows, and score the other."""
    l = len(tags.names)
    known = np.flatnonzero(cells.half[tags.row] != side)
    mine = np.flatnonzero((cells.half[tags.row] == side) & cells.judged)
    others = np.flatnonzero(cells.half[cells.row] == side)
    rows = np.flatnonzero(cells.half != side)
    taught = _ByLabel.of(tags.column[known], l, rng)
    own = _ByLabel.of(tags.column[mine], l, rng)
    free = _ByLabel.of(cells.column[others], l, rng)
    able = np.flatnonzero((own.size > 0) & (free.size > 0) & (taught.size > 0))
    able = able[np.argsort(-taught.size[able], kind="stable")]
    source, size, group = (np.zeros(0, dtype=np.int64) for _ in range(3))
    for k in range(len(apparent.groups)):
        rare = able[apparent.group[able] == k]
        if not len(rare):
            continue
        # As many rows as a tag of the group has to be learned from, and any label with enough rows.
        m = rng.choice(taught.size[rare], _PER_GROUP, p=own.size[rare] / own.size[rare].sum())
        m = np.minimum(m, _MOST_ROWS)
        enough = np.searchsorted(-taught.size[able], -m / _THINNED, side="right")
        m, enough = m[enough > 0], enough[enough > 0]
        source = np.r_[source, able[(rng.random(len(m)) * enough).astype(np.int64)]]
        size, group = np.r_[size, m], np.r_[group, np.full(len(m), k)]
    if in_place:
        order = rng.permutation(len(source))
        order = order[np.unique(source[order], return_index=True)[1]]
        source, size, group = source[order], size[order], group[order]
    if not len(source):
        return _Thinned(source, group, *(np.zeros(0) for _ in range(3)))
    # At most the apparent share of the rows of a group is wrong. Random rows are mixed in, up to
    # that share, besides the wrong rows of the source itself.
    correct = np.maximum(1 - apparent.groups, LEAST_SHARE)
    least = np.minimum(1, correct[group] / correct[apparent.group[source]])
    purity = least ** rng.random(len(source))
    kept = rng.binomial(size, purity)
    which, t = taught.some(source, kept, rng)
    # Where the thinned labels are, and labels that stay as they are.
    at = source if in_place else l + np.arange(len(source))
    stay = known[~np.isin(tags.column[known], source)] if in_place else known[:0]
    random = np.repeat(at, size - kept)
    tag, tag_t = own.some(source, np.full(len(source), _TAGS), rng)
    other, other_t = free.some(source, np.full(len(source), _OTHERS), rng)
    tag, other = mine[tag], others[other]
    found = score(
        "thinned",
        side,
        np.r_[tags.row[stay], tags.row[known[which]], rng.choice(rows, len(random))],
        np.r_[tags.column[stay], at[t], random],
        np.r_[tags.row[tag], cells.row[other]],
        np.r_[at[tag_t], at[other_t]],
    )
    before = np.r_[cells.listed[tag], cells.unlisted[other]]
    shown, full = (_shown(x, tag_t, other_t, len(source)) for x in (found, before))
    return _Thinned(source, group, purity, shown, full)


def _corrected(apparent: _Apparent, thinned: _Thinned, most: float) -> tuple[Array, Array, Array]:
    """Shares of wrong tags of the groups, their errors, and the share of each label.

    Parameters
    ----------
    apparent : Apparent
    thinned : Thinned
    most : float
        Share of correct tags that show at most.
    """
    n_groups = len(apparent.groups)
    groups, errors, each = np.zeros(n_groups), np.zeros(n_groups), apparent.each.copy()
    visible = np.full(n_groups, max(most, LEAST_SHARE))
    p, log_c = np.linspace(0, 1, _STEPS + 1), np.linspace(np.log(0.02), np.log(50), _STEPS)

    def measured(k: int) -> tuple[float, float, float, float]:
        """c of the group; what unmixed labels show of what their sources show; error; sources."""
        mine = thinned.group == k
        source, shown, full = (x[mine] for x in (thinned.source, thinned.shown, thinned.full))
        total = max(full.sum(), 1e-9)
        kept = float(np.clip(shown.sum() / total, 0, 1))
        rest = np.bincount(source, shown - kept * full)
        correct = np.maximum(1 - each[source], LEAST_SHARE)
        seen = visible[apparent.group[source]] * correct
        curves = 1 - np.exp(-np.exp(log_c)[:, None] * thinned.purity[mine] * correct)
        c = float(np.exp(np.interp(kept * seen.sum(), curves @ correct, log_c)))
        unmixed = float(((1 - np.exp(-c * correct)) @ correct) / seen.sum())
        error = float(min(np.linalg.norm(rest) / total, 1))
        return c, unmixed, error, float(apparent.group[source].mean())

    pairs = np.unique(thinned.group * len(each) + thinned.source) // len(each)
    enough = np.bincount(pairs, minlength=n_groups) >= _LEAST_SOURCES
    # Share that does not show in group k: b r^k. All b and r count, by how well they fit.
    b, r = (x.ravel() for x in np.meshgrid(np.linspace(0, 1, 41), np.linspace(0.02, _SLOWEST, 38)))
    misfit = np.zeros(len(b))
    for k in map(int, np.flatnonzero(enough)):
        _, unmixed, error, of = measured(k)
        expected = (1 - b * r**k) / np.maximum(1 - b * r**of, 1e-3)
        misfit += (expected - unmixed) ** 2 / max(error, 0.01) ** 2 / 2
    belief = np.exp(misfit.min() - misfit)
    belief /= belief.sum()
    for k in range(n_groups - 1, -1, -1):
        if enough[k]:
            c, _, error, _ = measured(k)
            v = 1 - np.exp(-c * p)
        else:
            hidden = b * r**k * enough.any()
            mean = float(belief @ hidden)
            error = float(np.sqrt(belief @ (hidden - mean) ** 2))
            v = np.full(len(p), (1 - mean) * most)
        groups[k] = 1 - np.interp(1 - apparent.groups[k], p * v, p)
        visible[k] = max(np.interp(1 - groups[k], p, v), LEAST_SHARE)
        errors[k] = np.hypot(apparent.errors[k], error * (1 - groups[k])) / visible[k]
        mine = apparent.group == k
        each[mine] = 1 - np.interp(1 - apparent.each[mine], p * v, p)
    return groups, errors, each


def _hidden_share(
    X: Any, tags: Tags, cells: Cells, rng: np.random.Generator
) -> tuple[float, float]:
    """Share of correct tags that do not show for lack of features, and its standard error.

    The label centroids of frequent labels are learned from half and from a quarter of the features;
    then the engine is compared with what they show.
    """
    l = len(tags.names)
    most = _ROWS if sp.issparse(X) else min(_ROWS, max(100, _ENTRIES // max(X.shape[1], 1)))
    train = np.sort(rng.permutation(np.flatnonzero(cells.half == 1))[:most])
    place = np.full(tags.n_rows, -1)
    place[train] = np.arange(len(train))
    known = np.flatnonzero(place[tags.row] >= 0)
    mine = np.flatnonzero((cells.half[tags.row] == 0) & cells.judged)
    others = np.flatnonzero(cells.half[cells.row] == 0)
    own = _ByLabel.of(tags.column[mine], l, rng)
    free = _ByLabel.of(cells.column[others], l, rng)
    taught = np.bincount(tags.column[known], minlength=l) * (own.size > 0) * (free.size > 0)
    labels = np.argsort(-taught, kind="stable")[: min(_LABELS, max(1, most // _PER_LABEL))]
    labels = labels[taught[labels] > 0]
    if not len(labels):
        return 0.0, 0.0
    tag, tag_t = own.some(labels, np.full(len(labels), _PER_LABEL), rng)
    other, other_t = free.some(labels, np.full(len(labels), _PER_LABEL), rng)
    column = np.full(l, -1)
    column[labels] = np.arange(len(labels))
    known = known[column[tags.column[known]] >= 0]
    where = place[tags.row[known]], column[tags.column[known]]
    Y = sp.csr_array((np.ones(len(known), np.uint8), where), shape=(len(train), len(labels)))
    rows, at = np.unique(np.r_[tags.row[mine[tag]], cells.row[others[other]]], return_inverse=True)
    A, B = taken(X, train), taken(X, rows)

    def shown(columns: Array) -> Array:
        if not len(columns):
            return np.zeros(len(labels))
        model = fit_centroids(A[:, columns], Y)
        scores = score_centroids(model, B[:, columns], at, np.r_[tag_t, other_t])
        return _shown(scores, tag_t, other_t, len(labels))

    weight = np.bincount(tag_t, minlength=len(labels))
    full = shown(np.arange(X.shape[1]))
    total = float(max(weight @ full, 1e-9))
    less = np.zeros((_DRAWS, 2, len(labels)))
    for i in range(_DRAWS):
        order = rng.permutation(X.shape[1])
        for j in range(2):
            less[i, j] = shown(np.sort(order[: X.shape[1] >> (j + 1)]))
    lost = 1 - less @ weight / total
    half, quarter = np.clip(lost.mean(axis=0), 0, 1)
    rest = weight * (less[:, 0].mean(axis=0) - (1 - half) * full)
    error = np.hypot(np.linalg.norm(rest) / total, lost[:, 0].std(ddof=1) / np.sqrt(_DRAWS))
    hidden, more = (x * min(1.0, x / max(quarter - half, 1e-9)) for x in (half, half + error))
    # The engine may show more than the centroids, and has more rows to learn from.
    before = np.r_[cells.listed[mine[tag]], cells.unlisted[others[other]]]
    engine = _shown(before, tag_t, other_t, len(labels))
    ratio = float(np.clip(weight @ engine / total, 0, 1 / max(1 - hidden, LEAST_SHARE)))
    rest = weight * (engine - ratio * full)
    error = np.hypot(more - hidden, np.linalg.norm(rest) / total)
    return 1 - (1 - float(hidden)) * ratio, float(min(error, 1))

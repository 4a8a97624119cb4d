"""Faulty tags: on nearly all rows, on random rows, used only once, or with two meanings."""

from typing import NamedTuple

import numpy as np

from schirn._input import Array
from schirn.cleaning._relation_proposals import inclusions
from schirn.cleaning._tag_use import Centroids, TagUse
from schirn.cleaning.vocabulary import VocabularyLine

# Minimum share of the rows for a tag on nearly all rows.
_NEARLY_ALL = 0.9
# Minimum number of rows of the table for a tag on nearly all rows, and of an uninformative tag.
_MIN_ROWS = 20
# Maximum distance of an uninformative tag's rows from random rows, in standard errors.
_SAYS_NOTHING = 3.0
# Minimum distance of a typical tag with as many rows; otherwise there are too few rows to decide.
_COULD_SAY = 15.0
# Maximum distance of an uninformative tag's rows from random rows, relative to a typical tag.
_SMALL = 0.1
# Number of the most frequent tags, which are examined for two clusters.
_MOST_SPLIT = 1_000
# Minimum number of rows of a tag examined for two clusters.
_LEAST_SPLIT = 30
# Maximum number of rows of a tag that are clustered.
_SPLIT_ROWS = 160
# Maximum number of rounds of the clustering.
_ROUNDS = 8
# Number of random starts of the clustering; the best one counts.
_STARTS = 3
# Minimum share of the rows in a cluster.
_SMALLEST = 0.15
# Maximum likeness of two clusters with different meanings.
_UNLIKE = 0.12
# Minimum likeness of the two halves of one cluster; otherwise the cluster splits again.
_ONE_KIND = 0.25
# Minimum density of each cluster, relative to all rows of the tag.
_DENSER = 1.4
# Minimum density of each cluster, relative to a typical tag.
_DENSE = 0.3


def propose_drops(use: TagUse) -> list[VocabularyLine]:
    """Propose dropping tags that say nothing about a row.

    Parameters
    ----------
    use : TagUse
        Use of the tags in the table.

    Returns
    -------
    list of VocabularyLine
    """
    counts = use.counts
    n_rows = use.tags.n_rows
    lines = []
    is_everywhere = (counts >= _NEARLY_ALL * n_rows) & (n_rows >= _MIN_ROWS)
    for tag in np.flatnonzero(is_everywhere).tolist():
        evidence = f"on {counts[tag] / n_rows:.0%} of the rows"
        lines.append(_line(use, "drop", tag, evidence, 0.95))
    views = [view for view in (use.contents, use.contexts) if view is not None]
    says_nothing = np.ones(len(counts), dtype=bool)
    for view in views:
        says_nothing &= _says_nothing(view, n_rows)
    for tag in np.flatnonzero(says_nothing & ~is_everywhere).tolist():
        evidence = "its rows are like any rows, by " + (
            "other tags" if use.contents is None else "texts and other tags"
        )
        lines.append(_line(use, "drop", tag, evidence, 0.85))
    single_use = np.flatnonzero(counts == 1).tolist()
    lines.extend(_line(use, "drop", tag, "used once", 0.05) for tag in single_use)
    return lines


def _says_nothing(means: Centroids, n_rows: int) -> Array:
    """Return a mask of the tags whose rows are spread like random rows."""
    counts = means.counts.astype(float)
    deviation = _random_deviation(means, n_rows)
    if deviation == 0:
        return np.zeros(len(counts), dtype=bool)
    error = np.sqrt(2) * deviation / np.maximum(counts, 1)
    typical = means.typical_direction
    # A large part of the table cannot be far from the mean of all rows.
    is_known = (counts >= _MIN_ROWS) & (typical / error >= _COULD_SAY)
    is_random = means.direction <= np.maximum(_SAYS_NOTHING * error, _SMALL**2 * typical)
    is_small = means.direction <= _SMALL * typical
    return is_known & is_random & is_small


def _random_deviation(means: Centroids, n_rows: int) -> float:
    """Return the standard deviation of the products of random rows around the center."""
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.choice(n_rows, min(n_rows, 400), replace=False))
    products = means.gram(chosen)
    is_pair = ~np.eye(len(chosen), dtype=bool)
    return float(products[is_pair].std()) if is_pair.any() else 0.0


def propose_splits(use: TagUse) -> list[VocabularyLine]:
    """Propose splitting tags whose rows form two unrelated clusters.

    Parameters
    ----------
    use : TagUse
        Use of the tags in the table.

    Returns
    -------
    list of VocabularyLine
    """
    counts = use.counts
    tags = np.argsort(-counts, kind="stable")[:_MOST_SPLIT]
    tags = tags[(counts[tags] >= _LEAST_SPLIT) & (counts[tags] < 0.5 * use.tags.n_rows)]
    _, parents, _, _ = inclusions(use)
    # The rows of a parent tag naturally form several kinds.
    tags = tags[~np.isin(tags, parents)]
    lines = []
    for tag in tags.tolist():
        rows = use.contexts.rows_of(tag, _SPLIT_ROWS)
        clusters = split_rows(use, tag, rows)
        if clusters is None:
            continue
        names = [", ".join(_typical_tags(use, tag, side)) for side in clusters.sides]
        names = [name or "no other tags" for name in names]
        evidence = (
            f"two clusters, {clusters.likeness:.2f} alike: {len(clusters.sides[0])} rows with "
            f"{names[0]} | {len(clusters.sides[1])} rows with {names[1]}"
        )
        confidence = 0.5 + 0.4 * (1 - max(clusters.likeness, 0) / _UNLIKE)
        lines.append(_line(use, "split", tag, evidence, confidence))
    return lines


class Clusters(NamedTuple):
    """Two clusters of the rows of one tag.

    Attributes
    ----------
    sides : list of two int arrays
        Rows of the first and of the second cluster.
    likeness : float
        1 if both are one kind of row, 0 if they are unrelated.
    """

    sides: list[Array]
    likeness: float


def split_rows(use: TagUse, tag: int, rows: Array) -> Clusters | None:
    """Return two unrelated clusters of the rows of a tag, None if there are none.

    Parameters
    ----------
    use : TagUse
        Use of the tags in the table.
    tag : int
        Column of the tag.
    rows : int array
        Some rows of the tag.

    Returns
    -------
    Clusters or None
    """
    views = [view for view in (use.contents, use.contexts) if view is not None]
    gram = np.zeros((len(rows), len(rows)))
    for view in views:
        gram += view.gram(rows, [tag]) / max(view.typical_spread, 1e-12)
    np.fill_diagonal(gram, 0)
    side, likeness = _split(gram)
    if likeness > _UNLIKE:
        return None
    first = _within(gram, ~side)
    second = _within(gram, side)
    n_rows = len(rows)
    total = gram.sum() / (n_rows * (n_rows - 1))
    if min(first, second) < max(_DENSER * total, _DENSE * len(views)):
        return None
    # If there are many kinds of rows, the tag has not just two meanings: its clusters split again.
    for part in (side, ~side):
        _, likeness_of_parts = _split(gram[np.ix_(part, part)])
        if likeness_of_parts < _ONE_KIND:
            return None
    return Clusters([rows[~side], rows[side]], float(likeness))


def _split(gram: Array) -> tuple[Array, float]:
    """Return the second of two clusters, and their likeness; 1 if there are not two clusters."""
    if len(gram) < 4:
        return np.zeros(len(gram), dtype=bool), 1.0
    side = _two_means(gram, np.random.default_rng(0))
    if min(side.mean(), 1 - side.mean()) < _SMALLEST:
        return side, 1.0
    first = _within(gram, ~side)
    second = _within(gram, side)
    if min(first, second) <= 0:
        return side, 1.0
    across = float(gram[np.ix_(side, ~side)].mean())
    return side, across / np.sqrt(first * second)


def _two_means(gram: Array, rng: np.random.Generator) -> Array:
    """Return a mask of the second of two clusters, from the products of the rows."""
    n_rows = len(gram)
    best = np.zeros(n_rows, dtype=bool)
    best_score = -np.inf
    for _ in range(_STARTS):
        seed = int(rng.integers(n_rows))
        side = gram[seed] < np.median(gram[seed])
        for _ in range(_ROUNDS):
            if side.all() or not side.any():
                break
            to_second = gram[:, side].mean(axis=1)
            to_first = gram[:, ~side].mean(axis=1)
            squares = gram[np.ix_(side, side)].mean() - gram[np.ix_(~side, ~side)].mean()
            new = to_second - to_first > squares / 2
            if (new == side).all():
                break
            side = new
        if side.all() or not side.any():
            continue
        score = side.sum() * gram[np.ix_(side, side)].mean()
        score += (~side).sum() * gram[np.ix_(~side, ~side)].mean()
        if score > best_score:
            best = side
            best_score = score
    return best


def _within(gram: Array, side: Array) -> float:
    """Return the mean product of two distinct rows of a cluster."""
    n_rows = int(side.sum())
    return float(gram[np.ix_(side, side)].sum() / max(n_rows * (n_rows - 1), 1))


def _typical_tags(use: TagUse, tag: int, rows: Array) -> list[str]:
    """Return the names of the other tags that are most typical of some rows."""
    counts = np.bincount(use.listed[rows].indices, minlength=len(use.counts))
    counts[tag] = 0
    surprise = counts * np.log((1 + use.tags.n_rows) / (1 + use.counts))
    best = np.argsort(-surprise, kind="stable")[:3]
    return [use.tags.names[j] for j in best.tolist() if counts[j]]


def _line(use: TagUse, action: str, tag: int, evidence: str, confidence: float) -> VocabularyLine:
    name = use.tags.names[tag]
    rows = int(use.counts[tag])
    return VocabularyLine(
        action, name, rows=rows, evidence=evidence, confidence=round(confidence, 3)
    )

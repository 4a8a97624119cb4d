"""Relations of tags: one that implies another, and two that exclude each other."""

import re
from collections import Counter

import numpy as np
import scipy.sparse as sp

from schirn._input import Array
from schirn.cleaning._spelling import words_of
from schirn.cleaning._tag_use import TagUse
from schirn.cleaning.vocabulary import VocabularyLine

# Normal quantile of one-sided 95% bounds.
_SIDE = 1.645
# Lower bound of the share of a tag's rows that have the parent; a smaller one suffices if its name
# holds that of the parent.
_IMPLIES = 0.65
_NAMED_IMPLIES = 0.3
# How much more frequent a parent is, and rows with both from which an implication is proposed.
_PARENT_FACTOR = 1.5
_MIN_BOTH = 5
# Share of the rows without the parent, among all rows, that the tag explains at least.
_MIN_GAIN = 0.5
_MOST_PARENTS = 2
# What separates the levels of names such as `biology:bioinformatics`.
_LEVELS = re.compile(r"\s*[:/>|]+\s*")
# Rows with and without the parent that are compared, and how alike they are at least if the parent
# is only missing; pairs that are looked at.
_COMPARED = 60
_ALIKE_ROWS = 0.75
_MOST_PAIRS = 2_000
# Rows on which two exclusive tags would meet by chance, and the share that may do so by error.
_EXPECTED = 15.0
_EXCEPTIONS = 0.02
_MOST_FREQUENT = 1_000
_ALIKE_CONTEXTS = 0.3
_ALIKE_CONTENTS = 0.7


def share_interval(successes: Array, totals: Array) -> tuple[Array, Array]:
    """Return the Wilson interval of a share, each bound at 95%.

    Parameters
    ----------
    successes, totals : int arrays
    """
    totals = np.maximum(np.asarray(totals, dtype=float), 1)
    share = successes / totals
    square = _SIDE**2
    center = share + square / (2 * totals)
    width = _SIDE * np.sqrt(share * (1 - share) / totals + square / (4 * totals**2))
    scale = 1 + square / totals
    return (center - width) / scale, (center + width) / scale


def inclusions(use: TagUse) -> tuple[Array, Array, Array, Array]:
    """Return pairs of a tag and a much more frequent one that stands on most of its rows.

    Parameters
    ----------
    use : TagUse

    Returns
    -------
    child, parent, n_common : int arrays
    lower : float array
        Lower bound of the share of the child's rows that have the parent.
    """
    common = sp.coo_array(use.common)
    counts = use.counts
    child = common.row
    parent = common.col
    n_common = common.data.astype(np.int64)
    is_pair = (n_common >= _MIN_BOTH) & (counts[parent] >= _PARENT_FACTOR * counts[child])
    child = child[is_pair]
    parent = parent[is_pair]
    n_common = n_common[is_pair]
    lower, _ = share_interval(n_common, counts[child])
    base = counts[parent] / max(use.tags.n_rows, 1)
    # A parent on nearly all rows is on the child's too, whatever they have to do with each other.
    gain = (lower - base) / np.maximum(1 - base, 1e-9)
    is_parent = (lower >= _NAMED_IMPLIES) & (gain >= _MIN_GAIN * _NAMED_IMPLIES)
    is_parent &= (lower < _IMPLIES) | (gain >= _MIN_GAIN)
    return child[is_parent], parent[is_parent], n_common[is_parent], lower[is_parent]


def propose_implications(use: TagUse) -> list[VocabularyLine]:
    """Propose parents for tags that nearly always stand with a more frequent one.

    A tag whose name begins with that of another one needs fewer rows with both. Tags whose parent
    is never missing need no proposal.

    Parameters
    ----------
    use : TagUse

    Returns
    -------
    list of VocabularyLine
    """
    child, parent, n_common, lower = inclusions(use)
    names = use.tags.names
    counts = use.counts
    missing = counts[child] - n_common
    words = {tag: set(words_of(names[tag])) for tag in {*child.tolist(), *parent.tolist()}}
    pairs = zip(child.tolist(), parent.tolist(), strict=True)
    is_named = np.array([bool(words[j]) and words[j] < words[i] for i, j in pairs], dtype=bool)
    lines = _named_levels(use)
    n_parents = Counter(use.tags.names.index(line.tag) for line in lines)
    levels = {(line.tag, line.target) for line in lines}
    n_compared = 0
    for k in np.lexsort((counts[parent], -lower, ~is_named)).tolist():
        tag = int(child[k])
        target = int(parent[k])
        if missing[k] == 0 or (lower[k] < _IMPLIES and not is_named[k]):
            continue
        if (names[tag], names[target]) in levels:
            continue
        if n_parents[tag] >= _MOST_PARENTS or n_compared >= _MOST_PAIRS:
            continue
        n_compared += 1
        alike = likeness_without(use, tag, target)
        if not alike >= _ALIKE_ROWS:
            continue
        n_parents[tag] += 1
        _, upper = share_interval(n_common[[k]], counts[[tag]])
        lack = "lacks" if missing[k] == 1 else "lack"
        evidence = (
            f"{n_common[k] / counts[tag]:.0%} of its rows have {names[target]} "
            f"({lower[k]:.0%} to {upper[0]:.0%}), {missing[k]:,} {lack} it; by chance "
            f"{counts[target] / use.tags.n_rows:.0%}; rows without it {min(alike, 1):.2f} alike"
        )
        confidence = min(0.99, float(lower[k]) * min(alike, 1) + (0.2 if is_named[k] else 0.0))
        lines.append(_line(use, "imply", tag, target, int(n_common[k]), evidence, confidence))
    return lines


def _named_levels(use: TagUse) -> list[VocabularyLine]:
    """Propose the level above for tags such as `biology:bioinformatics`.

    Rows with both show that the table lists the levels beside each other.
    """
    number_of = {name: tag for tag, name in enumerate(use.tags.names)}
    pairs = []
    for name, tag in number_of.items():
        ends = [match.start() for match in _LEVELS.finditer(name)]
        parents = [name[:end] for end in reversed(ends) if name[:end] in number_of]
        if parents:
            pairs.append((tag, number_of[parents[0]]))
    if not pairs:
        return []
    child, parent = np.array(pairs).T
    n_common = use.n_common(child, parent)
    lower, _ = share_interval(n_common, use.counts[child])
    lines = []
    for k in np.lexsort((child, -lower)).tolist():
        n_rows = int(use.counts[child[k]])
        missing = n_rows - int(n_common[k])
        if n_common[k] < _MIN_BOTH or not missing:
            continue
        lack = "lacks" if missing == 1 else "lack"
        evidence = (
            f"its name begins with {use.tags.names[parent[k]]}, which "
            f"{n_common[k] / n_rows:.0%} of its rows have; {missing:,} {lack} it"
        )
        confidence = 0.5 + 0.49 * float(lower[k])
        tags = (int(child[k]), int(parent[k]))
        lines.append(_line(use, "imply", *tags, int(n_common[k]), evidence, confidence))
    return lines


def likeness_without(use: TagUse, tag: int, parent: int) -> float:
    """Return how alike the rows of a tag without its parent are to those with it.

    If the parent is only missing, they are of one kind. If the tag stands for something else there,
    they differ.

    Parameters
    ----------
    use : TagUse
    tag, parent : int

    Returns
    -------
    float
        1 for rows of one kind; the smaller one by features and by other tags.
    """
    rows = use.contexts.rows_of(tag, limit=np.iinfo(np.int64).max)
    of_parent = use.contexts.rows_of(parent, limit=np.iinfo(np.int64).max)
    has_parent = np.isin(rows, of_parent, assume_unique=True)
    with_parent = _some(rows[has_parent])
    without = _some(rows[~has_parent])
    likeness = []
    for view in (use.contents, use.contexts):
        if view is None:
            continue
        products = view.gram(np.r_[with_parent, without], [tag, parent])
        n_with = len(with_parent)
        block = products[:n_with, :n_with]
        within = (block.sum() - np.trace(block)) / max(n_with * (n_with - 1), 1)
        across = products[n_with:, :n_with].mean()
        if within > 0:
            likeness.append(across / within)
    return float(min(likeness, default=1.0))


def _some(rows: Array) -> Array:
    if len(rows) <= _COMPARED:
        return rows
    return rows[np.linspace(0, len(rows) - 1, _COMPARED).astype(int)]


def exclusions(use: TagUse) -> tuple[Array, Array, Array, Array]:
    """Return pairs of frequent tags that hardly ever meet, although chance would let them.

    Parameters
    ----------
    use : TagUse

    Returns
    -------
    rare, frequent, n_common : int arrays
    expected : float array
        Number of rows that would have both by chance.
    """
    counts = use.counts
    n_rows = max(use.tags.n_rows, 1)
    frequent = np.argsort(-counts, kind="stable")[:_MOST_FREQUENT]
    frequent = frequent[counts[frequent].astype(float) * counts.max(initial=0) / n_rows > _EXPECTED]
    expected = np.outer(counts[frequent], counts[frequent]) / n_rows
    common = use.common[frequent][:, frequent].toarray()
    first, second = np.nonzero(np.triu(expected >= _EXPECTED, 1))
    n_common = common[first, second].astype(np.int64)
    means = expected[first, second]
    is_rare = n_common <= _EXCEPTIONS * means
    first = first[is_rare]
    second = second[is_rare]
    return frequent[second], frequent[first], n_common[is_rare], means[is_rare]


def propose_exclusions(use: TagUse) -> list[VocabularyLine]:
    """Propose pairs of tags of one kind that never stand together.

    Two tags of unrelated rows never meet either; only tags that stand beside the same other tags
    are alternatives.

    Parameters
    ----------
    use : TagUse

    Returns
    -------
    list of VocabularyLine
    """
    rare, frequent, n_common, expected = exclusions(use)
    if not len(rare):
        return []
    likeness = use.contexts.likeness(rare, frequent, n_common)
    content = np.zeros(len(rare))
    if use.contents is not None:
        content = use.contents.likeness(rare, frequent, n_common)
    lines = []
    for k in np.argsort(-expected, kind="stable").tolist():
        # Two names of one tag never meet either.
        if not likeness[k] >= _ALIKE_CONTEXTS or content[k] >= _ALIKE_CONTENTS:
            continue
        evidence = (
            f"together in {n_common[k]:,} rows, by chance {expected[k]:,.0f}; other tags "
            f"{min(likeness[k], 1):.2f} alike"
        )
        confidence = 0.5 + 0.4 * min(float(likeness[k]), 1.0)
        tags = (int(rare[k]), int(frequent[k]))
        lines.append(_line(use, "exclude", *tags, int(n_common[k]), evidence, confidence))
    return lines


def _line(
    use: TagUse, action: str, tag: int, target: int, n_common: int, evidence: str, confidence: float
) -> VocabularyLine:
    return VocabularyLine(
        action,
        use.tags.names[tag],
        use.tags.names[target],
        int(use.counts[tag]),
        int(use.counts[target]),
        n_common,
        evidence,
        confidence=round(confidence, 3),
    )

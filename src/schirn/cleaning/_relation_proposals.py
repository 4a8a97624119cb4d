"""Relations of tags: a tag that implies another, and two tags that exclude each other."""

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
# Minimum lower bound of the share of a tag's rows that have the parent; a smaller bound suffices if
# the tag's name contains the parent's.
_IMPLIES = 0.65
_NAMED_IMPLIES = 0.3
# How many times more frequent a parent must be, and minimum number of rows with both tags.
_PARENT_FACTOR = 1.5
_MIN_BOTH = 5
# Minimum gain: how much of the way from the parent's overall share to 1 the lower bound covers.
_MIN_GAIN = 0.5
_MOST_PARENTS = 2
# Separators between the levels of names such as `biology:bioinformatics`.
_LEVELS = re.compile(r"\s*[:/>|]+\s*")
# Number of rows with and without the parent that are compared, minimum likeness of these rows if
# the parent is merely missing, and maximum number of pairs that are examined.
_COMPARED = 60
_ALIKE_ROWS = 0.75
_MOST_PAIRS = 2_000
# Minimum number of rows on which two exclusive tags would meet by chance, and maximum share of
# these rows that may have both by error.
_EXPECTED = 15.0
_EXCEPTIONS = 0.02
_MOST_FREQUENT = 1_000
_ALIKE_CONTEXTS = 0.3
_ALIKE_CONTENTS = 0.7


def share_interval(successes: Array, totals: Array) -> tuple[Array, Array]:
    """Return the Wilson interval of shares, each bound at 95%.

    Parameters
    ----------
    successes, totals : int arrays
        Each share is successes / totals.

    Returns
    -------
    low, high : float arrays
    """
    totals = np.maximum(np.asarray(totals, dtype=float), 1)
    share = successes / totals
    square = _SIDE**2
    center = share + square / (2 * totals)
    width = _SIDE * np.sqrt(share * (1 - share) / totals + square / (4 * totals**2))
    scale = 1 + square / totals
    return (center - width) / scale, (center + width) / scale


def inclusions(use: TagUse) -> tuple[Array, Array, Array, Array]:
    """Return pairs of a tag and a more frequent tag that is on many of its rows.

    Parameters
    ----------
    use : TagUse
        Use of the tags in the table.

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
    # A tag on nearly all rows is on the child's rows too, related or not.
    gain = (lower - base) / np.maximum(1 - base, 1e-9)
    is_parent = (lower >= _NAMED_IMPLIES) & (gain >= _MIN_GAIN * _NAMED_IMPLIES)
    is_parent &= (lower < _IMPLIES) | (gain >= _MIN_GAIN)
    return child[is_parent], parent[is_parent], n_common[is_parent], lower[is_parent]


def propose_implications(use: TagUse) -> list[VocabularyLine]:
    """Propose parents for tags that nearly always occur with a more frequent tag.

    Fewer rows with both are needed if the child's name contains the parent's. Tags whose parent is
    never missing need no proposal.

    Parameters
    ----------
    use : TagUse
        Use of the tags in the table.

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
    """Propose the parent level for tags such as `biology:bioinformatics`.

    Rows with both show that the table lists both levels.
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
        tag = int(child[k])
        target = int(parent[k])
        lines.append(_line(use, "imply", tag, target, int(n_common[k]), evidence, confidence))
    return lines


def likeness_without(use: TagUse, tag: int, parent: int) -> float:
    """Return the likeness of a tag's rows with and without its parent.

    If the parent is merely missing, these rows are of one kind. If the tag has another meaning
    there, they differ.

    Parameters
    ----------
    use : TagUse
        Use of the tags in the table.
    tag, parent : int
        Columns of the tags.

    Returns
    -------
    float
        1 for rows of one kind; the smaller likeness by features and by other tags.
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
    """Return pairs of frequent tags that occur together much more rarely than by chance.

    Parameters
    ----------
    use : TagUse
        Use of the tags in the table.

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
    """Propose pairs of tags of one kind that hardly ever occur together.

    Two tags of unrelated rows do not occur together either; only tags used with the same other tags
    are alternatives.

    Parameters
    ----------
    use : TagUse
        Use of the tags in the table.

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
        # Two names of one tag do not occur together either.
        if not likeness[k] >= _ALIKE_CONTEXTS or content[k] >= _ALIKE_CONTENTS:
            continue
        evidence = (
            f"together in {n_common[k]:,} rows, by chance {expected[k]:,.0f}; other tags "
            f"{min(likeness[k], 1):.2f} alike"
        )
        confidence = 0.5 + 0.4 * min(float(likeness[k]), 1.0)
        tag = int(rare[k])
        target = int(frequent[k])
        lines.append(_line(use, "exclude", tag, target, int(n_common[k]), evidence, confidence))
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

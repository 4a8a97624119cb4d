"""Rows whose texts are nearly the same, and the tags in which they differ.

Two rows with the same text should have the same tags. Where they differ, the majority of the group
determines which tags are likely; if the group is divided, a ranking does.

>>> from schirn.cleaning import find_duplicates
>>> texts = ["red dress, size M", "Red dress size M", "red dress - size m", "blue coat"]
>>> tags = ["dress;red", "dress;red", "dress", "coat;blue"]
>>> duplicates = find_duplicates(texts, tags)
>>> print(duplicates[0])
rows 1, 2, 3: red in 2 of 3
>>> [change[:4] for change in duplicates.changes()]
[(2, 'addition', '', 'red')]
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from schirn._files import brief_list
from schirn._input import Array, Number, check_same_length, is_missing
from schirn.cleaning._arguments import check_same_order, read_candidates
from schirn.cleaning.changes import Change
from schirn.cleaning.noisy_labels import NoisyLabels
from schirn.exceptions import InputError
from schirn.labels.tags import Tags

SIMILARITY = 0.8

_WORD = re.compile(r"\w+")
# Maximum number of earlier rows per rare word that a row is compared with.
_MOST_SHARING = 100
_SHOWN_ROWS = 5


class DifferingTag(NamedTuple):
    """A tag that some rows of a group have and others lack.

    Attributes
    ----------
    tag : str
        Name of the tag.
    rows : list of int
        Rows of the group that have it.
    share : float
        Share of the rows of the group that have it.
    confidence : float
        Mean confidence of the tag in the rows of the group; NaN without a ranking.
    is_likely : bool or None
        Decision of the majority, or of the ranking if the group is divided; None if undecided.
    """

    tag: str
    rows: list[int]
    share: float
    confidence: float
    is_likely: bool | None


@dataclass(frozen=True)
class DuplicateGroup:
    """Rows with nearly the same text, and the tags in which they differ.

    Attributes
    ----------
    rows : list of int
        Row numbers from 0, ascending.
    differing : list of DifferingTag
        Sorted by name.
    """

    rows: list[int]
    differing: list[DifferingTag]

    def __str__(self) -> str:
        n_rows = len(self.rows)
        names = [f"{tag.tag} in {len(tag.rows)} of {n_rows}" for tag in self.differing]
        numbers = ", ".join(str(row + 1) for row in self.rows[:_SHOWN_ROWS])
        ending = "" if n_rows <= _SHOWN_ROWS else f" and {n_rows - _SHOWN_ROWS} more"
        return f"rows {numbers}{ending}: {brief_list(names)}"


@dataclass(frozen=True)
class Duplicates:
    """Groups of near-duplicate rows that differ in their tags.

    Attributes
    ----------
    groups : list of DuplicateGroup
        The groups, with the most differing tags first.
    n_rows : int
        Number of rows that are nearly equal to an earlier row, whatever their tags.
    """

    groups: list[DuplicateGroup]
    n_rows: int

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[DuplicateGroup]:
        return iter(self.groups)

    def __getitem__(self, position: int) -> DuplicateGroup:
        return self.groups[position]

    def changes(self) -> list[Change]:
        """Return the changes that give all rows of a group its likely tags, sorted by row.

        Undecided tags stay unchanged. Pass the changes to `ChangeList.from_cells` to apply and
        undo them.

        Returns
        -------
        list of Change
        """
        changes = [change for group in self.groups for change in _changes(group)]
        return sorted(changes, key=lambda change: change.row)


def find_duplicates(
    texts: Iterable[Any],
    tags: Any,
    *,
    ranking: NoisyLabels | None = None,
    similarity: float = SIMILARITY,
    separator: str = ";",
) -> Duplicates:
    """Find rows whose texts are nearly the same although their tags are not.

    Parameters
    ----------
    texts : sequence of n texts
        Texts of the rows.
    tags : 0/1 matrix, DataFrame, list of lists of names, or strings such as "beach;dog"
        Tags of the rows.
    ranking : NoisyLabels, optional
        Decides if the majority of a group does not.
    similarity : float, default=0.8
        Minimum Jaccard similarity of the words of two rows that count as copies. Case, order and
        punctuation do not matter.
    separator : str, default=";"
        Text between tags.

    Returns
    -------
    Duplicates

    Raises
    ------
    InputError
        If texts, tags and ranking differ in their number of rows.
    """
    Number(0, high=1, open_low=True).check("similarity", similarity)
    if isinstance(texts, str):
        raise InputError("texts must be a sequence of texts, not one text", parameter="texts")
    check_same_order(("texts", texts), ("tags", tags))
    words = [_words(text) for text in texts]
    table = read_candidates(tags, None, separator, "tags")
    check_same_length(len(words), table.n_rows)
    if ranking is not None and ranking.n_rows != table.n_rows:
        raise InputError(
            f"the ranking is about {ranking.n_rows} rows, not {table.n_rows}", parameter="ranking"
        )
    leaders = near_copies(words, similarity)
    members: dict[int, list[int]] = {}
    for row, leader in enumerate(leaders.tolist()):
        members.setdefault(leader, []).append(row)
    names = _names_of_rows(table)
    confidence = {} if ranking is None else _confidence(ranking)
    groups = []
    for rows in members.values():
        differing = _differing(rows, names, confidence) if len(rows) > 1 else []
        if differing:
            groups.append(DuplicateGroup(rows, differing))
    groups.sort(key=lambda group: (-len(group.differing), group.rows))
    return Duplicates(groups, len(words) - len(members))


def near_copies(words: Sequence[frozenset[str]], similarity: float) -> Array:
    """Return the earlier row that each row nearly copies, or the row itself if there is none.

    Two sets whose similarity is at least t share one of their rarest words, so only rows that share
    such a word are compared.

    Parameters
    ----------
    words : sequence of frozenset of str
        Words of each row. Rows without words are not copies of each other.
    similarity : float
        Minimum share of common words.

    Returns
    -------
    int array
    """
    frequency = Counter(word for row in words for word in row)
    by_word: dict[str, list[int]] = {}
    leaders = np.arange(len(words))
    first_with: dict[frozenset[str], int] = {}
    for row, row_words in enumerate(words):
        if not row_words:
            continue
        leader = first_with.setdefault(row_words, row)
        if leader != row:
            leaders[row] = leaders[leader]
            continue
        rarest = sorted(row_words, key=lambda word: (frequency[word], word))
        n_prefix = len(row_words) - int(np.ceil(similarity * len(row_words) - 1e-9)) + 1
        prefix = rarest[:n_prefix]
        neighbours = {neighbour for word in prefix for neighbour in by_word.get(word, ())}
        best = _most_similar(row_words, sorted(neighbours), words, similarity)
        if best is not None:
            leaders[row] = best
            continue
        for word in prefix:
            sharing = by_word.setdefault(word, [])
            if len(sharing) < _MOST_SHARING:
                sharing.append(row)
    return leaders


def _most_similar(
    row_words: frozenset[str],
    rows: Sequence[int],
    words: Sequence[frozenset[str]],
    similarity: float,
) -> int | None:
    """Return the most similar of the given rows, or None if none is similar enough."""
    best = None
    best_share = similarity - 1e-9
    for row in rows:
        n_common = len(row_words & words[row])
        share = n_common / (len(row_words) + len(words[row]) - n_common)
        if share > best_share:
            best = row
            best_share = share
    return best


def _words(text: Any) -> frozenset[str]:
    """Return the words of a text, or pairs of letters in scripts without spaces."""
    if is_missing(text):
        return frozenset()
    words = _WORD.findall(str(text).casefold())
    pairs: list[str] = []
    for word in words:
        if len(word) > 2 and "\u2e80" <= word[0]:
            pairs += [word[k : k + 2] for k in range(len(word) - 1)]
    return frozenset(pairs or words)


def _names_of_rows(tags: Tags) -> list[set[str]]:
    names: list[set[str]] = [set() for _ in range(tags.n_rows)]
    for row, column in zip(tags.row.tolist(), tags.column.tolist(), strict=True):
        names[row].add(tags.names[column])
    return names


def _confidence(ranking: NoisyLabels) -> dict[tuple[int, str], float]:
    """Return the confidence of the listed and the possibly missing tags, by row and name."""
    confidence: dict[tuple[int, str], float] = {}
    for source in (ranking.missing, ranking):
        names = [source.label_names[j] for j in source.column.tolist()]
        cells = zip(source.row.tolist(), names, strict=True)
        confidence.update(zip(cells, source.confidence.tolist(), strict=True))
    return confidence


def _differing(
    rows: list[int], names: list[set[str]], confidence: dict[tuple[int, str], float]
) -> list[DifferingTag]:
    """Return the tags that some of the rows have and others lack."""
    counts = Counter(tag for row in rows for tag in names[row])
    differing = []
    for tag in sorted(tag for tag, count in counts.items() if count < len(rows)):
        values = [confidence[row, tag] for row in rows if (row, tag) in confidence]
        mean = float(np.mean(values)) if values else float("nan")
        share = counts[tag] / len(rows)
        is_likely: bool | None = share > 0.5
        if share == 0.5:
            is_likely = mean > 0.5 if values else None
        with_tag = [row for row in rows if tag in names[row]]
        differing.append(DifferingTag(tag, with_tag, share, mean, is_likely))
    return differing


def _changes(group: DuplicateGroup) -> Iterator[Change]:
    for tag in group.differing:
        why = f"{len(tag.rows)} of {len(group.rows)} rows with this text have {tag.tag}"
        if tag.share == 0.5:
            why += f"; its confidence is {tag.confidence:.2f}"
        with_tag = set(tag.rows)
        if tag.is_likely:
            for row in group.rows:
                if row not in with_tag:
                    yield Change(row, "addition", "", tag.tag, tag.share, why)
        elif tag.is_likely is not None:
            for row in tag.rows:
                yield Change(row, "removal", tag.tag, "", 1 - tag.share, why)

"""Look at a table before judging it: what is evidently odd about its tags and rows.

Each kind of oddity is one `Finding`, with its number, an example and what to do about it. Nothing
is changed. The cost grows with the number of words, not with the number of pairs of rows or tags:
rows that share most of their word pairs share the smallest of their hashes with high probability
(MinHash), and only rows that share four of them are compared.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._files import brief
from schirn._input import Array, canonical, check_same_length, is_missing
from schirn.labels.tags import Tags, read_tags
from schirn.scale.copies import equal_rows
from schirn.tables.merges import Merge, merges_of

TITLES = {
    "separator": "separator",
    "spelling": "spelling",
    "copies": "copies",
    "near_copies": "near-copies",
    "empty_texts": "empty texts",
    "tags_in_all_rows": "in all rows",
    "tags_in_one_row": "in one row",
}
KINDS = tuple(TITLES)
SEPARATORS = (";", ",", "|", "/", "\t")

_MAX_EXAMPLES = 20
# Two texts are near-copies if they share this share of the pairs of neighbouring words.
_SIMILAR = 0.8
# Texts that share 80% of their pairs agree in all hashes of one of the bands in 98% of cases.
_BANDS, _HASHES = 8, 4
_WORDS_AT_ONCE = 1_000_000
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Finding:
    """One kind of oddity in a table.

    Attributes
    ----------
    kind : str
        "separator", "spelling", "copies", "near_copies", "empty_texts", "tags_in_all_rows" or
        "tags_in_one_row".
    count : int
        Number of tags, or of rows that repeat another one.
    sentence : str
        What was found, with an example.
    advice : str
        What to do about it.
    examples : list of str
        The first twenty.
    rows : list of int
        Rows that are affected, from 0.
    tags : list of str
        Tags that are affected.
    merges : list of Merge
        For "spelling": the proposed merges.
    """

    kind: str
    count: int
    sentence: str
    advice: str
    examples: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)

    def __str__(self) -> str:
        return self.sentence

    @property
    def title(self) -> str:
        """The kind in words."""
        return TITLES[self.kind]

    def to_dict(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        return {**asdict(self), "merges": [merge._asdict() for merge in self.merges]}


def look_at_table(
    candidates: Any,
    *,
    texts: Sequence[str] | None = None,
    X: Any = None,
    label_names: Sequence[str] | None = None,
    separator: str = ";",
) -> list[Finding]:
    """Look at tags and rows before judging them.

    Parameters
    ----------
    candidates : 0/1 matrix, DataFrame, list of lists of names, or texts such as "beach;dog"
    texts : sequence of str, optional
        Text of each row, for empty texts, copies and near-copies.
    X : array, sparse matrix or RowFile, optional
        Features of each row, for copies if there are no texts.
    label_names : list of str, optional
        Names of the columns of a matrix.
    separator : str, default=";"
        Text between tags.

    Returns
    -------
    list of Finding
        At most one for each kind; none if nothing is odd.

    Examples
    --------
    >>> from schirn.cleaning import look_at_table
    >>> texts = ["A dog on the beach", "", "A dog on the beach", "A cat"] * 5
    >>> for finding in look_at_table(["dog;sand", "Dog", "dog", "cat;dog"] * 5, texts=texts):
    ...     print(finding)
    1 tag looks like another spelling: Dog (5 rows) → dog (15), case
    13 rows are copies of earlier ones, 5 of them with other tags, such as rows 1 and 3
    5 rows have no text, such as row 2
    """
    tags = read_tags(candidates, label_names, separator)
    findings = [_separator(tags, separator), _spelling(tags, texts)]
    if texts is not None:
        plain = ["" if is_missing(text) else " ".join(str(text).split()) for text in texts]
        check_same_length(len(plain), tags.n_rows)
        findings += [*_copied_texts(plain, tags), _empty_texts(plain)]
    elif X is not None:
        check_same_length(X.shape[0], tags.n_rows)
        findings.append(_copied_features(X, tags))
    findings += _extremes(tags)
    order = {kind: k for k, kind in enumerate(KINDS)}
    return sorted(filter(None, findings), key=lambda finding: order[finding.kind])


def _separator(tags: Tags, separator: str) -> Finding | None:
    """Tags that hold another separator, and whose parts are tags too."""
    names = [name for name, count in zip(tags.names, tags.counts, strict=True) if count]
    parts = {
        (name, other): [part for each in name.split(other) if (part := each.strip())]
        for name in names
        for other in SEPARATORS
        if other != separator and other in name
    }
    single = set(names) - {name for name, _ in parts}
    for other in SEPARATORS:
        split = {name: found for (name, by), found in parts.items() if by == other}
        joined = [name for name, found in split.items() if len(found) > 1 and single >= set(found)]
        # Where almost no tag stands alone, tags are found in any place, unlike parts of "Doe, Jane"
        # or of a path.
        first = Counter(found[0] for found in split.values() if found)
        later = Counter(part for found in split.values() for part in found[1:])
        in_both = sum((first + later)[part] for part in first.keys() & later.keys())
        if 2 * len(split) > len(names) and 2 * in_both > first.total() + later.total():
            joined = [name for name, found in split.items() if len(found) > 1]
        if joined:
            hold = "1 tag holds" if len(joined) == 1 else f"{len(joined):,} tags hold"
            return Finding(
                "separator",
                len(joined),
                f"{hold} {other!r} between names that are tags too{_such_as(joined)}"
                f"{brief(joined[0])}",
                f"Split these cells at {other!r}, or choose another separator.",
                [brief(name) for name in joined[:_MAX_EXAMPLES]],
                _rows_with(tags, joined),
                joined,
            )
    return None


def _spelling(tags: Tags, texts: Sequence[str] | None) -> Finding | None:
    merges = merges_of(tags, texts)
    if not merges:
        return None
    many = "1 tag looks" if len(merges) == 1 else f"{len(merges):,} tags look"
    names = [merge.before for merge in merges]
    return Finding(
        "spelling",
        len(merges),
        f"{many} like another spelling{_such_as(merges)}{merges[0]}",
        "Write the proposed merges to a file, delete those that are wrong, and merge the others.",
        [str(merge) for merge in merges[:_MAX_EXAMPLES]],
        _rows_with(tags, names),
        names,
        merges,
    )


def _empty_texts(texts: Sequence[str]) -> Finding | None:
    rows = [i for i, text in enumerate(texts) if not text]
    if not rows:
        return None
    have = "1 row has" if len(rows) == 1 else f"{len(rows):,} rows have"
    return Finding(
        "empty_texts",
        len(rows),
        f"{have} no text{_such_as(rows)}row {rows[0] + 1}",
        "Their tags are judged without a text; fill it in, or leave the rows out.",
        [f"row {i + 1}" for i in rows[:_MAX_EXAMPLES]],
        rows,
    )


def _copied_texts(texts: list[str], tags: Tags) -> list[Finding | None]:
    """Rows with the text of an earlier row, and rows with nearly that text."""
    first: dict[str, int] = {}
    copy_of = [first.setdefault(text, i) if text else i for i, text in enumerate(texts)]
    originals = list(first.values())
    near = _near_copies([texts[i] for i in originals])
    pairs = [(originals[a], originals[b]) for a, b in near]
    advice = "Delete copies that are not wanted; rows that belong together can form a group."
    copies = [(original, i) for i, original in enumerate(copy_of) if original != i]
    return [
        _pairs_finding("copies", copies, tags, texts, advice),
        _pairs_finding("near_copies", pairs, tags, texts, advice),
    ]


def _copied_features(X: Any, tags: Tags) -> Finding | None:
    X = canonical(X) if sp.issparse(X) else X if hasattr(X, "blocks") else np.asarray(X)
    same = equal_rows(X)
    distinct = int(same.max(initial=-1)) + 1
    # Features that repeat in most rows are a few categories.
    if distinct == tags.n_rows or 2 * distinct < tags.n_rows:
        return None
    first: dict[int, int] = {}
    number = [first.setdefault(group, i) for i, group in enumerate(same.tolist())]
    pairs = [(original, i) for i, original in enumerate(number) if original != i]
    advice = "Delete copies that are not wanted; rows that belong together can form a group."
    return _pairs_finding("copies", pairs, tags, None, advice)


def _pairs_finding(
    kind: str,
    pairs: list[tuple[int, int]],
    tags: Tags,
    texts: Sequence[str] | None,
    advice: str,
) -> Finding | None:
    if not pairs:
        return None
    lists: list[set[int]] = [set() for _ in range(tags.n_rows)]
    for row, column in zip(tags.row.tolist(), tags.column.tolist(), strict=True):
        lists[row].add(column)
    differ = [pair for pair in pairs if lists[pair[0]] != lists[pair[1]]]
    # Copies with other tags are those to look at first.
    ordered = differ + [pair for pair in pairs if lists[pair[0]] == lists[pair[1]]]
    what = kind.replace("_", "-")
    rows_are = "1 row is a " if len(pairs) == 1 else f"{len(pairs):,} rows are "
    noun = what.removesuffix("ies") + "y" if len(pairs) == 1 else what
    of = "an earlier one" if len(pairs) == 1 else "earlier ones"
    differing = "all" if len(differ) == len(pairs) else f"{len(differ):,}"
    others = f", {differing} of them with other tags" if len(pairs) > 1 else ", with other tags"

    def example(pair: tuple[int, int]) -> str:
        return f"rows {pair[0] + 1} and {pair[1] + 1}"

    def quoted(pair: tuple[int, int]) -> str:
        return "" if texts is None else f": {brief(texts[pair[1]], 80)}"

    return Finding(
        kind,
        len(pairs),
        f"{rows_are}{noun} of {of}{others if differ else ''}{_such_as(pairs)}{example(ordered[0])}",
        advice,
        [example(pair) + quoted(pair) for pair in ordered[:_MAX_EXAMPLES]],
        sorted(row for _, row in pairs),
    )


def _near_copies(texts: list[str]) -> list[tuple[int, int]]:
    """Pairs of an earlier text and a later one that shares most of its pairs of words.

    Every text is in at most one pair as the later one.
    """
    earlier: dict[int, int] = {}
    for band in _signatures(texts).T:
        order = np.lexsort((np.arange(len(texts)), band))
        same = np.flatnonzero(band[order][1:] == band[order][:-1])
        # Only neighbours in a bucket are compared, so that a large bucket costs no more.
        for a, b in zip(order[same].tolist(), order[same + 1].tolist(), strict=True):
            if b not in earlier:
                one, two = (set(pairwise(_words(texts[i]))) for i in (a, b))
                if len(one & two) >= _SIMILAR * len(one | two):
                    earlier[b] = a
    return sorted(((a, b) for b, a in earlier.items()), key=lambda pair: pair[1])


def _words(text: str) -> list[str]:
    """The words of a text, or its signs, after a mark that makes a pair of the first one."""
    return ["", *(_WORD.findall(text.casefold()) or [text])]


def _signatures(texts: list[str]) -> Array:
    """One number per text and band, equal where all smallest hashes of the band are equal."""
    signatures = np.zeros((len(texts), _BANDS), dtype=np.uint64)
    number: dict[str, int] = {"": 0}
    start = 0
    while start < len(texts):
        codes, begins, stop = array("Q"), [], start
        while stop < len(texts) and len(codes) < _WORDS_AT_ONCE:
            begins.append(len(codes))
            codes.extend([number.setdefault(word, len(number)) for word in _words(texts[stop])])
            stop += 1
        words = np.frombuffer(codes, dtype=np.uint64)
        # The last word of a text and the mark of the next one are no pair.
        inside = np.ones(len(words), dtype=bool)
        inside[np.array([*begins[1:], len(words)]) - 1] = False
        pairs = (_hashed(words, 0) + np.roll(words, -1))[inside]
        firsts = np.array(begins) - np.arange(len(begins))
        for k in range(_BANDS * _HASHES):
            lowest = np.minimum.reduceat(_hashed(pairs, k + 1), firsts)
            band = signatures[start:stop, k // _HASHES]
            band[:] = _hashed(band ^ lowest, 0)
        start = stop
    return signatures


def _hashed(values: Array, seed: int) -> Array:
    """Hash 64-bit integers (the finaliser of SplitMix64)."""
    z = values + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def _extremes(tags: Tags) -> Iterable[Finding | None]:
    """Tags that all rows have, and tags that one row has: neither can be judged."""
    counts, names = tags.counts, np.array(tags.names, dtype=object)
    all_rows = "They tell nothing apart and cannot be judged; leave them out."
    one_row = "They cannot be judged; are they typing errors, or names that nobody else uses?"
    for kind, mask, where, advice in (
        ("tags_in_all_rows", counts == tags.n_rows, "in all rows", all_rows),
        ("tags_in_one_row", counts == 1, "in one row only", one_row),
    ):
        chosen = names[mask].tolist() if tags.n_rows > 1 else []
        if chosen:
            yield Finding(
                kind,
                len(chosen),
                f"{'1 tag is' if len(chosen) == 1 else f'{len(chosen):,} tags are'} {where}"
                f"{_such_as(chosen)}{brief(chosen[0])}",
                advice,
                [brief(name) for name in chosen[:_MAX_EXAMPLES]],
                _rows_with(tags, chosen) if kind == "tags_in_one_row" else [],
                chosen,
            )


def _such_as(found: Sequence[Any]) -> str:
    """What stands before an example."""
    return ": " if len(found) == 1 else ", such as "


def _rows_with(tags: Tags, names: list[str]) -> list[int]:
    """Rows that have one of the tags."""
    wanted = set(names)
    columns = np.array([name in wanted for name in tags.names], dtype=bool)
    return np.unique(tags.row[columns[tags.column]]).tolist()

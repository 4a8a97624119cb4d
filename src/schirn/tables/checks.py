"""Look at a table before judging it: what is evidently odd about its tags and rows.

Each kind of oddity is one `Finding`, with its number, an example and what to do about it. Nothing
is changed. The cost grows with the number of words, not with the number of pairs of rows or tags.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from schirn._files import brief
from schirn._input import check_same_length, is_missing
from schirn.labels.tags import Tags, read_tags
from schirn.tables.merges import Merge, merges_of

KINDS = (
    *("separator", "spelling", "copies", "empty_texts"),
    *("tags_in_all_rows", "tags_in_one_row"),
)
SEPARATORS = (";", ",", "|", "/", "\t")

_MAX_EXAMPLES = 20
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Finding:
    """One kind of oddity in a table.

    Attributes
    ----------
    kind : str
        "separator", "spelling", "copies", "empty_texts", "tags_in_all_rows" or "tags_in_one_row".
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
        return self.kind.replace("_", " ")

    def to_dict(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        return asdict(self)


def look_at_table(
    candidates: Any,
    *,
    texts: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
    separator: str = ";",
) -> list[Finding]:
    """Look at tags and rows before judging them.

    Parameters
    ----------
    candidates : 0/1 matrix, DataFrame, list of lists of names, or texts such as "beach;dog"
    texts : sequence of str, optional
        Text of each row, for empty texts and copies.
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
        findings += [_copied_texts(plain, tags), _empty_texts(plain)]
    findings += _extremes(tags)
    return list(filter(None, findings))


def _separator(tags: Tags, separator: str) -> Finding | None:
    """Tags that hold another separator, and whose parts are tags too."""
    names = [name for name, count in zip(tags.names, tags.counts, strict=True) if count]
    parts = {
        (name, mark): [part for piece in name.split(mark) if (part := piece.strip())]
        for name in names
        for mark in SEPARATORS
        if mark != separator and mark in name
    }
    single = set(names) - {name for name, _ in parts}
    for mark in SEPARATORS:
        split = {name: words for (name, by), words in parts.items() if by == mark}
        joined = [name for name, words in split.items() if len(words) > 1 and single >= set(words)]
        if joined:
            hold = "1 tag holds" if len(joined) == 1 else f"{len(joined):,} tags hold"
            return Finding(
                "separator",
                len(joined),
                f"{hold} {mark!r} between names that are tags too{_such_as(joined)}"
                f"{brief(joined[0])}",
                f"Split these cells at {mark!r}, or choose another separator.",
                [brief(name) for name in joined[:_MAX_EXAMPLES]],
                _rows_with(tags, joined),
                joined,
            )
    return None


def _spelling(tags: Tags, texts: Sequence[str] | None) -> Finding | None:
    merges = merges_of(tags, texts)
    if not merges:
        return None
    count = "1 tag looks" if len(merges) == 1 else f"{len(merges):,} tags look"
    names = [merge.before for merge in merges]
    return Finding(
        "spelling",
        len(merges),
        f"{count} like another spelling{_such_as(merges)}{merges[0]}",
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


def _copied_texts(texts: list[str], tags: Tags) -> Finding | None:
    """Rows with the words of an earlier row, whatever their case and punctuation."""
    words = (" ".join(_WORD.findall(text.casefold())) or text for text in texts)
    first: dict[Any, int] = {}
    # No text is a copy of no text.
    keys = (key or i for i, key in enumerate(words))
    return _copies([first.setdefault(key, i) for i, key in enumerate(keys)], tags, texts)


def _copies(originals: list[int], tags: Tags, texts: Sequence[str]) -> Finding | None:
    """Rows that are copies, by the number of the first row that each is equal to."""
    pairs = [(original, i) for i, original in enumerate(originals) if original != i]
    if not pairs:
        return None
    lists: list[set[int]] = [set() for _ in range(tags.n_rows)]
    for row, column in zip(tags.row.tolist(), tags.column.tolist(), strict=True):
        lists[row].add(column)
    differ = [(a, b) for a, b in pairs if lists[a] != lists[b]]
    # Copies with other tags are those to look at first.
    ordered = differ + [(a, b) for a, b in pairs if lists[a] == lists[b]]
    names = [f"rows {a + 1} and {b + 1}" for a, b in ordered[:_MAX_EXAMPLES]]
    number = "all" if len(differ) == len(pairs) else f"{len(differ):,}"
    copies = f"{len(pairs):,} rows are copies of earlier ones"
    difference = f", {number} of them with other tags"
    if len(pairs) == 1:
        copies, difference = "1 row is a copy of an earlier one", ", with other tags"
    return Finding(
        "copies",
        len(pairs),
        f"{copies}{difference if differ else ''}{_such_as(pairs)}{names[0]}",
        "Delete copies that are not wanted; rows that belong together can form a group.",
        [f"{name}: {brief(texts[b], 80)}" for name, (_, b) in zip(names, ordered, strict=False)],
        sorted(row for _, row in pairs),
    )


def _extremes(tags: Tags) -> Iterable[Finding | None]:
    """Tags that all rows have, and tags that one row has: neither can be judged."""
    counts, names = tags.counts, np.array(tags.names, dtype=object)
    all_rows = "They distinguish no rows and cannot be judged; leave them out."
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


def _such_as(things: Sequence[Any]) -> str:
    """What stands before an example."""
    return ": " if len(things) == 1 else ", such as "


def _rows_with(tags: Tags, names: list[str]) -> list[int]:
    """Rows that have one of the tags."""
    chosen = set(names)
    columns = np.array([name in chosen for name in tags.names], dtype=bool)
    return np.unique(tags.row[columns[tags.column]]).tolist()

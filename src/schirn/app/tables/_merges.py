"""Tags that are spellings of one another: propose merges, keep them in a file, and make them.

Three kinds of spellings are told apart, from the surest to the least sure:

- Names that differ in case, spaces, hyphens or apostrophes only.
- Singular and plural.
- One typing error: a letter too many, too few, wrong or in the wrong place, inside a word of at
  least eight letters, in a tag that is at least ten times as rare as the other. Short words that
  differ by one letter (`horse`, `house`) are mostly other words.

The file has one line per merge, `from,to`, as CSV.
"""

import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from schirn._files import (
    brief,
    brief_list,
    csv_rows,
    spreadsheet_safe,
    spreadsheet_text,
    write_text,
)
from schirn._input import suggest
from schirn._text import check_size, header_delimiter
from schirn.app.tables._csv_table import CsvTable
from schirn.exceptions import DataError, InputError
from schirn.labels.tags import Tags, read_tags

_FIELDS = ("from", "to", "why", "from_rows", "to_rows")
_MAX_BYTES = 64 * 1024**2

# A typing error is rarer than the right spelling by at least this factor.
_RARER = 10
# Letters of a word in which a typing error is believed, and of the longest name.
_LONG_WORD = 8
_LONGEST_NAME = 80
# A spelling that this many other rows use, in texts or other tags, is a word of its own.
_WORD_ROWS = 3

# Spaces, hyphens, underscores and apostrophes inside a name, but not between two digits.
_GAP = re.compile(r"(?<=\w)(?:(?<!\d)[\s\-'’_]+|[\s\-'’_]+(?!\d))(?=\w)")
_WORD = re.compile(r"[^\W\d_]+")
_IRREGULAR = {
    "children": "child", "feet": "foot", "geese": "goose", "lice": "louse", "men": "man",
    "mice": "mouse", "people": "person", "teeth": "tooth", "women": "woman",
}  # fmt: skip
# Words that mean something else without their s.
_NO_PLURALS = """
arms arts cans clothes customs damages draughts glasses goods grounds greens heads irons jeans
letters looks manners means minutes news outskirts pants pyjamas savings scales series shorts
species spectacles spirits troops waters wits woods works
"""
_NOT_PLURAL = frozenset(_NO_PLURALS.split())


@dataclass(frozen=True)
class Merge:
    """A tag that seems to be another spelling of a more frequent one.

    Attributes
    ----------
    before, after : str
        The tag, and the one that should take its place.
    why : str
        "case", "spaces and hyphens", "plural" or "typing error".
    n_before, n_after : int
        Number of rows with each of them.
    """

    before: str
    after: str
    why: str
    n_before: int
    n_after: int

    def __str__(self) -> str:
        rows = "1 row" if self.n_before == 1 else f"{self.n_before:,} rows"
        name = brief_list([self.before])
        target = brief_list([self.after])
        return f"{name} ({rows}) → {target} ({self.n_after:,}), {self.why}"


def propose_merges(
    candidates: Any,
    *,
    label_names: Sequence[str] | None = None,
    texts: Sequence[str] | None = None,
    separator: str = ";",
) -> list[Merge]:
    """Find tags that are spellings of one another.

    The most frequent spelling takes the place of the others. Look at the list before you use it.

    Parameters
    ----------
    candidates : 0/1 matrix, DataFrame, list of lists of names, or texts such as "beach;dog"
    label_names : list of str, optional
        Names of the columns of a matrix.
    texts : sequence of str, optional
        Text of each row. A word that occurs in several texts is not taken for a typing error.
    separator : str, default=";"
        Text between tags.

    Returns
    -------
    list of Merge
        The merge that changes the most rows first.

    Examples
    --------
    >>> from schirn.app.tables import propose_merges
    >>> tags = ["Kids"] * 2 + ["kids"] * 3 + ["lighting"] * 20 + ["ligthing", "kid"]
    >>> for merge in propose_merges(tags):
    ...     print(merge)
    Kids (2 rows) → kids (3), case
    kid (1 row) → kids (3), plural
    ligthing (1 row) → lighting (20), typing error
    """
    return merges_of(read_tags(candidates, label_names, separator), texts)


def merges_of(tags: Tags, texts: Sequence[str] | None = None) -> list[Merge]:
    """Propose merges; see `propose_merges`."""
    counts = dict(zip(tags.names, tags.counts.tolist(), strict=True))
    counts = {name: count for name, count in counts.items() if count}
    groups: dict[str, list[str]] = defaultdict(list)
    for name in counts:
        groups[_key(name)].append(name)
    for key in list(groups):
        for singular in _singulars(key):
            if singular in groups and singular != key:
                groups[singular] += groups.pop(key)
                break

    def best(names: list[str]) -> str:
        return min(names, key=lambda name: (-counts[name], name != name.casefold(), name))

    members = {best(names): names for names in groups.values()}
    for rare, frequent in _typing_errors(tags, counts, members, texts):
        members[frequent] += members.pop(rare)
    merges = [
        Merge(name, target, _why(name, target), counts[name], counts[target])
        for target, names in members.items()
        for name in names
        if name != target
    ]
    return sorted(merges, key=lambda merge: (-merge.n_before, merge.before))


def _key(name: str) -> str:
    """The name without case, spaces, hyphens and invisible characters; short names stay."""
    key = "".join(
        c for c in unicodedata.normalize("NFKC", name).casefold() if unicodedata.category(c) != "Cf"
    )
    key = _GAP.sub("", key)
    # US is not us, and c++ is not c.
    return key if len(key) > 2 else name


def _singulars(key: str) -> Iterator[str]:
    """Forms of which the key may be the plural."""
    word = re.search(r"[^\W\d_]*$", key)[0]  # type: ignore[index]
    stem = key[: len(key) - len(word)]
    if word in _IRREGULAR:
        yield stem + _IRREGULAR[word]
    if len(word) < 4 or word in _NOT_PLURAL or not word.endswith("s"):
        return
    if word.endswith(("ss", "us", "is", "ics")):
        return
    yield key[:-1]
    if word.endswith("es") and len(word) > 4:
        yield key[:-2]
    if word.endswith("ies") and len(word) > 4:
        yield key[:-3] + "y"
    if word.endswith("ves") and len(word) > 4:
        yield from (key[:-3] + "f", key[:-3] + "fe")


def _why(name: str, target: str) -> str:
    if name.casefold() == target.casefold():
        return "case"
    if _key(name) == _key(target):
        return "spaces and hyphens"
    a = _key(name)
    b = _key(target)
    return "plural" if {*_singulars(a), a} & {*_singulars(b), b} else "typing error"


def _typing_errors(
    tags: Tags,
    counts: dict[str, int],
    members: dict[str, list[str]],
    texts: Sequence[str] | None,
) -> list[tuple[str, str]]:
    """Pairs of a rare name and the frequent one that it is an error of."""
    total = {name: sum(counts[tag] for tag in names) for name, names in members.items()}
    # Two texts one error apart are equal after at most one letter of each is deleted.
    frequent: dict[str, list[str]] = defaultdict(list)
    for name, count in total.items():
        if count >= _RARER:
            for shape in _shapes(_plain(name)):
                frequent[shape].append(name)
    highest = max(total.values(), default=0)
    errors: dict[str, tuple[str, str]] = {}
    for name, count in total.items():
        if count * _RARER > highest or not frequent:
            continue
        hits = {tag for shape in _shapes(_plain(name)) for tag in frequent.get(shape, ())}
        words = {
            target: word
            for target in hits
            if target != name
            and total[target] >= _RARER * count
            and (word := _mistyped(_plain(name), _plain(target)))
        }
        if words:
            target = min(words, key=lambda tag: (-total[tag], tag))
            errors[name] = target, words[target]
    if not errors:
        return []
    used = _uses({word for _, word in errors.values()}, total, texts)
    number = {name: j for j, name in enumerate(tags.names)}
    names = {tag for name, (target, _) in errors.items() for tag in (name, target)}
    rows = {name: set(tags.row[tags.column == number[name]].tolist()) for name in names}
    return [
        (name, target)
        for name, (target, word) in errors.items()
        # An error of a name that is itself an error would be a chain.
        if target not in errors
        and used[word] - total[name] < _WORD_ROWS
        and not rows[name] & rows[target]
    ]


def _plain(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def _shapes(text: str) -> Iterator[str]:
    if not _LONG_WORD - 1 <= len(text) <= _LONGEST_NAME:
        return
    yield text
    for k in range(len(text)):
        yield text[:k] + text[k + 1 :]


def _mistyped(rare: str, right: str) -> str:
    """The word of `rare` with one typing error that `right` has not; "" if it is no such error."""
    start = _n_shared(rare, right)
    end = _n_shared(rare[start:][::-1], right[start:][::-1])
    wrong = rare[start : len(rare) - end]
    correct = right[start : len(right) - end]
    is_swap = len(wrong) == 2 and wrong == correct[::-1]
    if not (wrong + correct).isalpha() or (max(len(wrong), len(correct)) > 1 and not is_swap):
        return ""
    # The letters of the word before the error and after it, which both spellings share.
    head = re.search(r"[^\W\d_]*$", rare[:start])[0]  # type: ignore[index]
    tail = re.match(r"[^\W\d_]*", rare[len(rare) - end :])[0]  # type: ignore[index]
    # Other letters at the ends make other words: employer and employee, legal and illegal.
    is_error = head and tail and len(head + min(wrong, correct, key=len) + tail) >= _LONG_WORD
    return head + wrong + tail if is_error else ""


def _n_shared(one: str, two: str) -> int:
    """Number of letters that both texts begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False)))


def _uses(words: set[str], total: dict[str, int], texts: Sequence[str] | None) -> Counter[str]:
    """In how many rows each of the words occurs, in the tags or in the texts."""
    used: Counter[str] = Counter()
    for name, count in total.items():
        for word in words & set(_WORD.findall(_plain(name))):
            used[word] += count
    for text in () if texts is None else texts:
        used.update(words & set(_WORD.findall(text.casefold())))
    return used


def merge_tags(
    candidates: Iterable[Any],
    merges: Mapping[str, str] | Iterable[Merge],
    *,
    separator: str = ";",
) -> list[list[str]]:
    """Return the tags of each row after merges, sorted by name.

    Parameters
    ----------
    candidates : list of lists of names, or texts such as "beach;dog"
    merges : dict from str to str, or list of Merge
        From a tag to the one that takes its place; what `read_merges` and `propose_merges` return.
    separator : str, default=";"
        Text between tags.

    Raises
    ------
    InputError
        For merges that are chained, and for tags that no row has.

    Examples
    --------
    >>> from schirn.app.tables import merge_tags
    >>> merge_tags(["beach;Dog", "dog;Dog"], {"Dog": "dog"})
    [['beach', 'dog'], ['dog']]
    """
    tags = read_tags(candidates, None, separator)
    pairs = merges if isinstance(merges, Mapping) else {m.before: m.after for m in merges}
    check_merges(pairs, {tags.names[j] for j in set(tags.column.tolist())})
    rows: list[dict[str, None]] = [{} for _ in range(tags.n_rows)]
    for row, column in zip(tags.row.tolist(), tags.column.tolist(), strict=True):
        name = tags.names[column]
        rows[row][pairs.get(name, name)] = None
    return [sorted(row) for row in rows]


def check_merges(merges: Mapping[str, str], known: Collection[str] | None = None) -> None:
    """Raise InputError for chains and circles, and for tags that are not `known`."""
    for tag, target in merges.items():
        if tag == target:
            raise InputError(f"{brief(tag)} is merged into itself; delete the line")
        if target in merges:
            raise InputError(
                f"{brief(tag)} is merged into {brief(target)}, which is merged into "
                f"{brief(merges[target])}; keep one of these merges"
            )
    for tag, target in merges.items():
        for name, what in ((tag, ""), (target, " to merge into")):
            if known is not None and name not in known:
                hint = suggest(name, known, hint="") or "delete the line"
                raise InputError(f"no row has the tag {brief(name)}{what}; {hint}")


def write_merges(merges: Iterable[Merge], path: str | os.PathLike[str]) -> None:
    """Write merges to a CSV file, to look at and to edit.

    Parameters
    ----------
    merges : list of Merge
        What `propose_merges` returned.
    path : path
    """
    rows = [
        (spreadsheet_safe(m.before), spreadsheet_safe(m.after), m.why, m.n_before, m.n_after)
        for m in merges
    ]
    write_text(path, "".join(csv_rows([_FIELDS, *rows])))


def read_merges(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read a list of merges.

    Parameters
    ----------
    path : path
        Lines ``from,to``, with or without a header. Only the first two columns count. Commas,
        semicolons or tabs separate them; empty lines are skipped.

    Returns
    -------
    dict from str to str

    Raises
    ------
    DataError
        If the file cannot be read, and for merges that are chained, circular or contradictory.
    """
    path = Path(path)
    check_size(path, _MAX_BYTES)
    table = CsvTable(path, "utf-8", header_delimiter(path) or ",")
    rows = [tuple(table.columns), *zip(*map(table.column, table.columns), strict=True)]
    merges: dict[str, str] = {}
    for k, cells in enumerate(rows if rows[0][:2] != _FIELDS[:2] else rows[1:], start=1):
        name, target = ([spreadsheet_text(cell).strip() for cell in cells] + [""])[:2]
        if not name or not target:
            raise DataError(f"{path}: merge {k}: a merge needs two tags, from and to")
        if merges.setdefault(name, target) != target:
            raise DataError(
                f"{path}: merge {k}: {brief(name)} is merged into {brief(merges[name])} as "
                f"well as into {brief(target)}; keep one of them"
            )
    try:
        check_merges(merges)
    except InputError as error:
        raise DataError(f"{path}: {error}") from None
    return merges

"""Checks of a table before ranking: evident problems of its tags and rows.

Each kind of problem is one `Finding`, with its count, an example and advice. Nothing is changed.
The cost grows with the number of words, not with the number of pairs of rows or tags.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from schirn._files import brief, brief_list
from schirn._input import check_same_length, is_missing
from schirn.cleaning import SAME_NAME, SEPARATORS, alike_pairs
from schirn.labels.tags import Tags, read_tags

KINDS = (
    "separator",
    "placeholders",
    "spelling",
    "copies",
    "empty_texts",
    "tags_in_all_rows",
    "tags_in_one_row",
)
# The only separator that is often part of a name.
_SLASH = "/"
# What people write instead of leaving a cell empty, in small letters.
_PLACEHOLDERS = ("n/a", "na", "none", "null", "-", "nan", "unknown", "tbd", "todo")
# "none" may be a level of its own, as in "licence::none", and "na" a name.
_PLACEHOLDERS_OF_A_LEVEL = ("n/a", "null", "nan", "unknown", "tbd", "todo")
_LEVEL = re.compile(r":+")

_MAX_EXAMPLES = 20
# Minimum number of rows of a tag with another separator that is a name of its own, and minimum
# share relative to the rows of its rarest part.
_NAME_ROWS = 3
_NAME_SHARE = 0.1
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Finding:
    """One kind of problem in a table.

    Attributes
    ----------
    kind : str
        "separator", "placeholders", "spelling", "copies", "empty_texts", "tags_in_all_rows" or
        "tags_in_one_row".
    count : int
        Number of affected tags or rows.
    sentence : str
        The problem in words, with an example.
    advice : str
        Recommended action.
    examples : list of str
        The first twenty examples.
    rows : list of int
        Affected rows, from 0.
    tags : list of str
        Affected tags.
    """

    kind: str
    count: int
    sentence: str
    advice: str
    examples: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return self.sentence

    @property
    def title(self) -> str:
        """The kind in words."""
        return self.kind.replace("_", " ")

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as a dictionary for JSON.

        Returns
        -------
        dict
        """
        return asdict(self)


def look_at_table(
    candidates: Any,
    *,
    texts: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
    separator: str = ";",
    former_names: Collection[str] = (),
) -> list[Finding]:
    """Check the tags and rows of a table before ranking.

    Parameters
    ----------
    candidates : 0/1 matrix, DataFrame, list of lists of names, or strings such as "beach;dog"
        Tags of the rows.
    texts : sequence of str, optional
        Text of each row, to find empty texts and copies.
    label_names : list of str, optional
        Names of the columns of a matrix.
    separator : str, default=";"
        Text between tags.
    former_names : collection of str
        Names that were merged into others, which cells may still contain between separators.

    Returns
    -------
    list of Finding
        At most one per kind; empty if there are no problems.

    Examples
    --------
    >>> from schirn.app.tables import look_at_table
    >>> texts = ["A dog on the beach", "", "A dog on the beach", "A cat"] * 5
    >>> for finding in look_at_table(["dog;sand", "Dog", "dog", "cat;dog"] * 5, texts=texts):
    ...     print(finding)
    1 tag looks like another spelling: Dog (5 rows) → dog (15), case
    13 rows are copies of earlier ones, 5 of them with other tags, such as rows 1 and 3
    5 rows have no text, such as row 2
    """
    tags = read_tags(candidates, label_names, separator)
    findings = [_separator(tags, separator, former_names), _placeholders(tags), _spelling(tags)]
    if texts is not None:
        plain = ["" if is_missing(text) else " ".join(str(text).split()) for text in texts]
        check_same_length(len(plain), tags.n_rows)
        findings += [_copied_texts(plain, tags), _empty_texts(plain)]
    findings += _extremes(tags)
    return list(filter(None, findings))


def _finding(
    kind: str,
    examples: list[str],
    words: tuple[str, str],
    fact: str,
    advice: str,
    rows: list[int],
    **about: Any,
) -> Finding | None:
    """Return a finding; None without examples.

    Parameters
    ----------
    kind, fact, advice : str
        Kind, parts of the sentence, and recommended action.
    examples : list of str
        All examples.
    words : tuple of str
        Start of the sentence about one example, and about several.
    rows : list of int
        Affected rows.
    **about
        Other fields, such as `tags`.
    """
    if not examples:
        return None
    count = len(examples)
    begin, end = (words[0], ": ") if count == 1 else (f"{count:,} {words[1]}", ", such as ")
    sentence = f"{begin}{fact}{end}{examples[0]}"
    return Finding(kind, count, sentence, advice, examples[:_MAX_EXAMPLES], rows, **about)


def _separator(tags: Tags, separator: str, former_names: Collection[str]) -> Finding | None:
    """Tags that hold another separator, and whose parts are tags too.

    If most tags with the other separator consist mostly of other tags, all of them count, even
    those with a part that no other row has.
    """
    counts = {name: n for name, n in zip(tags.names, tags.counts.tolist(), strict=True) if n}
    marks = [mark for mark in SEPARATORS if mark != separator]
    single = {name for name in (*counts, *former_names) if not any(m in name for m in marks)}
    joined: dict[str, str] = {}
    for mark in marks:
        parts = {name: _parts(name, mark) for name in counts if mark in name}
        parts = {name: words for name, words in parts.items() if len(words) > 1}
        known = {name: sum(word in single for word in words) for name, words in parts.items()}
        n_mostly = sum(known[name] >= max(2, len(words) / 2) for name, words in parts.items())
        separates = 2 * n_mostly > len(parts)
        for name, words in parts.items():
            is_certain = known[name] == len(words)
            if is_certain and separates if mark == _SLASH else is_certain or separates:
                joined.setdefault(name, mark)
    is_usual = 2 * len(joined) > len(counts)
    if not is_usual:
        joined = {name: mark for name, mark in joined.items() if not _is_name(name, mark, counts)}
    if not joined:
        return None
    used = [mark for mark in marks if mark in joined.values()]
    alternatives = " or ".join(map(repr, used))
    advice = f"Replace {alternatives} with {separator!r} where it separates tags, and run again."
    if is_usual:
        usual_mark = max(used, key=list(joined.values()).count)
        advice = f"Most tags do: run again with the separator {usual_mark!r}."
    names = sorted(joined, key=lambda name: used.index(joined[name]))
    return _finding(
        "separator",
        list(map(brief, names)),
        ("1 tag contains", "tags contain"),
        f" {alternatives} between the names of other tags",
        advice,
        _rows_with(tags, names),
        tags=names,
    )


def _parts(name: str, mark: str) -> list[str]:
    """Return the parts of a tag that a mark separates."""
    return [part for piece in name.split(mark) if (part := piece.strip())]


def _is_name(name: str, mark: str, counts: dict[str, int]) -> bool:
    """Check whether a tag with another separator is a name of its own, such as async/await."""
    rarest = min(counts.get(part.strip(), 0) for part in name.split(mark))
    return counts[name] >= _NAME_ROWS and counts[name] >= _NAME_SHARE * rarest


def _placeholders(tags: Tags) -> Finding | None:
    """Find placeholders: tags of several rows that mean "no tag"."""
    pairs = zip(tags.names, tags.counts.tolist(), strict=True)
    counts = {name: n for name, n in pairs if n > 1 and _is_placeholder(name)}
    names = sorted(counts, key=lambda name: -counts[name])
    return _finding(
        "placeholders",
        [f"{brief_list([name])} ({counts[name]:,} rows)" for name in names],
        ("1 tag seems", "tags seem"),
        " to mean that there is none",
        f"If so, drop it: pass a .csv file with the lines 'action,tag,accept' and "
        f"{brief(f'drop,{names[0]},yes', 40)} as --vocabulary."
        if names
        else "",
        _rows_with(tags, names),
        tags=names,
    )


def _is_placeholder(name: str) -> bool:
    """Whether a tag, or the last level of one such as "culture::TODO", stands for none."""
    word = name.strip().lower()
    level = _LEVEL.split(word)[-1].strip()
    return word in _PLACEHOLDERS or (level != word and level in _PLACEHOLDERS_OF_A_LEVEL)


def _spelling(tags: Tags) -> Finding | None:
    """Find tags that differ from a more frequent tag only in case, spaces, hyphens or accents."""
    counts = tags.counts
    present = np.flatnonzero(counts)
    names = [tags.names[j] for j in present.tolist()]
    targets: dict[int, tuple[int, str]] = {}
    for pair, why in alike_pairs(names).items():
        if why not in SAME_NAME:
            continue
        rare, frequent = sorted(present[list(pair)].tolist(), key=lambda j: (counts[j], -j))
        best = targets.get(rare)
        if best is None or counts[frequent] > counts[best[0]]:
            targets[rare] = frequent, why
    chosen = sorted(targets, key=lambda j: (-counts[j], tags.names[j]))
    examples = []
    for rare in chosen:
        frequent, why = targets[rare]
        rows = "1 row" if counts[rare] == 1 else f"{counts[rare]:,} rows"
        name, target = (brief_list([tags.names[j]]) for j in (rare, frequent))
        examples.append(f"{name} ({rows}) → {target} ({counts[frequent]:,}), {why}")
    variants = [tags.names[j] for j in chosen]
    return _finding(
        "spelling",
        examples,
        ("1 tag looks", "tags look"),
        " like another spelling",
        "Let schirn vocabulary propose what to merge, and accept what is right.",
        _rows_with(tags, variants),
        tags=variants,
    )


def _empty_texts(texts: Sequence[str]) -> Finding | None:
    rows = [i for i, text in enumerate(texts) if not text]
    return _finding(
        "empty_texts",
        [f"row {i + 1}" for i in rows],
        ("1 row has", "rows have"),
        " no text",
        "Their tags are judged without a text; fill it in, or leave the rows out.",
        rows,
    )


def _copied_texts(texts: list[str], tags: Tags) -> Finding | None:
    """Find rows with the words of an earlier row, ignoring case and punctuation."""
    words = (" ".join(_WORD.findall(text.casefold())) or text for text in texts)
    first: dict[Any, int] = {}
    # Empty texts are not copies of each other.
    keys = (key or i for i, key in enumerate(words))
    originals = [first.setdefault(key, i) for i, key in enumerate(keys)]
    pairs = [(original, i) for i, original in enumerate(originals) if original != i]
    starts = np.searchsorted(tags.row, np.arange(1, tags.n_rows))
    columns = [of_row.tolist() for of_row in np.split(tags.column, starts)]
    # Copies with other tags come first, because they matter most.
    pairs.sort(key=lambda pair: columns[pair[0]] == columns[pair[1]])
    n_differ = sum(columns[a] != columns[b] for a, b in pairs)
    number = "" if len(pairs) == 1 else "all " if n_differ == len(pairs) else f"{n_differ:,} "
    finding = _finding(
        "copies",
        [f"rows {a + 1} and {b + 1}" for a, b in pairs],
        ("1 row is a copy of an earlier one", "rows are copies of earlier ones"),
        f", {number}{'of them ' if number else ''}with other tags" if n_differ else "",
        "Delete copies that are not wanted; rows that belong together can form a group.",
        sorted(row for _, row in pairs),
    )
    if finding is None:
        return None
    texts_of = (brief(texts[b], 80) for _, b in pairs)
    examples = [f"{name}: {text}" for name, text in zip(finding.examples, texts_of, strict=False)]
    return replace(finding, examples=examples)


def _extremes(tags: Tags) -> Iterable[Finding | None]:
    """Find tags of all rows, and tags of a single row: neither can be judged."""
    counts = tags.counts
    names = np.array(tags.names, dtype=object)
    all_rows = "They distinguish no rows and cannot be judged; leave them out."
    one_row = "They cannot be judged; are they typing errors, or names that nobody else uses?"
    for kind, mask, fact, advice in (
        ("tags_in_all_rows", counts == tags.n_rows, " in all rows", all_rows),
        ("tags_in_one_row", counts == 1, " in one row only", one_row),
    ):
        chosen = names[mask].tolist() if tags.n_rows > 1 else []
        rows = _rows_with(tags, chosen) if kind == "tags_in_one_row" else []
        words = ("1 tag is", "tags are")
        yield _finding(kind, list(map(brief, chosen)), words, fact, advice, rows, tags=chosen)


def _rows_with(tags: Tags, names: list[str]) -> list[int]:
    """Return the rows that have one of the tags."""
    chosen = set(names)
    columns = np.array([name in chosen for name in tags.names], dtype=bool)
    return np.unique(tags.row[columns[tags.column]]).tolist()

"""Vocabulary files: decisions about the tags of a table, to read, edit and write.

The file has the columns of `schirn.cleaning.VocabularyLine`. Files of merges, with lines such as
``ligthing,lighting``, are read as accepted merges.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from schirn._files import csv_rows, spreadsheet_safe, spreadsheet_text, write_text
from schirn._text import header_delimiter
from schirn.app.tables import open_table
from schirn.cleaning import NoisyLabels, Vocabulary
from schirn.cleaning.policy import KEEP
from schirn.cleaning.vocabulary import FIELDS
from schirn.exceptions import DataError, InputError

_MAX_BYTES = 64 * 1024**2
_NEEDED = ("action", "tag")
_MERGE = ("from", "to")


def read_vocabulary(path: str | os.PathLike[str]) -> Vocabulary:
    """Read a vocabulary from a file.

    Parameters
    ----------
    path : path
        A table with the columns `action`, `tag` and optionally `target`, `accept` and others of
        `schirn.cleaning.VocabularyLine`; or a list of merges with the columns `from` and `to`, or
        with two columns and no header.

    Returns
    -------
    Vocabulary

    Raises
    ------
    DataError
        If the file cannot be read, has other columns, or has accepted lines that contradict each
        other; the message names the lines.
    """
    path = Path(path)
    if path.is_file() and path.stat().st_size > _MAX_BYTES:
        raise DataError(f"{path}: is larger than {_MAX_BYTES // 1024**2} MB; is it a vocabulary?")
    # A single line of two tags is valid, so the separator must be found in the first line.
    mark = header_delimiter(path) if path.suffix.lower() == ".csv" else None
    table = open_table(path, delimiter=mark, empty=True)
    columns = {name: [_text(cell) for cell in table.column(name)] for name in table.columns}
    records, first = _records(columns, path)
    try:
        return Vocabulary.from_records(records, first)
    except InputError as error:
        raise DataError(f"{path}: {error}") from None


def vocabulary_in_training(notes: Mapping[str, Any]) -> tuple[Vocabulary, bool]:
    """Return the vocabulary used in training, and whether implied tags were added.

    Parameters
    ----------
    notes : dict
        Notes of a model file, as `schirn.persist.read_notes` returns them.

    Returns
    -------
    (Vocabulary, bool)
    """
    vocabulary = Vocabulary.from_records(notes.get("vocabulary", ()))
    add_implied = notes.get("add_implied", True)
    return vocabulary, add_implied


def _text(cell: Any) -> str:
    return "" if cell is None else spreadsheet_text(str(cell)).strip()


def _records(columns: Mapping[str, list[str]], path: Path) -> tuple[list[dict[str, str]], int]:
    """Return the records of a file, and the number of its first line."""
    names = [name.strip().casefold() for name in columns]
    lines = [list(cells) for cells in zip(*columns.values(), strict=True)]
    if not {*_NEEDED} <= {*names} and not {*_MERGE} <= {*names}:
        if len(names) < 2 or {*names} & {*FIELDS}:
            needed = ", ".join(_NEEDED)
            raise DataError(
                f"{path}: a vocabulary has the columns {needed}, not {', '.join(names)}"
            )
        # A list of merges without a header.
        lines.insert(0, [_text(name) for name in columns])
        names = [*_MERGE, *names[2:]]
        return list(_non_empty(names, lines)), 1
    return list(_non_empty(names, lines)), 2


def _non_empty(names: list[str], lines: list[list[str]]) -> Iterator[dict[str, str]]:
    for cells in lines:
        if any(cells):
            yield dict(zip(names, cells, strict=True))


def write_vocabulary(vocabulary: Vocabulary, path: str | os.PathLike[str]) -> None:
    """Write a vocabulary to a CSV file; fill in its column `accept` with yes or no.

    Parameters
    ----------
    vocabulary : Vocabulary
        The vocabulary.
    path : path
        File to write.
    """
    rows = [[_cell(value) for value in record.values()] for record in vocabulary.to_records()]
    write_text(path, "".join(csv_rows([FIELDS, *rows])))


def with_kept_tags(ranking: NoisyLabels, vocabulary: Vocabulary) -> NoisyLabels:
    """Return a ranking with the rule "keep" for each tag that a vocabulary keeps.

    Tags that it drops need no rule, because they were removed before the ranking.

    Parameters
    ----------
    ranking : NoisyLabels
        The ranking.
    vocabulary : Vocabulary
        The vocabulary.

    Returns
    -------
    NoisyLabels
    """
    for label in sorted(vocabulary.keeps.intersection(ranking.label_names)):
        ranking = ranking.with_rule(label, KEEP)
    return ranking


def _cell(value: Any) -> Any:
    return spreadsheet_safe(value) if isinstance(value, str) else value

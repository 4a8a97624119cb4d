"""The questions of an audit as a table that a person fills in, and the answers read back.

The file tells neither what the verdict on a tag is nor why the tag was drawn: who knows it answers
differently. Its last column names the sample, so that the same tags can be drawn again.
"""

import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from schirn._files import atomic_write, brief, csv_rows, spreadsheet_safe
from schirn._input import is_missing
from schirn.cleaning.audit import MISSING, TAGS, AuditSample
from schirn.cleaning.found import NoisyLabels
from schirn.exceptions import InputError
from schirn.tables.files import open_table

Array = np.ndarray

_RIGHT = ("yes", "y", "right", "correct", "true", "1", "1.0")
_WRONG = ("no", "n", "wrong", "incorrect", "false", "0", "0.0")
_UNTOLD = ("", "?", "unsure", "unknown")
_NEEDED = ("row", "tag", "right", "sample")


class Answers(NamedTuple):
    """What a filled table says, as `NoisyLabels.audited` takes it."""

    cells: AuditSample
    right: list[bool | None]
    """One answer for each cell; None if there is none."""
    extra: tuple[list[int], list[int], list[bool | None]] | None
    """Rows, columns and answers of the lines that do not belong to the sample, if there are any."""


def write_questions(
    path: str | os.PathLike[str],
    found: NoisyLabels,
    n: int = 50,
    *,
    of: str = TAGS,
    random_state: int = 0,
    texts: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
) -> AuditSample:
    """Draw tags to check and write them as a CSV file with an empty column, `right`.

    Parameters
    ----------
    path : path
    found : NoisyLabels
    n : int, default=50
        Number of tags.
    of : {"tags", "missing"}
        Whether to check listed or suggested tags.
    random_state : int, default=0
    texts, ids : sequence of str, optional
        Text and name of each row. Rows are numbered from 1.
    """
    cells = found.audit_sample(n, of=of, random_state=random_state)
    if not len(cells):
        what = "judged" if of == TAGS else "suggested"
        raise InputError(f"no tag was {what}, so there is none to check")
    shown = {"id": ids, "text": texts}
    columns = [name for name, cells_of in shown.items() if cells_of is not None]
    sample = f"audit:{of}:{n}:{random_state}:{cells.sha256[:16]}"
    lines: list[Any] = [("row", *columns, "tag", "right", "sample")]
    for i, label in zip(cells.row.tolist(), cells.label.tolist(), strict=True):
        values = [spreadsheet_safe(str(shown[name][i])) for name in columns]  # type: ignore[index]
        lines.append((i + 1, *values, spreadsheet_safe(label), "", sample))
    with atomic_write(path) as stream:
        stream.write("".join(csv_rows(lines)).encode("utf-8", "replace"))
    return cells


def read_answers(path: str | os.PathLike[str], found: NoisyLabels) -> Answers:
    """Read the table that `write_questions` wrote and a person filled in.

    A line with an empty `sample` is an answer about any other listed tag.

    Parameters
    ----------
    path : path
        A .csv, .tsv, .jsonl or .parquet file.
    found : NoisyLabels
        The verdicts from which the sample was drawn.
    """
    lines = _lines(path)
    cells = _same_sample(path, [line[4] for line in lines], found)
    about = found if cells.of == TAGS else found.missing
    # A spreadsheet may show a name with an apostrophe in front.
    pairs = list(zip((about.row + 1).tolist(), about.label.tolist(), strict=True))
    tag_of = {(row, spreadsheet_safe(label)): k for k, (row, label) in enumerate(pairs)}
    tag_of |= {pair: k for k, pair in enumerate(pairs)}
    position = {int(k): i for i, k in enumerate(cells.index)}
    answers: dict[int, tuple[bool | None, str]] = {}
    for where, row, tag, right, sample in lines:
        k = tag_of.get((row, tag))
        if k is None:
            no = "has no tag" if cells.of == TAGS else "gets no suggestion"
            raise InputError(f"{where}: row {row} of the table {no} {brief(tag)}")
        if k not in position and (sample or cells.of == MISSING):
            hint = "; leave the column 'sample' empty to answer other tags"
            raise InputError(
                f"{where}: the tag {brief(tag)} of row {row} is not in the sample"
                f"{hint if cells.of == TAGS else ''}"
            )
        before = answers.get(k)
        if before is not None and right is not None and before[0] not in (None, right):
            raise InputError(f"{where}: says the opposite of {before[1]} about the same tag")
        if before is None or before[0] is None:
            answers[k] = right, where.rpartition(", ")[2]
    if all(right is None for right, _ in answers.values()):
        raise InputError(
            f"{path}: there is no answer yet; write yes into the column 'right' if the tag is "
            f"right, no if it is wrong, and ? if you cannot tell"
        )
    given = [answers.get(k, (None, ""))[0] for k in cells.index.tolist()]
    others = [k for k in answers if k not in position]
    extra = (
        found.row[others].tolist(),
        found.column[others].tolist(),
        [answers[k][0] for k in others],
    )
    return Answers(cells, given, extra if others else None)


def _lines(path: str | os.PathLike[str]) -> list[tuple[str, int, str, bool | None, str]]:
    """Place, row number, tag, answer and sample of each line."""
    table = open_table(path, delimiter=_delimiter(path))
    absent = [name for name in _NEEDED if name not in table.columns]
    if absent:
        raise InputError(
            f"{path}: there is no column {absent[0]!r}, so these are not the answers of an audit; "
            f"draw the tags to check first",
            parameter="audit_sample",
        )
    lines = []
    cells = zip(*(table.column(name) for name in _NEEDED), strict=True)
    for number, (row, tag, right, sample) in enumerate(cells, 1):
        where = f"{path}, answer {number}"
        text = "" if is_missing(row) else str(row).strip().removesuffix(".0")
        if not re.fullmatch(r"[0-9]{1,15}", text):
            raise InputError(f"{where}: the row must be a number from 1, not {brief(row)}")
        word = "" if is_missing(right) else str(right).strip().lower()
        if word not in _RIGHT + _WRONG + _UNTOLD:
            raise InputError(f"{where}: {brief(right)} is not an answer; write yes, no or ?")
        answer = None if word in _UNTOLD else word in _RIGHT
        name = "" if is_missing(sample) else str(sample).strip()
        lines.append((where, int(text), "" if is_missing(tag) else str(tag), answer, name))
    return lines


def _delimiter(path: str | os.PathLike[str]) -> str | None:
    """Return the delimiter of a CSV file; spreadsheets may save with another one than they read."""
    if not str(path).lower().endswith(".csv") or not os.path.isfile(path):
        return None
    with open(path, "rb") as stream:
        head = stream.readline(4096)
    return next((mark for mark in ",;\t" if mark.encode() in head), None)


def _same_sample(path: str | os.PathLike[str], names: list[str], found: NoisyLabels) -> AuditSample:
    """Draw the sample that the lines name once more."""
    distinct = sorted(set(filter(None, names)))
    if len(distinct) != 1:
        what = "no line names a sample" if not distinct else "the lines belong to several samples"
        raise InputError(
            f"{path}: {what}; keep the column 'sample' as it was written", parameter="audit_sample"
        )
    pattern = rf"audit:({TAGS}|{MISSING}):([1-9][0-9]{{0,8}}):([0-9]{{1,18}}):([0-9a-f]{{16}})"
    parts = re.fullmatch(pattern, distinct[0])
    if parts is None:
        raise InputError(
            f"{path}: {brief(distinct[0])} in the column 'sample' is not the name of a sample",
            parameter="audit_sample",
        )
    cells = found.audit_sample(int(parts[2]), of=parts[1], random_state=int(parts[3]))
    if cells.sha256[:16] != parts[4]:
        raise InputError(
            f"{path}: the sample was drawn from other verdicts, so the table or the options have "
            f"changed since; use the same ones, or draw a new sample"
        )
    return cells

"""Questions as a table that a person fills in, and the answers read back.

The file says neither how suspicious a tag is nor why it was chosen, which would bias the answers.
Its last column says what was asked, so that the lines may be reordered, deleted or joined with
those of other files.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from schirn._files import atomic_write, brief, csv_rows, spreadsheet_safe, spreadsheet_text
from schirn._input import is_missing
from schirn.cleaning.certificate import Certificate, tags_digest
from schirn.cleaning.decisions import NOT_SURE, RIGHT, WRONG, Decision, RowContent
from schirn.cleaning.noisy_labels import NoisyLabels
from schirn.cleaning.questions import LISTED, MISSING, Questions
from schirn.exceptions import InputError
from schirn.tables.files import open_table

_RIGHT = ("yes", "y", "right", "correct", "true", "1", "1.0")
_WRONG = ("no", "n", "wrong", "incorrect", "false", "0", "0.0")
_UNSURE = ("?", "unsure", "unknown")
_COLUMNS = ("row", "tag", "right", "question")
_QUESTION = re.compile(
    rf"({LISTED}|{MISSING}):([0-9a-f]{{12}})(?::certificate:([a-z]+):([0-9]{{1,6}}):([0-9a-f]{{12}}))?"
)


class _Line(NamedTuple):
    """One answer."""

    where: str
    row: int
    label: str
    right: bool | None
    kind: str
    certificate: tuple[str, int, str] | None
    """What the certificate is about, the number of its draw, and the hash of its tags."""


def write_questions(
    path: str | os.PathLike[str],
    questions: Questions,
    ranking: NoisyLabels,
    *,
    certificate: Certificate | None = None,
    texts: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    earlier: Mapping[tuple[int, str], object] | None = None,
) -> None:
    """Write questions as a CSV file with an empty column, `right`, sorted by row.

    Parameters
    ----------
    path : path
    questions : Questions
    ranking : NoisyLabels
        What the questions are about.
    certificate : Certificate, optional
        What asks.
    texts, ids : sequence of str, optional
        Text and name of each row. Rows are numbered from 1.
    earlier : dict from (row, tag) to Decision, optional
        Answers from before a row has changed, which are shown.
    """
    question = f"{questions.kind}:{_table(ranking)}"
    if certificate is not None:
        question += f":certificate:{certificate.of}:{certificate.draw}"
        question += f":{certificate.tags_sha256[:12]}"
    shown = {"id": ids, "text": texts}
    columns = [name for name, cells in shown.items() if cells is not None]
    before = ("before",) if earlier else ()
    lines: list[Any] = [("row", *columns, "tag", *before, "right", "question")]
    for i, label in sorted(zip(questions.row.tolist(), questions.label.tolist(), strict=True)):
        values = [spreadsheet_safe(str(shown[name][i])) for name in columns]  # type: ignore[index]
        said = [spreadsheet_safe(str(earlier.get((i, label), "")))] if earlier else []
        lines.append((i + 1, *values, spreadsheet_safe(label), *said, "", question))
    with atomic_write(path) as stream:
        stream.write("".join(csv_rows(lines)).encode("utf-8", "replace"))


def read_answers(
    paths: Iterable[str | os.PathLike[str]], ranking: NoisyLabels
) -> tuple[NoisyLabels, Certificate | None]:
    """Return the ranking with the answers of some files, and the certificate that they continue.

    Answers may be in any order. Empty ones do not count.

    Parameters
    ----------
    paths : sequence of path
        .csv, .tsv, .jsonl or .parquet files.
    ranking : NoisyLabels
        What the questions were about.
    """
    table, answers = _table(ranking), dict[tuple[int, str, str], _Line]()
    paths = list(paths)
    for line in (line for path in paths for line in _lines(path, table)):
        key = line.row, line.label, line.kind
        before = answers.get(key)
        told = {line.right} if before is None else {line.right, before.right}
        if told == {True, False}:
            raise InputError(f"{line.where}: says the opposite of {before.where}")  # type: ignore[union-attr]
        if before is None or before.right is None:
            answers[key] = line
    if not answers:
        raise InputError(
            f"{paths[0]}: there is no answer yet; write yes into the column 'right' if the tag is "
            f"right, no if it is wrong, and ? if you cannot tell"
        )
    for kind in (LISTED, MISSING):
        lines = [each for each in answers.values() if (each.kind, each.certificate) == (kind, None)]
        ranking = ranking.answered(_asked(lines, ranking, kind), [each.right for each in lines])
    drawn = [each for each in answers.values() if each.certificate is not None]
    if not drawn:
        return ranking, None
    of, draw = drawn[0].certificate[:2]  # type: ignore[index]
    certificate = ranking.certify(of=of, random_state=max(draw - ranking.draws, 0))
    for each in drawn:
        if each.certificate != (of, draw, certificate.tags_sha256[:12]):
            raise InputError(
                f"{each.where}: was drawn from another set of tags, so the other answers or the "
                f"options have changed since; use the same ones, or draw again"
            )
    asked = _asked(drawn, ranking, drawn[0].kind)
    certificate = certificate.answered(asked, [each.right for each in drawn])
    return certificate.ranking or ranking, certificate


def answered_tags(
    paths: Iterable[str | os.PathLike[str]], ranking: NoisyLabels
) -> set[tuple[int, str]]:
    """Return row and name of the tags that files of answers are about."""
    plain = {spreadsheet_safe(name): name for name in ranking.label_names}
    names, lines = set(ranking.label_names), (_lines(path, _table(ranking)) for path in paths)
    return {
        (line.row, line.label if line.label in names else plain.get(line.label, line.label))
        for each in lines
        for line in each
    }


def write_questions_by_id(
    path: str | os.PathLike[str],
    questions: Questions,
    rows: RowContent,
    *,
    texts: Sequence[str],
    earlier: Mapping[tuple[int, str], object] | None = None,
) -> None:
    """Write questions that name rows by their ids, so that the table may change before the answer.

    Parameters
    ----------
    path : path
    questions : Questions
    rows : RowContent
        The rows that are asked about.
    texts : sequence of str
        Text of each row.
    earlier : dict from (row, tag) to Decision, optional
        Answers from before a row has changed, which are shown.
    """
    lines: list[Any] = [("id", "text", "tag", "before", "right", "columns", "content")]
    for i, label in zip(questions.row.tolist(), questions.label.tolist(), strict=True):
        before = "" if earlier is None else str(earlier.get((i, label), ""))
        shown = (rows.ids[i], texts[i], label, before, "", ",".join(rows.columns), rows.hashes[i])
        lines.append(tuple(map(spreadsheet_safe, shown)))
    with atomic_write(path) as stream:
        stream.write("".join(csv_rows(lines)).encode("utf-8", "replace"))


def read_answers_by_id(path: str | os.PathLike[str], who: str = "") -> list[Decision]:
    """Return the answers in a file of `write_questions_by_id`; empty ones do not count."""
    opened = open_table(path, delimiter=_delimiter(path))
    names = ("id", "tag", "right", "columns", "content")
    absent = [name for name in names if name not in opened.columns]
    if absent:
        raise InputError(
            f"{path}: there is no column {absent[0]!r}, so these are not answers by id"
        )
    decisions = []
    for number, values in enumerate(zip(*map(opened.column, names), strict=True), 1):
        texts = ["" if is_missing(v) else spreadsheet_text(str(v)) for v in values]
        right = _answer_of(texts[2], f"{path}, answer {number}")
        if right != "":
            columns = tuple(filter(None, texts[3].split(",")))
            decisions.append(Decision(texts[0], texts[1], right, who, "", columns, texts[4]))
    return decisions


def _answer_of(text: str, where: str) -> str:
    """Return "right", "wrong", "unsure" or, without an answer, ""."""
    word = text.strip().lower()
    words = {RIGHT: _RIGHT, WRONG: _WRONG, NOT_SURE: _UNSURE, "": ("",)}
    for answer, spellings in words.items():
        if word in spellings:
            return answer
    raise InputError(f"{where}: {brief(text)} is not an answer; write yes, no or ?")


def _table(ranking: NoisyLabels) -> str:
    """Short hash of the table of tags."""
    columns = (ranking.label_names, ranking.row, ranking.column)
    return tags_digest(ranking.n_rows, *columns)[:12]


def _asked(lines: list[_Line], ranking: NoisyLabels, kind: str) -> Questions:
    """Return the tags of some lines, as they are spelled in the table."""
    tags: Any = ranking if kind == LISTED else ranking.missing
    names = set(ranking.label_names)
    # A spreadsheet may show a name with an apostrophe in front.
    plain = {spreadsheet_safe(name): name for name in ranking.label_names}
    listed = set(zip(tags.row.tolist(), tags.label.tolist(), strict=True)) if lines else set()
    pairs = []
    for each in lines:
        label = each.label if each.label in names else plain.get(each.label, each.label)
        if (each.row, label) not in listed:
            raise InputError(
                f"{each.where}: row {each.row + 1} of the table has no {kind} tag "
                f"{brief(each.label)}"
            )
        pairs.append((each.row, label))
    return ranking.questions_about(pairs, kind)


def _lines(path: str | os.PathLike[str], table: str) -> list[_Line]:
    """Read the answers of a file that are not empty."""
    opened = open_table(path, delimiter=_delimiter(path))
    absent = [name for name in _COLUMNS if name not in opened.columns]
    if absent:
        raise InputError(
            f"{path}: there is no column {absent[0]!r}, so these are not answers; write a file of "
            f"questions first",
            parameter="questions",
        )
    lines = []
    cells = zip(*(opened.column(name) for name in _COLUMNS), strict=True)
    for number, values in enumerate(cells, 1):
        row, tag, right, question = ("" if is_missing(v) else str(v).strip() for v in values)
        where = f"{path}, answer {number}"
        word = _answer_of(right, where)
        if not word:
            continue
        if not re.fullmatch(r"[1-9][0-9]{0,14}", row.removesuffix(".0")):
            raise InputError(f"{where}: the row must be a number from 1, not {brief(row)}")
        asked = _QUESTION.fullmatch(question or f"{LISTED}:{table}")
        if asked is None:
            raise InputError(
                f"{where}: {brief(question)} is not a question of this program; keep the column "
                f"'question' as it was written, or leave it empty"
            )
        if asked[2] != table:
            raise InputError(
                f"{where}: the question is about another table, or its tags have changed since"
            )
        certificate = None if asked[3] is None else (asked[3], int(asked[4]), asked[5])
        answer = None if word == NOT_SURE else word == RIGHT
        number_of_row = int(row.removesuffix(".0")) - 1
        lines.append(_Line(where, number_of_row, tag, answer, asked[1], certificate))
    return lines


def _delimiter(path: str | os.PathLike[str]) -> str | None:
    """Return the delimiter of a CSV file; spreadsheets may save with another one than they read."""
    if not str(path).lower().endswith(".csv") or not os.path.isfile(path):
        return None
    with open(path, "rb") as stream:
        head = stream.readline(4096)
    return next((mark for mark in ",;\t" if mark.encode() in head), None)

"""Questions as a table that a person fills in, and the answers read back.

The file says neither how suspicious a tag is nor why it was chosen, which would bias the answers.
Its last column says what was asked, so that the lines may be reordered, deleted or joined with
those of other files: the table, the round of questions or the draw of a certificate, and a checksum
of all this, the row number, the tag, and what the row holds. A line that was edited, or that has
moved to another row, is refused.
"""

import hashlib
import json
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from schirn._files import atomic_write, brief, csv_rows, spreadsheet_safe, spreadsheet_text
from schirn._input import is_missing
from schirn._text import header_delimiter
from schirn.app.tables import open_table
from schirn.app.workflow._decisions import NOT_SURE, RIGHT, WRONG, Decision, RowContent
from schirn.cleaning import Round
from schirn.cleaning.certificate import Certificate, tags_digest
from schirn.cleaning.noisy_labels import NoisyLabels
from schirn.cleaning.questions import LISTED, MISSING, Questions, cells_of
from schirn.exceptions import InputError

_ANSWERS = {
    "": "",
    **dict.fromkeys(("yes", "y", "right", "correct", "true", "1", "1.0"), RIGHT),
    **dict.fromkeys(("no", "n", "wrong", "incorrect", "false", "0", "0.0"), WRONG),
    **dict.fromkeys(("?", "unsure", "unknown"), NOT_SURE),
}
_COLUMNS = ("right", "row", "tag", "question")
_QUESTION = re.compile(
    rf"(?P<kind>{LISTED}|{MISSING}):(?P<table>[0-9a-f]{{12}})"
    r"(?::certificate:(?P<of>[a-z]+):(?P<draw>[0-9]{1,6}):(?P<tags>[0-9a-f]{12}))?"
    r":(?P<round>[0-9]{1,9}-[0-9a-f]{0,8}(?:-[0-9]{1,12}){4})"
    r":(?P<id>[0-9a-f]{8}|-):(?P<inclusion>[0-9a-f]{8}):(?P<check>[0-9a-f]{12})"
)


@dataclass(frozen=True)
class _Line:
    """One answer."""

    where: str
    row: int
    label: str
    right: bool | None
    kind: str
    certificate: tuple[str, int, str] | None
    """What the certificate is about, the number of its draw, and the hash of its tags."""
    round: Round
    inclusion: float


def write_questions(
    path: str | os.PathLike[str],
    questions: Questions,
    ranking: NoisyLabels,
    *,
    certificate: Certificate | None = None,
    texts: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    content: Sequence[str] | None = None,
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
    content : sequence of str, optional
        What each row holds, such as its whole text. Answers about a row that holds something else
        by then, or has another name, are refused.
    earlier : dict from (row, tag) to Decision, optional
        Answers from before a row has changed, which are shown.
    """
    question = f"{questions.kind}:{_table(ranking)}"
    if certificate is not None:
        question += f":certificate:{certificate.of}:{certificate.draw}"
        question += f":{certificate.tags_sha256[:12]}"
    question += f":{_text_of_round(questions.round)}"
    inclusion = questions.inclusion
    inclusion = np.ones(len(questions)) if inclusion is None else inclusion
    inclusion_of = dict(zip(cells_of(questions), inclusion.tolist(), strict=True))
    cells = {"id": ids, "text": texts}
    columns = {name: values for name, values in cells.items() if values is not None}
    earlier_column = ("before",) if earlier else ()
    lines = []
    for i, label in sorted(cells_of(questions)):
        answer = [str(earlier.get((i, label), ""))] if earlier else []
        values = (str(column[i]) for column in columns.values())
        asked = f"{question}:{_id_hash(ids, i)}"
        bound = (asked, i, label, "" if content is None else content[i])
        sealed = f"{asked}:{_seal(inclusion_of[i, label], *bound)}"
        lines.append((str(i + 1), *values, label, *answer, "", sealed))
    _write(path, ("row", *columns, "tag", *earlier_column, "right", "question"), lines)


def read_answers(
    paths: Iterable[str | os.PathLike[str]],
    ranking: NoisyLabels,
    *,
    ids: Sequence[str] | None = None,
    content: Sequence[str] | None = None,
    draw_again: bool = False,
) -> tuple[NoisyLabels, Certificate | None]:
    """Return the ranking with the answers of some files, and the certificate that they continue.

    Answers may be in any order. Empty ones do not count.

    Parameters
    ----------
    paths : sequence of path
        .csv, .tsv, .jsonl or .parquet files.
    ranking : NoisyLabels
        What the questions were about.
    ids, content : sequence of str, optional
        Name of each row, and what it holds now; see `write_questions`.
    draw_again : bool, default=False
        Whether other tags may be removed than those that the last questions were drawn from. Their
        answers then count as earlier ones, and the next certificate needs more evidence.

    Returns
    -------
    tuple of NoisyLabels and Certificate or None
    """
    answers: dict[tuple[int, str, str], _Line] = {}
    paths = list(paths)
    for line in _lines(paths, ranking, ids, content):
        key = line.row, line.label, line.kind
        earlier = answers.get(key)
        if earlier is not None and {line.right, earlier.right} == {True, False}:
            raise InputError(f"{line.where}: says the opposite of {earlier.where}")
        if earlier is None or earlier.right is None:
            answers[key] = line
    if not answers:
        raise InputError(
            f"{paths[0]}: there is no answer yet; write yes into the column 'right' if the tag is "
            f"right, no if it is wrong, and ? if you cannot tell"
        )
    rounds: dict[tuple[str, Round], list[_Line]] = {}
    for line in answers.values():
        if line.certificate is None:
            rounds.setdefault((line.kind, line.round), []).append(line)
    for (kind, _), lines in sorted(rounds.items()):
        right = [line.right for line in lines]
        ranking = ranking.answered(_questions(lines, ranking, kind), right)
    draws: dict[tuple[int, str], list[_Line]] = {}
    for line in answers.values():
        if line.certificate is not None:
            of, draw, _ = line.certificate
            draws.setdefault((draw, of), []).append(line)
    for draw, of in sorted(draws):
        lines = draws[draw, of]
        right = [line.right for line in lines]
        questions = replace(_questions(lines, ranking, lines[0].kind), draw=draw)
        if (draw, of) == max(draws):
            certificate = ranking.certify(of=of, random_state=max(draw - ranking.draws, 0))
            drawn_from = of, draw, certificate.tags_sha256[:12]
            strangers = [line for line in lines if line.certificate != drawn_from]
            if not strangers:
                certificate = certificate.answered(questions, right)
                return certificate.ranking or ranking, certificate
            if not draw_again:
                raise InputError(
                    f"{strangers[0].where}: was drawn from another set of tags, so the other "
                    f"answers or the options have changed since; use the same ones, or draw again"
                )
        ranking = ranking.answered(questions, right)
    return ranking, None


def answered_tags(
    paths: Iterable[str | os.PathLike[str]],
    ranking: NoisyLabels,
    *,
    ids: Sequence[str] | None = None,
    content: Sequence[str] | None = None,
) -> set[tuple[int, str]]:
    """Return row and name of the tags that files of answers are about; see `read_answers`.

    Parameters
    ----------
    paths : sequence of path
        Files of answers.
    ranking : NoisyLabels
        What the questions were about.
    ids, content : sequence of str, optional
        Name of each row, and what it holds now.

    Returns
    -------
    set of (row, tag)
    """
    return {(line.row, line.label) for line in _lines(paths, ranking, ids, content)}


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
    lines = []
    columns = ",".join(rows.columns)
    for i, label in cells_of(questions):
        answer = "" if earlier is None else str(earlier.get((i, label), ""))
        lines.append((rows.ids[i], texts[i], label, answer, "", columns, rows.hashes[i]))
    _write(path, ("id", "text", "tag", "before", "right", "columns", "content"), lines)


def read_answers_by_id(path: str | os.PathLike[str], who: str = "") -> list[Decision]:
    """Return the answers in a file of `write_questions_by_id`; empty ones do not count.

    Parameters
    ----------
    path : path
    who : str
        Name of the person who answered.

    Returns
    -------
    list of Decision
    """
    decisions = []
    for _, right, cells in _read(path, ("right", "id", "tag", "columns", "content")):
        name, tag, columns, content = map(spreadsheet_text, cells)
        names = tuple(filter(None, columns.split(",")))
        decisions.append(Decision(name, tag, right, who, "", names, content))
    return decisions


def has_answers(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a table with at least one cell in its column `right`.

    Parameters
    ----------
    path : path
        Any file, which need not exist.

    Returns
    -------
    bool
    """
    if not os.path.isfile(path) or not os.path.getsize(path):
        return False
    table = open_table(path, delimiter=header_delimiter(path))
    cells = table.column("right") if "right" in table.columns else []
    return any(not is_missing(cell) and str(cell).strip() for cell in cells)


def _write(
    path: str | os.PathLike[str], names: Sequence[str], lines: Iterable[Sequence[str]]
) -> None:
    """Write a CSV file that no spreadsheet takes for formulas."""
    safe = [[spreadsheet_safe(cell) for cell in line] for line in lines]
    with atomic_write(path) as stream:
        stream.write("".join(csv_rows([names, *safe])).encode("utf-8", "replace"))


def _read(
    path: str | os.PathLike[str], names: Sequence[str]
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield where each answer of a file is, the answer, and the other cells; no empty answers."""
    table = open_table(path, delimiter=header_delimiter(path))
    absent = [name for name in names if name not in table.columns]
    if absent:
        raise InputError(
            f"{path}: there is no column {absent[0]!r}, so these are not answers; write a file of "
            f"questions first",
            parameter="questions",
        )
    for number, values in enumerate(zip(*map(table.column, names), strict=True), 1):
        right, *cells = ("" if is_missing(value) else str(value) for value in values)
        where = f"{path}, answer {number}"
        answer = _ANSWERS.get(right.strip().lower())
        if answer is None:
            raise InputError(f"{where}: {brief(right)} is not an answer; write yes, no or ?")
        if answer:
            yield where, answer, cells


def _table(ranking: NoisyLabels) -> str:
    """Short hash of the table of tags."""
    return tags_digest(ranking.n_rows, ranking.label_names, ranking.row, ranking.column)[:12]


def _questions(lines: list[_Line], ranking: NoisyLabels, kind: str) -> Questions:
    """Return the questions that some lines answer."""
    tags: Any = ranking if kind == LISTED else ranking.missing
    cells = set(cells_of(tags)) if lines else set()
    for line in lines:
        if (line.row, line.label) not in cells:
            raise InputError(
                f"{line.where}: row {line.row + 1} of the table has no {kind} tag "
                f"{brief(line.label)}"
            )
    questions = ranking.questions_about([(line.row, line.label) for line in lines], kind)
    inclusion = np.array([line.inclusion for line in lines])
    design = lines[0].round if lines else questions.round
    return replace(questions, round=design, inclusion=inclusion)


def _text_of_round(design: Round) -> str:
    return "-".join(map(str, design))


def _round_of_text(text: str) -> Round:
    number, name, *sizes = text.split("-")
    return Round(int(number), name, *map(int, sizes))


def _seal(inclusion: float, *bound: Any) -> str:
    """Inclusion probability, which nobody should read, and the checksum of a line."""
    value = struct.pack(">f", inclusion)
    key = _digest(bound)
    hidden = bytes(a ^ b for a, b in zip(value, key, strict=False))
    return f"{hidden.hex()}:{_digest([*bound, value.hex()]).hex()[:12]}"


def _id_hash(ids: Sequence[str] | None, i: int) -> str:
    return "-" if ids is None else _digest([ids[i]]).hex()[:8]


def _inclusion(hidden: str, *bound: Any) -> float:
    """Inclusion probability of a sealed line."""
    key = _digest(bound)
    value = bytes(a ^ b for a, b in zip(bytes.fromhex(hidden), key, strict=False))
    return float(struct.unpack(">f", value)[0])


def _digest(values: Sequence[Any]) -> bytes:
    return hashlib.sha256(json.dumps(list(values)).encode()).digest()


def _lines(
    paths: Iterable[str | os.PathLike[str]],
    ranking: NoisyLabels,
    ids: Sequence[str] | None,
    content: Sequence[str] | None,
) -> Iterator[_Line]:
    """Yield the answers of files, with the tags as they are spelled in the table."""
    table = _table(ranking)
    names = set(ranking.label_names)
    # A spreadsheet may show a name with an apostrophe in front.
    plain = {spreadsheet_safe(name): name for name in names}
    for where, right, cells in chain.from_iterable(_read(path, _COLUMNS) for path in paths):
        row, tag, text = (cell.strip() for cell in cells)
        row = row.removesuffix(".0")
        if not re.fullmatch(r"[1-9][0-9]{0,14}", row):
            raise InputError(f"{where}: the row must be a number from 1, not {brief(row)}")
        question = _QUESTION.fullmatch(text)
        if question is None:
            raise InputError(
                f"{where}: {brief(text)} is not a question of this program; keep the column "
                f"'question' as it was written, or delete the line"
            )
        kind, of, draw, tags = question.group("kind", "of", "draw", "tags")
        if question["table"] != table:
            raise InputError(
                f"{where}: the question is about another table, or its tags have changed since"
            )
        label = tag if tag in names else plain.get(tag, tag)
        i = int(row) - 1
        if i >= ranking.n_rows:
            raise InputError(f"{where}: there is no row {row}; the table has {ranking.n_rows:,}")
        asked = text.rsplit(":", 2)[0]
        bound = (asked, i, label, "" if content is None else content[i])
        inclusion = _inclusion(question["inclusion"], *bound)
        is_same = _seal(inclusion, *bound).partition(":")[2] == question["check"]
        if ids is not None and question["id"] != "-":
            is_same = is_same and _id_hash(ids, i) == question["id"]
        if not is_same:
            raise InputError(
                f"{where}: was asked about another row or tag, or row {row} has changed since; "
                f"delete the line, and ask again"
            )
        answer = None if right == NOT_SURE else right == RIGHT
        certificate = None if of is None else (of, int(draw), tags)
        design = _round_of_text(question["round"])
        yield _Line(where, i, label, answer, kind, certificate, design, inclusion)

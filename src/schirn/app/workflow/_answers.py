"""Questions as a table that a person fills in, and the answers read back.

The file hides how suspicious a tag is and why it was chosen, which would bias the answers. Its last
column, the *seal*, identifies the question, so that lines may be reordered, deleted or joined with
lines of other files. It holds the table, the round of questions or the draw of a certificate, and a
checksum of these, the row number, the tag and the content of the row. Lines that were edited, or
that have moved to another row, are rejected.
"""

import hashlib
import json
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from schirn._files import atomic_write, brief, csv_rows, spreadsheet_safe, spreadsheet_text
from schirn._input import is_missing
from schirn._text import header_delimiter
from schirn.app.tables import open_table
from schirn.app.workflow._decisions import NOT_SURE, RIGHT, WRONG, Decision, RowContent
from schirn.app.workflow._label_tools import BY_ID, Task, TaskAnswer, is_task_file, read_tasks
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


# Function of row, tag and answer: True if this answer of a labeling tool counts.
Counts = Callable[[int, str, str], bool]


@dataclass(frozen=True)
class _Line:
    """One answer."""

    where: str
    row: int
    label: str
    right: bool | None
    kind: str
    certificate: tuple[str, int, str] | None
    """Kind of the certificate's set, the number of its draw, and the hash of its tags."""
    round: Round
    inclusion: float
    who: str = ""
    when: str = ""
    """The time of an answer from a labeling tool; "" in other files."""

    @property
    def answer(self) -> str:
        """The answer as a word."""
        return NOT_SURE if self.right is None else RIGHT if self.right else WRONG

    @property
    def draw(self) -> int | None:
        """Number of the certificate's draw; None for a question of a round."""
        return None if self.certificate is None else self.certificate[1]


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
        File to write.
    questions : Questions
        The questions.
    ranking : NoisyLabels
        The ranking that the questions are about.
    certificate : Certificate, optional
        The certificate that asks.
    texts, ids : sequence of str, optional
        Text and name of each row. Rows are numbered from 1.
    content : sequence of str, optional
        Content of each row, such as its whole text. Answers are rejected if the content or the name
        of their row has changed by then.
    earlier : dict from (row, tag) to Decision, optional
        Earlier answers about rows that have changed since; they are shown.
    """
    tasks = question_tasks(
        questions,
        ranking,
        certificate=certificate,
        texts=texts,
        ids=ids,
        content=content,
        earlier=earlier,
    )
    columns = {"id": ids, "text": texts, "before": earlier or None}
    order = ("row", "id", "text", "tag", "before", "right", "question")
    names = [name for name in order if columns.get(name, "") is not None]
    lines = []
    for task in tasks:
        cells = {**vars(task), "row": str(task.row + 1), "right": ""}
        lines.append([cells[name] for name in names])
    _write(path, names, lines)


def question_tasks(
    questions: Questions,
    ranking: NoisyLabels,
    *,
    certificate: Certificate | None = None,
    texts: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    content: Sequence[str] | None = None,
    earlier: Mapping[tuple[int, str], object] | None = None,
) -> list[Task]:
    """Return questions with their seals, sorted by row; see `write_questions`.

    Parameters
    ----------
    questions : Questions
        The questions.
    ranking : NoisyLabels
        The ranking that the questions are about.
    certificate : Certificate, optional
        The certificate that asks.
    texts, ids, content : sequence of str, optional
        Text, name and content of each row.
    earlier : dict from (row, tag) to Decision, optional
        Earlier answers about rows that have changed since; they are shown.

    Returns
    -------
    list of Task
    """
    prefix = f"{questions.kind}:{_table(ranking)}"
    if certificate is not None:
        prefix += f":certificate:{certificate.of}:{certificate.draw}"
        prefix += f":{certificate.tags_sha256[:12]}"
    prefix += f":{_text_of_round(questions.round)}"
    inclusion = questions.inclusion
    inclusion = np.ones(len(questions)) if inclusion is None else inclusion
    cells = cells_of(questions)
    inclusion_of = dict(zip(cells, inclusion.tolist(), strict=True))
    confidence_of = dict(zip(cells, questions.confidence.tolist(), strict=True))
    tasks = []
    for i, label in sorted(cells):
        question = f"{prefix}:{_id_hash(ids, i)}"
        bound = (question, i, label, "" if content is None else content[i])
        task = Task(
            row=i,
            tag=label,
            question=f"{question}:{_seal(inclusion_of[i, label], *bound)}",
            id=None if ids is None else str(ids[i]),
            text=None if texts is None else str(texts[i]),
            before=str(earlier.get((i, label), "")) if earlier else None,
            confidence=confidence_of[i, label],
        )
        tasks.append(task)
    return tasks


def read_answers(
    paths: Iterable[str | os.PathLike[str]],
    ranking: NoisyLabels,
    *,
    ids: Sequence[str] | None = None,
    content: Sequence[str] | None = None,
    draw_again: bool = False,
    counts: Counts | None = None,
) -> tuple[NoisyLabels, Certificate | None]:
    """Return the ranking with the answers of some files, and the certificate that they continue.

    Answers may be in any order. Empty answers do not count.

    Parameters
    ----------
    paths : sequence of path
        .csv, .tsv, .jsonl or .parquet files, and .json exports of Label Studio or Argilla.
    ranking : NoisyLabels
        The ranking that the questions were about.
    ids, content : sequence of str, optional
        Name and present content of each row; see `write_questions`.
    draw_again : bool, default=False
        Allow the removed tags to differ from the set that the last questions were drawn from. Their
        answers then count as earlier answers, and the next certificate needs more evidence.
    counts : callable, optional
        Function of row, tag and answer that returns True if an answer of a labeling tool counts. By
        default all count, and contradictory answers raise InputError.

    Returns
    -------
    tuple of NoisyLabels and Certificate or None
    """
    answers: dict[tuple[int, str, str], _Line] = {}
    paths = list(paths)
    lines = list(_lines(paths, ranking, ids, content))
    if not lines:
        raise InputError(
            f"{paths[0]}: there is no answer yet; write yes into the column 'right' if the tag is "
            f"right, no if it is wrong, and ? if you cannot tell"
        )
    for line in _counting(lines, counts):
        key = line.row, line.label, line.kind
        earlier = answers.get(key)
        if earlier is not None and {line.right, earlier.right} == {True, False}:
            raise InputError(_opposite(line, earlier))
        if earlier is None or earlier.right is None:
            answers[key] = line
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
                    f"answers, the options or the version of this program have changed since; use "
                    f"the same ones, or draw again"
                )
        ranking = ranking.answered(questions, right)
    return ranking, None


def _counting(lines: Iterable[_Line], counts: Counts | None) -> list[_Line]:
    """Return the lines that count; only lines of labeling tools may not count."""
    if counts is None:
        return list(lines)
    return [line for line in lines if not line.when or counts(line.row, line.label, line.answer)]


def _opposite(line: _Line, earlier: _Line) -> str:
    """Return the error message about two contradictory answers."""
    if not line.when or not earlier.when:
        return f"{line.where}: says the opposite of {earlier.where}"
    return (
        f"{line.where}: {line.who or 'somebody'} says the opposite of "
        f"{earlier.who or 'somebody'} ({earlier.where}); a file of decisions keeps both answers, "
        f"and the later one counts"
    )


def answered_tags(
    paths: Iterable[str | os.PathLike[str]],
    ranking: NoisyLabels,
    *,
    ids: Sequence[str] | None = None,
    content: Sequence[str] | None = None,
    counts: Counts | None = None,
) -> dict[tuple[int, str], int | None]:
    """Return the tags answered in files, with the draw of the certificate that asked.

    See `read_answers`.

    Parameters
    ----------
    paths : sequence of path
        Files of answers.
    ranking : NoisyLabels
        The ranking that the questions were about.
    ids, content : sequence of str, optional
        Name and present content of each row.
    counts : callable, optional
        Function that returns True if an answer of a labeling tool counts.

    Returns
    -------
    dict from (row, tag) to int or None
        None for tags that no certificate asked about.
    """
    lines = _counting(_lines(paths, ranking, ids, content), counts)
    return {(line.row, line.label): line.draw for line in lines}


def task_decisions(
    paths: Iterable[str | os.PathLike[str]],
    ranking: NoisyLabels,
    rows: RowContent,
    *,
    ids: Sequence[str] | None = None,
    content: Sequence[str] | None = None,
) -> list[Decision]:
    """Return all answers in exports of labeling tools, with person and time.

    Parameters
    ----------
    paths : sequence of path
        Files of answers; files other than exports are ignored.
    ranking : NoisyLabels
        The ranking that the questions were about.
    rows : RowContent
        The rows that were ranked.
    ids, content : sequence of str, optional
        Name and present content of each row.

    Returns
    -------
    list of Decision
    """
    exports = [path for path in paths if is_task_file(path)]
    hashes = rows.hashes if exports else []
    decisions = []
    for line in _lines(exports, ranking, ids, content):
        about = (rows.columns, hashes[line.row], line.draw)
        name = rows.ids[line.row]
        decisions.append(Decision(name, line.label, line.answer, line.who, line.when, *about))
    return decisions


def write_questions_by_id(
    path: str | os.PathLike[str],
    questions: Questions,
    rows: RowContent,
    *,
    texts: Sequence[str],
    earlier: Mapping[tuple[int, str], object] | None = None,
) -> None:
    """Write questions that name rows by their ids, so that the table may change meanwhile.

    Parameters
    ----------
    path : path
        File to write.
    questions : Questions
        The questions.
    rows : RowContent
        The rows that are asked about.
    texts : sequence of str
        Text of each row.
    earlier : dict from (row, tag) to Decision, optional
        Earlier answers about rows that have changed since; they are shown.
    """
    lines = []
    columns = ",".join(rows.columns)
    for task in tasks_by_id(questions, rows, texts=texts, earlier=earlier):
        i = task.row
        earlier_answer = task.before or ""
        lines.append((rows.ids[i], texts[i], task.tag, earlier_answer, "", columns, rows.hashes[i]))
    _write(path, ("id", "text", "tag", "before", "right", "columns", "content"), lines)


def tasks_by_id(
    questions: Questions,
    rows: RowContent,
    *,
    texts: Sequence[str],
    earlier: Mapping[tuple[int, str], object] | None = None,
) -> list[Task]:
    """Return questions with their seals, which bind answers to ids and row contents.

    Parameters
    ----------
    questions : Questions
        The questions.
    rows : RowContent
        The rows that are asked about.
    texts : sequence of str
        Text of each row.
    earlier : dict from (row, tag) to Decision, optional
        Earlier answers about rows that have changed since; they are shown.

    Returns
    -------
    list of Task
        In the order of the questions.
    """
    tasks = []
    confidence = questions.confidence.tolist()
    for (i, label), p in zip(cells_of(questions), confidence, strict=True):
        id = rows.ids[i]
        columns = list(rows.columns)
        content = rows.hashes[i]
        seal = _seal_by_id(content, id, label, columns)
        task = Task(
            row=i,
            tag=label,
            question=f"{BY_ID}:{content}:{seal}:{json.dumps([id, columns])}",
            id=id,
            text=texts[i],
            before=(str(earlier.get((i, label), "")) or None) if earlier else None,
            confidence=p,
        )
        tasks.append(task)
    return tasks


def _seal_by_id(content: str, id: str, tag: str, columns: list[str]) -> str:
    return _digest([content, id, tag, columns]).hex()[:12]


def read_answers_by_id(path: str | os.PathLike[str], who: str = "") -> list[Decision]:
    """Read the answers in a file of `write_questions_by_id`; empty answers do not count.

    Parameters
    ----------
    path : path
        File of answers, or an export of a labeling tool with answers to `tasks_by_id`.
    who : str, default=""
        Name of the person who answered; exports contain the names of people themselves.

    Returns
    -------
    list of Decision
        Exports also provide the times.
    """
    if is_task_file(path):
        return [_decision_by_id(answer) for answer in read_tasks(path)]
    decisions = []
    for _, right, cells in _read(path, ("right", "id", "tag", "columns", "content")):
        name, tag, columns, content = map(spreadsheet_text, cells)
        names = tuple(filter(None, columns.split(",")))
        decisions.append(Decision(name, tag, right, who, "", names, content))
    return decisions


def _decision_by_id(answer: TaskAnswer) -> Decision:
    """Return the answer to one of `tasks_by_id`."""
    where = answer.where
    parts = answer.question.split(":", 3)
    try:
        begin, content, seal, about = parts
        id, columns = json.loads(about)
        is_question = begin == BY_ID and seal == _seal_by_id(content, id, answer.tag, columns)
    except (ValueError, TypeError, RecursionError):
        is_question = False
    if not is_question:
        raise InputError(
            f"{where}: is not a question of schirn update, or its tag was edited; pass answers to "
            f"the questions of schirn clean to schirn clean"
        )
    word = _answer(answer.right, where)
    return Decision(id, answer.tag, word, answer.who, answer.when, tuple(columns), content)


def has_answers(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a table with at least one cell in its column `right`.

    Parameters
    ----------
    path : path
        Any path; the file need not exist.

    Returns
    -------
    bool
    """
    if not os.path.isfile(path) or not os.path.getsize(path):
        return False
    if is_task_file(path):
        return bool(read_tasks(path))
    table = open_table(path, delimiter=header_delimiter(path))
    cells = table.column("right") if "right" in table.columns else []
    return any(not is_missing(cell) and str(cell).strip() for cell in cells)


def _write(
    path: str | os.PathLike[str], names: Sequence[str], lines: Iterable[Sequence[str]]
) -> None:
    """Write a CSV file in which spreadsheets find no formulas."""
    safe = [[spreadsheet_safe(cell) for cell in line] for line in lines]
    with atomic_write(path) as stream:
        stream.write("".join(csv_rows([names, *safe])).encode("utf-8", "replace"))


def _read(
    path: str | os.PathLike[str], names: Sequence[str]
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield place, answer and other cells of each line that has an answer."""
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
        answer = _answer(right, where)
        if answer:
            yield where, answer, cells


def _table(ranking: NoisyLabels) -> str:
    """Return a short hash of the table of tags."""
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
    """Return the encoded inclusion probability of a line, hidden from readers, and its checksum."""
    value = struct.pack(">f", inclusion)
    key = _digest(bound)
    hidden = bytes(a ^ b for a, b in zip(value, key, strict=False))
    return f"{hidden.hex()}:{_digest([*bound, value.hex()]).hex()[:12]}"


def _id_hash(ids: Sequence[str] | None, i: int) -> str:
    return "-" if ids is None else _digest([ids[i]]).hex()[:8]


def _inclusion(hidden: str, *bound: Any) -> float:
    """Return the inclusion probability of a sealed line."""
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
    """Yield the answers of files, with tags spelled as in the table."""
    table = _table(ranking)
    names = set(ranking.label_names)
    # A spreadsheet may add a leading apostrophe to a name.
    plain = {spreadsheet_safe(name): name for name in names}
    for cells in _cells(paths):
        where = cells.where
        row = cells.row.strip().removesuffix(".0")
        text = cells.question.strip()
        tag = cells.tag if cells.tag in names else cells.tag.strip()
        if not re.fullmatch(r"[1-9][0-9]{0,14}", row):
            raise InputError(f"{where}: the row must be a number from 1, not {brief(row)}")
        question = _QUESTION.fullmatch(text)
        if text.startswith(f"{BY_ID}:"):
            raise InputError(
                f"{where}: is a question of schirn update; read its answers with schirn update, "
                f"which adds them to the decisions"
            )
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
        prefix = text.rsplit(":", 2)[0]
        bound = (prefix, i, label, "" if content is None else content[i])
        inclusion = _inclusion(question["inclusion"], *bound)
        is_same = _seal(inclusion, *bound).partition(":")[2] == question["check"]
        if ids is not None and question["id"] != "-":
            is_same = is_same and _id_hash(ids, i) == question["id"]
        if not is_same:
            raise InputError(
                f"{where}: was asked about another row or tag, or row {row} has changed since; "
                f"delete the line, and ask again"
            )
        answer = None if cells.right == NOT_SURE else cells.right == RIGHT
        certificate = None if of is None else (of, int(draw), tags)
        design = _round_of_text(question["round"])
        asked_about = (where, i, label, answer, kind, certificate, design, inclusion)
        yield _Line(*asked_about, cells.who, cells.when)


def _cells(paths: Iterable[str | os.PathLike[str]]) -> Iterator[TaskAnswer]:
    """Yield the raw answers of files of any kind."""
    for path in paths:
        if is_task_file(path):
            for answer in read_tasks(path):
                yield replace(answer, right=_answer(answer.right, answer.where))
            continue
        for where, right, (row, tag, question) in _read(path, _COLUMNS):
            yield TaskAnswer(where, row, tag, question, right, "", "")


def _answer(text: str, where: str) -> str:
    """Return the answer that a string stands for; "" for none."""
    answer = _ANSWERS.get(text.strip().lower())
    if answer is None:
        raise InputError(f"{where}: {brief(text)} is not an answer; write yes, no or ?")
    return answer

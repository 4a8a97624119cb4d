"""Questions as a table that a person fills in, and the answers read back.

The file shows the other tags of the row. It says neither how suspicious a tag is nor why it was
chosen, which would bias the answers. Its last column records what was asked: the table, the round
of questions or the draw of a certificate, the columns of text that were shown, and a checksum of
these, the row number, the tag and the content of the row. Lines may therefore be reordered, deleted
or merged with those of other files. If the table has changed since, rows are found again by id or
content, and tags by the vocabulary.
Answers about rows or tags that are gone, and edited lines, do not count; a file whose lines are
mostly about another table is rejected.
"""

import hashlib
import json
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import numpy as np

from schirn._files import atomic_write, brief, csv_rows, spreadsheet_safe, spreadsheet_text
from schirn._input import is_missing
from schirn._text import header_delimiter
from schirn.app.tables import open_table
from schirn.app.workflow._decisions import NOT_SURE, RIGHT, WRONG, Decision, RowContent
from schirn.app.workflow._label_tools import BY_ID, Task, TaskAnswer, is_task_file, read_tasks
from schirn.cleaning import ANSWER_WORDS, Round, Vocabulary
from schirn.cleaning.certificate import Certificate, tags_digest
from schirn.cleaning.noisy_labels import NoisyLabels
from schirn.cleaning.questions import LISTED, MISSING, Questions, cells_of
from schirn.exceptions import InputError
from schirn.labels.tags import Tags

_NAMES = {True: RIGHT, False: WRONG, None: NOT_SURE}
_ANSWERS = {"": "", **{word: _NAMES[right] for word, right in ANSWER_WORDS.items()}}
_COLUMNS = ("right", "row", "tag", "question")
_QUESTION = re.compile(
    rf"(?P<kind>{LISTED}|{MISSING}):(?P<table>[0-9a-f]{{12}})"
    r"(?::certificate:(?P<of>[a-z]+):(?P<draw>[0-9]{1,6}):(?P<tags>[0-9a-f]{12}))?"
    r":(?P<round>[0-9]{1,9}-[0-9a-f]{0,8}(?:-[0-9]{1,12}){4})"
    r"(?::text:(?P<columns>[A-Za-z0-9_.~%,-]+))?"
    r":(?P<id>[0-9a-f]{8}|-):(?P<inclusion>[0-9a-f]{8}):(?P<check>[0-9a-f]{12})"
)


# Function of row, tag and answer: True if this answer of a labeling tool counts.
Counts = Callable[[int, str, str], bool]
# Maximum number of rows, the nearest ones, to compare with the row of a question.
_MOST_COMPARED = 10_000
_MAX_NAMED = 5


class RowIdentity(NamedTuple):
    """What answers are bound to, besides the table of tags.

    Attributes
    ----------
    ids, content : sequence of str or None
        Name and present content of each row, such as its whole text.
    vocabulary : Vocabulary
        What was applied to the tags: answers carry over to the new name of a tag, and those about
        dropped tags do not count.
    columns : sequence of str
        Columns of text that `content` is made from.
    content_of : callable, optional
        The content of each row made from other columns of text; None if one is not in the table.
    """

    ids: Sequence[str] | None = None
    content: Sequence[str] | None = None
    vocabulary: Vocabulary = Vocabulary()
    columns: Sequence[str] = ()
    content_of: Callable[[Sequence[str]], Sequence[str] | None] | None = None


@dataclass(frozen=True)
class _Line:
    """One answer."""

    where: str
    row: int
    """The row now; -1 if it was not found."""
    label: str
    """The tag as it is called now."""
    asked: tuple[int, str]
    """Row and tag when the question was asked."""
    right: bool | None
    kind: str
    certificate: tuple[str, int, str] | None
    """Kind of the certificate's set, the number of its draw, and the hash of its tags."""
    round: Round
    inclusion: float
    who: str = ""
    when: str = ""
    """The time of an answer from a labeling tool; "" in other files."""
    is_export: bool = False
    """Whether the answer is in the export of a labeling tool."""
    is_dropped: bool = False
    """Whether the vocabulary drops the tag."""
    is_listed: bool = True
    """Whether the row still lists the tag."""
    is_same_table: bool = True

    @property
    def counts(self) -> bool:
        """Whether the row and the tag are still there."""
        return self.row >= 0 and self.is_listed and not self.is_dropped

    @property
    def is_foreign(self) -> bool:
        """Whether the row of the question is not in the table."""
        return self.row < 0 and not self.is_dropped

    @property
    def left_the_draw(self) -> bool:
        """Whether the tag was drawn at random but is gone, so it represents no other tag."""
        design = self.round
        asks_all = 0 < design.n_open <= design.n_spread
        return self.row >= 0 and not self.counts and (self.inclusion < 1 or asks_all)

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
    columns: Sequence[str] = (),
    earlier: Mapping[tuple[int, str], object] | None = None,
    separator: str = ";",
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
    columns : sequence of str, optional
        Columns of text that `content` is made from.
    earlier : dict from (row, tag) to Decision, optional
        Earlier answers about rows that have changed since; they are shown.
    separator : str, default=";"
        Text between the other tags of a row.
    """
    tasks = question_tasks(
        questions,
        ranking,
        certificate=certificate,
        texts=texts,
        ids=ids,
        content=content,
        columns=columns,
        earlier=earlier,
    )
    shown = {"id": ids, "text": texts, "before": earlier or None}
    order = ("row", "id", "text", "tag", "other_tags", "before", "right", "question")
    names = [name for name in order if shown.get(name, "") is not None]
    lines = []
    for task in tasks:
        other_tags = _other_tags(ranking, task.row, task.tag, separator)
        cells = {**vars(task), "row": str(task.row + 1), "other_tags": other_tags, "right": ""}
        lines.append([cells[name] for name in names])
    _write(path, names, lines)


def _other_tags(ranking: NoisyLabels, row: int, tag: str, separator: str) -> str:
    """Return the other tags of a row as one text, without those that were called wrong."""
    start, end = np.searchsorted(ranking.row, (row, row + 1)).tolist()
    columns = ranking.column[start:end][ranking.answer[start:end] != 0]
    names = [ranking.label_names[j] for j in columns]
    gap = f"{separator} " if separator == separator.strip() else separator
    return gap.join(name for name in names if name != tag)


def question_tasks(
    questions: Questions,
    ranking: NoisyLabels,
    *,
    certificate: Certificate | None = None,
    texts: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    content: Sequence[str] | None = None,
    columns: Sequence[str] = (),
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
    columns : sequence of str, optional
        Columns of text that `content` is made from.
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
    if shown := _text_of_columns(columns):
        prefix += f":text:{shown}"
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


@dataclass(frozen=True)
class FileAnswers:
    """The answers of some files, from `read_answers`."""

    _paths: tuple[str | os.PathLike[str], ...]
    _lines: tuple[_Line, ...]

    def apply(
        self,
        ranking: NoisyLabels,
        *,
        draw_again: bool = False,
        counts: Counts | None = None,
        on_note: Callable[[str], None] | None = None,
    ) -> tuple[NoisyLabels, Certificate | None]:
        """Return the ranking with the answers, and the certificate that they continue.

        Answers may be in any order. If the table has changed since, the rounds of answers about
        rows or tags that are gone speak for the tags that are still there.

        Parameters
        ----------
        ranking : NoisyLabels
            The ranking that the questions were about.
        draw_again : bool, default=False
            Allow the removed tags to differ from the set that the last questions were drawn from.
            Their answers then count as earlier answers, and the next certificate needs more
            evidence.
        counts : callable, optional
            Whether an answer of a labeling tool counts: a function of row, tag and answer. By
            default all do, and people who contradict each other are an error.
        on_note : callable, optional
            Called with a sentence about the answers that do not count.

        Returns
        -------
        tuple of NoisyLabels and Certificate or None
        """
        lines = _with_missing(list(self._lines), ranking, on_note)
        if not lines:
            raise InputError(
                f"{self._paths[0]}: there is no answer yet; write yes into the column 'right' if "
                f"the tag is right, no if it is wrong, and ? if you cannot tell"
            )
        answers = _one_by_tag(_counting(lines, counts))
        ranking = _with_rounds(ranking, lines, answers)
        return _with_draws(ranking, lines, answers, draw_again)

    def tags(self, counts: Counts | None = None) -> dict[tuple[int, str], int | None]:
        """Return the answered tags, with the draw of the certificate that asked.

        Parameters
        ----------
        counts : callable, optional
            Whether an answer of a labeling tool counts; see `apply`.

        Returns
        -------
        dict from (row, tag) to int or None
            None for tags that no certificate asked about.
        """
        lines = _counting(self._lines, counts)
        return {(line.row, line.label): line.draw for line in lines if line.counts}

    def decisions(self, rows: RowContent) -> list[Decision]:
        """Return all answers in exports of labeling tools, with person and time.

        Parameters
        ----------
        rows : RowContent
            The rows that were ranked.

        Returns
        -------
        list of Decision
        """
        lines = [line for line in self._lines if line.is_export and line.counts]
        hashes = rows.hashes if lines else []
        decisions = []
        for line in lines:
            about = (rows.columns, hashes[line.row], line.draw)
            name = rows.ids[line.row]
            decisions.append(Decision(name, line.label, line.answer, line.who, line.when, *about))
        return decisions


def read_answers(
    paths: Iterable[str | os.PathLike[str]],
    tags: Tags,
    identity: RowIdentity,
    *,
    on_note: Callable[[str], None] | None = None,
) -> FileAnswers:
    """Read files of answers; raise InputError if they are about another table.

    Empty answers do not count, nor do those about rows or tags that are gone. No ranking is needed.

    Parameters
    ----------
    paths : sequence of path
        .csv, .tsv, .jsonl or .parquet files, and .json exports of Label Studio or Argilla.
    tags : Tags
        The tags that are ranked.
    identity : RowIdentity
        What the answers are bound to.
    on_note : callable, optional
        Called with a sentence about the answers that do not count.

    Returns
    -------
    FileAnswers
    """
    paths = tuple(paths)
    return FileAnswers(paths, tuple(_lines(paths, _Rows(tags, identity), on_note)))


def _one_by_tag(lines: Iterable[_Line]) -> list[_Line]:
    """Return one answer about each tag, from the lines that count."""
    answers: dict[tuple[int, str, str], _Line] = {}
    for line in lines:
        if not line.counts:
            continue
        key = line.row, line.label, line.kind
        earlier = answers.get(key)
        if earlier is not None and {line.right, earlier.right} == {True, False}:
            if line.asked == earlier.asked:
                raise InputError(_opposite(line, earlier))
            # Two names of one tag, or two copies of one row: there is no way to decide.
            line = replace(line, right=None)
            answers[key] = line
        if earlier is None or earlier.right is None:
            answers[key] = line
    return list(answers.values())


def _with_rounds(
    ranking: NoisyLabels, lines: Iterable[_Line], answers: Iterable[_Line]
) -> NoisyLabels:
    """Return the ranking with the answers to rounds of questions, round by round."""
    gone = {(line.kind, line.round, line.asked) for line in lines if line.left_the_draw}
    rounds: dict[tuple[str, Round], list[_Line]] = {}
    for line in answers:
        if line.certificate is None:
            rounds.setdefault((line.kind, line.round), []).append(line)
    for (kind, design), members in sorted(rounds.items()):
        n_gone = sum((kind, design) == about[:2] for about in gone)
        questions = _questions(members, ranking, kind)
        questions = replace(questions, round=design._replace(n_gone=n_gone))
        ranking = ranking.answered(questions, [line.right for line in members])
    return ranking


def _with_draws(
    ranking: NoisyLabels, lines: Iterable[_Line], answers: Sequence[_Line], draw_again: bool
) -> tuple[NoisyLabels, Certificate | None]:
    """Return the ranking with the answers to draws, and the certificate of the last draw."""
    draws: dict[tuple[int, str], list[_Line]] = {}
    for line in lines:
        if line.certificate is not None:
            of, draw, _ = line.certificate
            draws.setdefault((draw, of), []).append(line)
    for draw, of in sorted(draws):
        kind = draws[draw, of][0].kind
        members = [
            line
            for line in answers
            if line.certificate is not None and line.certificate[:2] == (of, draw)
        ]
        right = [line.right for line in members]
        questions = replace(_questions(members, ranking, kind), draw=draw)
        if (draw, of) == max(draws):
            certificate = ranking.certify(of=of, random_state=max(draw - ranking.draws, 0))
            drawn_from = of, draw, certificate.tags_sha256[:12]
            strangers = [line for line in draws[draw, of] if line.certificate != drawn_from]
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
    """Return the lines that count; others can only come from labeling tools."""
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
    questions = ranking.questions_about([(line.row, line.label) for line in lines], kind)
    inclusion = np.array([line.inclusion for line in lines])
    design = lines[0].round if lines else questions.round
    return replace(questions, round=design, inclusion=inclusion)


def _with_missing(
    lines: list[_Line], ranking: NoisyLabels, on_note: Callable[[str], None] | None
) -> list[_Line]:
    """Return the lines; those about missing tags that are no longer ranked do not count."""
    about_missing = [line for line in lines if line.kind == MISSING and line.counts]
    if not about_missing:
        return lines
    ranked = set(cells_of(ranking.missing))
    gone = {id(line) for line in about_missing if (line.row, line.label) not in ranked}
    if gone and on_note is not None:
        on_note(
            f"{len(gone)} of {len(lines)} answers do not count, since their tags are no longer "
            f"among those ranked as missing"
        )
    return [replace(line, is_listed=False) if id(line) in gone else line for line in lines]


def _text_of_round(design: Round) -> str:
    # Without `n_gone`, which is not known when the round asks.
    return "-".join(map(str, design[:-1]))


def _round_of_text(text: str) -> Round:
    number, name, *sizes = text.split("-")
    return Round(int(number), name, *map(int, sizes))


def _seal(inclusion: float, *bound: Any) -> str:
    """Return the encoded inclusion probability of a line, hidden from readers, and its checksum."""
    value = struct.pack(">f", inclusion)
    key = _digest(bound)
    hidden = bytes(a ^ b for a, b in zip(value, key, strict=False))
    return f"{hidden.hex()}:{_digest([*bound, value.hex()]).hex()[:12]}"


def _text_of_columns(columns: Iterable[str]) -> str:
    return ",".join(quote(str(name), safe="", errors="surrogatepass") for name in columns)


def _columns_of_text(text: str) -> list[str]:
    return [unquote(name) for name in text.split(",")]


def _id_hash(ids: Sequence[str] | None, i: int) -> str:
    return "-" if ids is None else _digest([ids[i]]).hex()[:8]


def _inclusion(hidden: str, *bound: Any) -> float:
    """Return the inclusion probability of a sealed line."""
    key = _digest(bound)
    value = bytes(a ^ b for a, b in zip(bytes.fromhex(hidden), key, strict=False))
    return float(struct.unpack(">f", value)[0])


def _digest(values: Sequence[Any]) -> bytes:
    return hashlib.sha256(json.dumps(list(values)).encode()).digest()


class _Rows:
    """The present rows and tags, among which those of the questions are found."""

    def __init__(self, tags: Tags, identity: RowIdentity) -> None:
        self.digest = tags_digest(tags.n_rows, tags.names, tags.row, tags.column)[:12]
        self.vocabulary = identity.vocabulary
        self._tags = tags
        self._ids = identity.ids
        self._content = identity.content
        self._content_of = identity.content_of
        self._contents = {_text_of_columns(identity.columns): identity.content}
        self._column = {name: j for j, name in enumerate(tags.names)}
        self._rows_of: dict[str, np.ndarray] = {}
        names = (*self._column, *self.vocabulary.merges, *self.vocabulary.drops)
        # A spreadsheet may show a name with an apostrophe in front.
        self._names = {spreadsheet_safe(name): name for name in names} | {n: n for n in names}

    def name(self, tag: str) -> str:
        """Return the name that a cell of a file shows."""
        return self._names.get(tag) or self._names.get(tag.strip(), tag.strip())

    def rows_of(self, label: str) -> np.ndarray:
        """Rows that list a tag."""
        if label not in self._rows_of:
            column = self._column.get(label, -1)
            self._rows_of[label] = self._tags.row[self._tags.column == column]
        return self._rows_of[label]

    def find(self, question: re.Match[str], i: int, label: str) -> tuple[int, float]:
        """Return the row that a question was about, and its inclusion probability.

        -1 and NaN if the row is not in the table.
        """
        prefix = question.string.rsplit(":", 2)[0]
        content = self._content_asked(question["columns"])
        for row in self._candidates(question, i, label, content):
            bound = (prefix, i, label, "" if content is None else content[row])
            inclusion = _inclusion(question["inclusion"], *bound)
            if _seal(inclusion, *bound).partition(":")[2] == question["check"]:
                return row, inclusion
        return -1, np.nan

    def _content_asked(self, columns: str | None) -> Sequence[str] | None:
        """Return the present content of the rows in the columns that a question showed."""
        if columns is None or self._content_of is None:
            return self._content
        if columns not in self._contents:
            content = self._content_of(_columns_of_text(columns))
            self._contents[columns] = self._content if content is None else content
        return self._contents[columns]

    def _candidates(
        self, question: re.Match[str], i: int, label: str, content: Sequence[str] | None
    ) -> Iterator[int]:
        """Yield the rows that a question may be about."""
        has_row = i < self._tags.n_rows
        if self._ids is not None and question["id"] != "-":
            if has_row and _id_hash(self._ids, i) == question["id"]:
                yield i
            yield from self._by_id.get(question["id"], ())
        elif question["table"] == self.digest:
            if has_row:
                yield i
        elif content is not None:
            # Rows without a name are recognised by their content.
            now = self.vocabulary.merges.get(label, label)
            rows = np.arange(self._tags.n_rows)
            if question["kind"] == LISTED and label not in self.vocabulary.drops:
                rows = self.rows_of(now)
            nearest = rows[np.argsort(np.abs(rows - i), kind="stable")][:_MOST_COMPARED]
            # The tag may have been removed from its row.
            candidates = [i, *nearest.tolist()] if has_row else nearest.tolist()
            yield from (row for row in candidates if content[row])

    @cached_property
    def _by_id(self) -> dict[str, list[int]]:
        """Rows by the hash of their id."""
        rows: dict[str, list[int]] = {}
        for i in range(len(self._ids or ())):
            rows.setdefault(_id_hash(self._ids, i), []).append(i)
        return rows


def _lines(
    paths: Iterable[str | os.PathLike[str]],
    rows: _Rows,
    on_note: Callable[[str], None] | None = None,
) -> Iterator[_Line]:
    """Yield all answers of files; a note counts those that do not count."""
    for path in paths:
        is_export = is_task_file(path)
        lines = [_line(cells, rows, is_export) for cells in _cells(path)]
        _check_about_this_table(path, lines)
        if on_note is not None:
            for sentence in _left_out(path, lines):
                on_note(sentence)
        yield from lines


def _line(cells: TaskAnswer, rows: _Rows, is_export: bool) -> _Line:
    """Return one answer with the row and the tag that it is about now."""
    where = cells.where
    row = cells.row.strip().removesuffix(".0")
    text = cells.question.strip()
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
    asked = int(row) - 1, rows.name(cells.tag)
    i, inclusion = rows.find(question, *asked)
    is_same_table = question["table"] == rows.digest
    vocabulary = rows.vocabulary
    label = vocabulary.merges.get(asked[1], asked[1])
    # The set of a certificate belongs to one table.
    certificate = None if of is None else (of, int(draw), tags if is_same_table else "")
    line = _Line(
        where,
        i,
        label,
        asked,
        None if cells.right == NOT_SURE else cells.right == RIGHT,
        kind,
        certificate,
        _round_of_text(question["round"]),
        inclusion,
        cells.who,
        cells.when,
        is_export=is_export,
        is_dropped=asked[1] in vocabulary.drops,
        is_listed=kind == MISSING or i in rows.rows_of(label),
        is_same_table=is_same_table,
    )
    if is_same_table and certificate is not None and not line.counts:
        raise InputError(_foreign(line))
    return line


def _foreign(line: _Line) -> str:
    """Return the message about a line whose row is not in the table."""
    if not line.is_same_table:
        return f"{line.where}: the question is about another table, or its tags have changed since"
    row = line.asked[0] + 1
    return (
        f"{line.where}: was asked about another row or tag, or row {row} has changed since; delete "
        f"the line, and ask again"
    )


def _check_about_this_table(path: str | os.PathLike[str], lines: Sequence[_Line]) -> None:
    """Raise InputError if most lines of a file have no row in the table."""
    foreign = [line for line in lines if line.is_foreign]
    n_others = sum(not line.is_dropped for line in lines)
    if 2 * len(foreign) <= n_others:
        return
    sentence = _foreign(foreign[0])
    if n_others > 1:
        sentence += f" ({len(foreign)} of {len(lines)} answers in {path})"
    # Decisions find their rows again, whatever happened to the others.
    raise InputError(sentence, parameter="decisions")


def _left_out(path: str | os.PathLike[str], lines: Sequence[_Line]) -> Iterator[str]:
    """Yield sentences about the answers of a file that do not count."""
    n_dropped = sum(line.is_dropped for line in lines)
    if n_dropped:
        n_lines = len(lines)
        yield f"{path}: {n_dropped} of {n_lines} answers are about tags that the vocabulary drops"
    others = [line for line in lines if not line.is_dropped and not line.counts]
    if others:
        names = [line.where.removeprefix(f"{path}, answer ") for line in others[:_MAX_NAMED]]
        names += ["..."] * (len(others) > _MAX_NAMED)
        yield (
            f"{path}: {len(others)} of {len(lines)} answers do not count, since their rows or tags "
            f"have changed, or the lines were edited: {', '.join(names)}"
        )


def _cells(path: str | os.PathLike[str]) -> Iterator[TaskAnswer]:
    """Yield the answers of a file of any kind as written there."""
    if is_task_file(path):
        for answer in read_tasks(path):
            yield replace(answer, right=_answer(answer.right, answer.where))
        return
    for where, right, (row, tag, question) in _read(path, _COLUMNS):
        yield TaskAnswer(where, row, tag, question, right, "", "")


def _answer(text: str, where: str) -> str:
    """Return the answer that a string stands for; "" for none."""
    answer = _ANSWERS.get(text.strip().lower())
    if answer is None:
        raise InputError(f"{where}: {brief(text)} is not an answer; write yes, no or ?")
    return answer

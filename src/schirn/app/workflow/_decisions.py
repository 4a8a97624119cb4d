"""People's decisions about tags, by row id, in an append-only file that outlives single runs.

Each line of the file is one answer::

    {"id": "A17", "tag": "coat", "answer": "wrong", "who": "Ada", "when": "2026-11-17T02:11:53Z",
     "columns": ["title"], "row": "5d41402abc4b2a76"}

The hash `row` covers the cells of the named columns when the answer was given, without regard to
case and white space, like the features of texts. An answer about a row that has changed since does
not count, and is asked for again. Files can be concatenated; if
there are several answers about a tag, the latest counts. Answers to the questions of a certificate
also hold the number of its draw, `"draw": 0`, so that the next certificate is another draw.
"""

import hashlib
import os
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from schirn._files import (
    append_lines,
    brief,
    check_no_pipe,
    complete_lines,
    utc_now,
    utc_text,
)
from schirn._input import Array, is_count, is_missing, repeated
from schirn.cleaning.certificate import MAX_DRAW
from schirn.cleaning.noisy_labels import NoisyLabels
from schirn.cleaning.questions import LISTED, MISSING, UNSURE, Questions, cells_of
from schirn.cleaning.vocabulary import Vocabulary
from schirn.exceptions import DataError, InputError

RIGHT, WRONG, NOT_SURE, OPEN = ANSWERS = ("right", "wrong", "unsure", "open")
"""Possible answers; "open" reverts an earlier answer."""
_VALUES = {RIGHT: 1.0, WRONG: 0.0, NOT_SURE: UNSURE}
_NAMES = {value: name for name, value in _VALUES.items()}
_TEXTS = ("id", "tag", "answer", "who", "when", "row")

Cell = tuple[int, str]


class Decision(NamedTuple):
    """One answer of a person.

    Attributes
    ----------
    id, tag : str
        The row and its tag.
    answer : {"right", "wrong", "unsure", "open"}
        "open" reverts an earlier answer.
    who : str
        Name of the person; may be empty.
    when : str
        Time in UTC, such as "2026-11-17T02:11:53.120Z".
    columns : tuple of str
        Columns that the person saw.
    row : str
        Hash of these cells.
    draw : int or None
        Number of the draw of the certificate that asked; None for other questions.
    """

    id: str
    tag: str
    answer: str
    who: str = ""
    when: str = ""
    columns: tuple[str, ...] = ()
    row: str = ""
    draw: int | None = None

    def record(self) -> dict[str, Any]:
        """Return the line of the file, as a dictionary for JSON.

        Returns
        -------
        dict
        """
        return {name: value for name, value in self._asdict().items() if value is not None}

    def __str__(self) -> str:
        return f"{self.who or 'somebody'} said {self.answer!r} on {self.when[:10]}"


class RowContent:
    """The ids of the rows of a table, and hashes of their content.

    Parameters
    ----------
    ids : sequence of str
        One id per row.
    table : mapping or Table
        The columns of the table.
    columns : sequence of str
        Columns that a person sees.
    """

    def __init__(self, ids: Sequence[str], table: Any, columns: Sequence[str]) -> None:
        duplicate = repeated(ids)
        if duplicate is not None:
            raise InputError(
                f"the id {brief(duplicate)} occurs more than once, but decisions are kept by id; "
                f"choose a column with a different value in every row",
                parameter="id",
            )
        empty = next((i for i, name in enumerate(ids, 1) if not name.strip()), None)
        if empty is not None:
            raise InputError(
                f"row {empty} has no id, but decisions are kept by id; choose a column with a "
                f"different value in every row",
                parameter="id",
            )
        self.ids = list(ids)
        self.columns = tuple(columns)
        self.number = {name: i for i, name in enumerate(self.ids)}
        self._table = table
        self._hashes = dict[tuple[str, ...], list[str]]()

    @property
    def hashes(self) -> list[str]:
        """Hash of each row."""
        return self.hashes_of(self.columns)

    @cached_property
    def filled_shares(self) -> dict[str, float]:
        """Share of rows with a value, for each column that the table has."""
        return {name: 1 - _missing_share(self._cells(name)) for name in self._names()}

    @cached_property
    def is_blank(self) -> Array:
        """Mask of the rows in which all columns are missing or blank."""
        is_blank = np.ones(len(self.ids), dtype=bool)
        for name in self._names():
            is_blank &= [is_missing(cell) or not str(cell).strip() for cell in self._cells(name)]
        return is_blank

    def _names(self) -> list[str]:
        """Return the columns that the table has."""
        table = self._table
        names = table if isinstance(table, Mapping) else table.columns
        return [name for name in self.columns if name in names]

    def _cells(self, name: str) -> list[Any]:
        """Return the cells of a column."""
        table = self._table
        return list(table[name] if isinstance(table, Mapping) else table.column(name))

    def hashes_of(self, columns: tuple[str, ...]) -> list[str]:
        """Return a hash of some cells of each row; "" if the table lacks a column.

        Parameters
        ----------
        columns : tuple of str
            Columns of the cells.

        Returns
        -------
        list of str
        """
        if columns not in self._hashes:
            table = self._table
            names = table if isinstance(table, Mapping) else table.columns
            if set(columns) <= set(names):
                cells = map(self._cells, columns)
                self._hashes[columns] = list(map(_row_hash, zip(*cells, strict=True)))
            else:
                self._hashes[columns] = [""] * len(self.ids)
        return self._hashes[columns]


def _missing_share(cells: Sequence[Any]) -> float:
    """Return the share of missing or blank cells."""
    n_missing = sum(is_missing(cell) or not str(cell).strip() for cell in cells)
    return n_missing / max(1, len(cells))


def _row_hash(cells: Iterable[Any]) -> str:
    """Return a hash of cells that depends neither on the format of the table nor on case or spaces.

    All kinds of columns are treated alike, because commands may disagree about their kinds.
    """
    texts = ("" if is_missing(cell) else _plain(str(cell)) for cell in cells)
    return hashlib.sha256("\x1f".join(texts).encode("utf-8", "replace")).hexdigest()[:16]


def _plain(text: str) -> str:
    """Return a text in lower case, with single spaces, and one code for each character."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


class Carried(NamedTuple):
    """Decisions matched to the rows of a table.

    Attributes
    ----------
    valid, changed : dict from (row, tag) to Decision
        Decisions about unchanged rows, and about rows that have changed.
    gone : int
        Number of decisions about rows that the table does not have.
    dropped : int
        Number of decisions about tags that the vocabulary drops.
    """

    valid: dict[Cell, Decision]
    changed: dict[Cell, Decision]
    gone: int
    dropped: int = 0


class Decisions:
    """Answers about tags by row id, in an append-only file; a crash loses no answer.

    Parameters
    ----------
    path : path
        A .jsonl file; it need not exist.

    Attributes
    ----------
    contradictions : int
        Number of answers that contradict an earlier answer about the same row and tag.

    Examples
    --------
    >>> import tempfile
    >>> from schirn.app.workflow import Decision, Decisions
    >>> store = Decisions(f"{tempfile.mkdtemp()}/decisions.jsonl")
    >>> store.add([Decision("A17", "coat", "wrong", who="Ada")])
    1
    >>> [(each.id, each.tag, each.answer) for each in Decisions(store.path)]
    [('A17', 'coat', 'wrong')]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.contradictions = 0
        self._latest: dict[tuple[str, str], Decision] = {}
        self._by_person: dict[tuple[str, str, str], Decision] = {}
        self._told: set[tuple[str, str, str, str]] = set()
        # Highest draw that asked about each tag; it counts even if the answer was changed since.
        self._draw_of: dict[tuple[str, str], int] = {}
        # All answers about each tag since a draw asked about it.
        self._since_draw: dict[tuple[str, str], set[str]] = {}
        check_no_pipe(self.path)
        content = self.path.read_bytes() if self.path.exists() else b""
        lines = complete_lines(content)
        self.repaired = lines.repaired
        # A crash leaves the beginning of a record, or zeros; anything else is another file.
        rest = content[lines.size :].strip(b"\0\t\r\n ")
        if rest and not rest.startswith(b"{"):
            self._decision(len(lines.records) + 1, None)
        decisions = [self._decision(i, record) for i, record in enumerate(lines.records, 1)]
        for decision in sorted(decisions, key=lambda record: record.when):
            self._take(decision)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Decision]:
        return (decision for decision in self._latest.values() if decision.answer != OPEN)

    def latest(self, id: str, tag: str) -> Decision | None:
        """Return the answer that counts; None if there is none.

        Parameters
        ----------
        id, tag : str
            The row and its tag.

        Returns
        -------
        Decision or None
        """
        decision = self._latest.get((id, tag))
        return None if decision is None or decision.answer == OPEN else decision

    def since(self, when: str) -> list[Decision]:
        """Return the answers after a time, including reverted ones.

        Parameters
        ----------
        when : str
            Time in UTC, such as "2026-11-17T02:11:53.120Z".

        Returns
        -------
        list of Decision
        """
        return [decision for decision in self._latest.values() if decision.when > when]

    def add(self, decisions: Iterable[Decision]) -> int:
        """Write new answers, wait until they are on disk, and return their number.

        Parameters
        ----------
        decisions : iterable of Decision
            Answers; only those that change something are written.

        Returns
        -------
        int
        """
        time = utc_now()
        new = dict[tuple[str, str], Decision]()
        for decision in decisions:
            if decision.answer not in ANSWERS:
                raise InputError(f"an answer is {', '.join(ANSWERS)}, not {brief(decision.answer)}")
            earlier = new.get(decision[:2]) or self._latest.get(decision[:2])
            unchanged = earlier is not None and earlier.row == decision.row
            if (earlier.answer if earlier and unchanged else OPEN) != decision.answer:
                new[decision[:2]] = decision._replace(when=decision.when or time)
        append_lines(self.path, [decision.record() for decision in new.values()])
        for decision in new.values():
            self._take(decision)
        return len(new)

    def merge(self, decisions: Iterable[Decision]) -> int:
        """Write answers that several people gave elsewhere; return the number of new answers.

        All answers are kept, even if later ones contradict them. Nothing is written twice.

        Parameters
        ----------
        decisions : iterable of Decision
            Answers with their times.

        Returns
        -------
        int
        """
        new = self._new(decisions)
        append_lines(self.path, [decision.record() for decision in new])
        # After the file: if writing fails, the same answers can be merged again.
        for decision in new:
            self._take(decision)
        return len(new)

    def merged(self, decisions: Iterable[Decision]) -> "Decisions":
        """Return a copy that also holds answers given elsewhere; the file stays as it is.

        Parameters
        ----------
        decisions : iterable of Decision
            Answers with their times, as for `merge`.

        Returns
        -------
        Decisions
        """
        result = copy(self)
        result._latest = self._latest.copy()
        result._by_person = self._by_person.copy()
        result._told = self._told.copy()
        result._draw_of = self._draw_of.copy()
        for decision in self._new(decisions):
            result._take(decision)
        return result

    def _new(self, decisions: Iterable[Decision]) -> list[Decision]:
        """Return answers given elsewhere that the file lacks, in the order of their times."""
        new = []
        by_person = dict[tuple[str, str, str], Decision]()
        told = set[tuple[str, str, str, str]]()
        for decision in sorted(decisions, key=lambda each: each.when):
            id, tag, answer, who, when, _, row, _ = decision
            if answer not in ANSWERS:
                raise InputError(f"an answer is {', '.join(ANSWERS)}, not {brief(answer)}")
            person = (id, tag, who)
            last = by_person.get(person) or self._by_person.get(person)
            is_same = last is not None and (last.answer, last.row) == (answer, row)
            record = (id, tag, answer, when)
            if is_same or record in self._told or record in told:
                continue
            new.append(decision)
            told.add(record)
            if last is None or last.when <= when:
                by_person[person] = decision
        return new

    def match(self, rows: RowContent, vocabulary: Vocabulary | None = None) -> Carried:
        """Find the rows of the decisions in a table.

        Parameters
        ----------
        rows : RowContent
            The rows of the table.
        vocabulary : Vocabulary, optional
            What was applied to its tags: decisions carry over to the new name of a tag, where the
            latest counts, and those about dropped tags are only counted.

        Returns
        -------
        Carried
        """
        valid = dict[Cell, Decision]()
        changed = dict[Cell, Decision]()
        gone = 0
        dropped = 0
        vocabulary = Vocabulary() if vocabulary is None else vocabulary
        for decision in sorted(self, key=lambda record: record.when):
            row = rows.number.get(decision.id)
            if row is None:
                gone += 1
            elif decision.tag in vocabulary.drops:
                dropped += 1
            else:
                is_same = not decision.row or rows.hashes_of(decision.columns)[row] == decision.row
                tag = vocabulary.merges.get(decision.tag, decision.tag)
                (valid if is_same else changed)[row, tag] = decision
        return Carried(valid, changed, gone, dropped)

    def draws(self, rows: RowContent, *, besides: Collection[Cell] = ()) -> int:
        """Return the number of draws of certificates with answers about rows of a table.

        Parameters
        ----------
        rows : RowContent
            The rows of the table.
        besides : collection of (row, tag)
            Tags to leave out, because their certificate continues.

        Returns
        -------
        int
            One more than the highest draw; 0 without a draw.
        """
        used = (
            draw + 1
            for (id, tag), draw in self._draw_of.items()
            if id in rows.number and (rows.number[id], tag) not in besides
        )
        return max(used, default=0)

    def n_changed(self, rows: RowContent, tags: Iterable[Cell]) -> int:
        """Return how many tags got another answer after a draw of a certificate asked about them.

        Parameters
        ----------
        rows : RowContent
            The rows of the table.
        tags : iterable of (row, tag)
            Tags that the certificate asked about.

        Returns
        -------
        int
        """
        return sum(len(self._since_draw.get((rows.ids[row], tag), ())) > 1 for row, tag in tags)

    def answer(
        self,
        ranking: NoisyLabels,
        rows: RowContent,
        *,
        besides: Collection[Cell] = (),
        vocabulary: Vocabulary | None = None,
    ) -> tuple[NoisyLabels, Carried]:
        """Return a ranking with the answers about its rows, and the matched decisions.

        A tag answered "right" is added to the row if it is not listed. Answers about tags that
        have left the table still count. The draws of earlier certificates count as used.

        Parameters
        ----------
        ranking : NoisyLabels
            The ranking to add answers to.
        rows : RowContent
            The rows that were ranked.
        besides : collection of (row, tag)
            Tags to leave out, since newer answers about them follow.
        vocabulary : Vocabulary, optional
            What was applied to the tags; see `match`.

        Returns
        -------
        tuple of NoisyLabels and Carried
        """
        carried = self.match(rows, vocabulary)
        answers = {cell: d for cell, d in carried.valid.items() if cell not in besides}
        ranking = _with_departed(ranking, answers)
        ranking = _with_missing(ranking, [c for c, d in answers.items() if d.answer == RIGHT])
        for kind, tags in ((LISTED, ranking), (MISSING, ranking.missing)):
            cells = [cell for cell in _cells(tags, {row for row, _ in answers}) if cell in answers]
            values = [_VALUES[answers[cell].answer] for cell in cells]
            right = [None if value == UNSURE else bool(value) for value in values]
            ranking = ranking.answered(ranking.questions_about(cells, kind), right)
        ledger = ranking.ledger.after(self.draws(rows, besides=besides))
        return replace(ranking, ledger=ledger), carried

    def save(
        self,
        ranking: NoisyLabels,
        rows: RowContent,
        who: str = "",
        vocabulary: Vocabulary | None = None,
        *,
        draws: Mapping[Cell, int | None] | None = None,
    ) -> int:
        """Write the answers of a ranking that the file lacks; return their number.

        Parameters
        ----------
        ranking : NoisyLabels
            The ranking with answers.
        rows : RowContent
            The rows that were ranked.
        who : str, default=""
            Name of the person who answered.
        vocabulary : Vocabulary, optional
            What was applied to the tags; see `match`.
        draws : dict from (row, tag) to int or None, optional
            Number of the draw of the certificate that asked about each tag.

        Returns
        -------
        int
        """
        draws = draws or {}
        hashes = rows.hashes
        stored = self.match(rows, vocabulary).valid
        new = []
        for tags in (ranking, ranking.missing):
            answer = tags.worklist.answer
            label = tags.label
            for k in np.flatnonzero(~np.isnan(answer)).tolist():
                row = int(tags.row[k])
                tag = str(label[k])
                name = _NAMES[float(answer[k])]
                if (row, tag) not in stored or stored[row, tag].answer != name:
                    about = (rows.columns, hashes[row], draws.get((row, tag)))
                    new.append(Decision(rows.ids[row], tag, name, who, "", *about))
        return self.add(new)

    def _take(self, decision: Decision) -> None:
        id, tag, answer, who, when, _, row, draw = decision
        self._told.add((id, tag, answer, when))
        if draw is not None:
            self._draw_of[id, tag] = max(draw, self._draw_of.get((id, tag), 0))
            self._since_draw.setdefault((id, tag), set())
        if (id, tag) in self._since_draw:
            self._since_draw[id, tag].add(answer)
        last = self._by_person.get((id, tag, who))
        if last is None or last.when <= when:
            self._by_person[id, tag, who] = decision
        earlier = self._latest.get((id, tag))
        if earlier is not None:
            is_opposite = {earlier.answer, answer} == {RIGHT, WRONG}
            self.contradictions += is_opposite and earlier.row == row
            if earlier.when > when:
                # Answers from elsewhere may arrive late.
                return
        self._latest[id, tag] = decision

    def _decision(self, number: int, record: dict[str, Any] | None) -> Decision:
        where = f"{self.path}, line {number}"
        if record is None:
            raise DataError(f"{where}: not a JSON object; repair or delete the line")
        values = {"who": "", "when": "", "row": "", **record, "columns": []}
        texts = [values.get(name) for name in _TEXTS]
        columns = record.get("columns", [])
        if not isinstance(columns, list) or not all(isinstance(x, str) for x in (*texts, *columns)):
            raise DataError(f"{where}: an answer has the texts 'id', 'tag' and 'answer'")
        if values["answer"] not in ANSWERS:
            raise DataError(
                f"{where}: the answer is {brief(values['answer'])}, not one of {', '.join(ANSWERS)}"
            )
        try:
            when = datetime.fromisoformat(values["when"]) if values["when"] else datetime.min
        except ValueError:
            raise DataError(f"{where}: {brief(values['when'])} is not a time") from None
        draw = record.get("draw")
        if draw is not None and not (is_count(draw) and draw <= MAX_DRAW):
            raise DataError(f"{where}: {brief(draw)} is not the number of a draw")
        when = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
        words = {name: values[name] for name in _TEXTS} | {"when": utc_text(when)}
        return Decision(**words, columns=tuple(columns), draw=draw)


def ask_again(ranking: NoisyLabels, carried: Carried, questions: Questions, n: int) -> Questions:
    """Return n questions, starting with tags whose rows have changed since they were answered.

    The other questions keep their round.

    Parameters
    ----------
    ranking : NoisyLabels
        The ranking.
    carried : Carried
        Decisions of earlier runs.
    questions : Questions
        Questions to fill up with.
    n : int
        Number of questions.

    Returns
    -------
    Questions
    """
    tags: Any = ranking if questions.kind == LISTED else ranking.missing
    unasked = np.isnan(tags.worklist.answer) & np.isin(tags.row, [i for i, _ in carried.changed])
    open_cells = set(cells_of(tags, unasked))
    changed = [cell for cell in carried.changed if cell in open_cells]
    if not changed:
        return questions
    changed = changed[:n]
    positions = [k for k, cell in enumerate(cells_of(questions)) if cell not in set(changed)]
    positions = positions[: n - len(changed)]
    return ranking.questions_about(changed, questions.kind).joined(questions.part(positions))


def _cells(tags: Any, rows: set[int]) -> list[Cell]:
    """Return row and name of the tags of some rows."""
    return cells_of(tags, np.isin(tags.row, list(rows)))


def _with_departed(ranking: NoisyLabels, answers: Mapping[Cell, Decision]) -> NoisyLabels:
    """Return a ranking with the answers about tags that have left the table."""
    departed = ranking.departed
    names = [ranking.label_names[column] for column in departed.column.tolist()]
    cells = zip(departed.row.tolist(), names, strict=True)
    value = [_VALUES[answers[cell].answer] if cell in answers else np.nan for cell in cells]
    return ranking.with_departed(replace(departed, answer=np.array(value, dtype=float)))


def _with_missing(ranking: NoisyLabels, cells: list[Cell]) -> NoisyLabels:
    """Return a ranking whose missing tags include these cells, unless they are listed."""
    rows = {row for row, _ in cells}
    cells_of_rows = {*_cells(ranking, rows), *_cells(ranking.missing, rows)}
    new = [cell for cell in cells if cell not in cells_of_rows]
    return ranking.with_suggestions(new) if new else ranking

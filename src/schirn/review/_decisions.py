"""The link between a review and a file of decisions: both hold every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schirn._files import Record
from schirn.cleaning.decisions import NOT_SURE, OPEN, RIGHT, WRONG, Decision, Decisions, RowContent
from schirn.exceptions import InputError
from schirn.review._questions import DROP, KEEP, SKIP
from schirn.review._state import STATUS

if TYPE_CHECKING:
    from schirn.review.session import Session

_ANSWER = {KEEP: RIGHT, DROP: WRONG, SKIP: NOT_SURE}
_ACTION = {RIGHT: "keep", WRONG: "drop", NOT_SURE: "skip"}
_VOTES = (*STATUS, "batch", "add", "settle")


class DecisionLink:
    """Exchange answers with a file of decisions, when a review is opened and with each answer.

    Parameters
    ----------
    session : Session
    store : Decisions

    Attributes
    ----------
    changed : dict from tag to Decision
        Answers from before the row has changed, which are asked again.
    """

    def __init__(self, session: Session, store: Decisions) -> None:
        table, project = session.table, session.project
        if table is None or table.roles.id is None or not table.roles.content:
            raise InputError(
                f"{project.folder}: the items have no ids, so their decisions cannot be kept in "
                f"{store.path}; create the project again with a column of ids",
                parameter="id",
            )
        self._session, self._store = session, store
        ids = [item.id for item in project.items]
        self._rows = RowContent(ids, table.table, table.roles.content)
        self.changed: dict[int, Decision] = {}
        # Answers that a crash kept from the file come first: they are newer than it.
        for step in session.history:
            self.write(step.record, step.tags, only_newer=True)
        self._read()

    def write(self, record: Record, tags: list[int], *, only_newer: bool = False) -> None:
        """Write what a record of the journal says about tags."""
        action, session, new = record["action"], self._session, []
        if action not in (*_VOTES, "undo"):
            return
        for tag in tags:
            status = STATUS.get(str(record.get("decision", action)), KEEP)
            answer = _ANSWER[status]
            if action == "undo":
                answer = _ANSWER.get(int(session.status[tag]), OPEN)
            row, label = int(session.row[tag]), self._label(tag)
            earlier = self._store.latest(self._rows.ids[row], label)
            when = str(record["time"]).replace("+00:00", "Z")
            if only_newer and earlier is not None and earlier.when >= when:
                continue
            self.changed.pop(tag, None)
            words = (self._rows.ids[row], label, answer, str(record.get("person", "")), when)
            new.append(Decision(*words, self._rows.columns, self._rows.hashes[row]))
        self._store.add(new)

    def _label(self, tag: int) -> str:
        """The tag as it stands in the table, whatever it is called in the review."""
        column = int(self._session.column[tag])
        labels = self._session.project.labels
        return labels[column] if column < len(labels) else self._session.name(tag)

    def _read(self) -> None:
        """Take over answers that the review lacks, and note those about rows that have changed."""
        session, carried = self._session, self._store.match(self._rows)
        numbers = {
            (int(row), self._label(tag)): tag for tag, row in enumerate(session.row.tolist())
        }
        records: list[Record] = []
        for (row, label), decision in carried.valid.items():
            tag, item = numbers.get((row, label)), self._rows.ids[row]
            action = _ACTION[decision.answer]
            is_new = tag is None and decision.answer == RIGHT
            if is_new or (tag is not None and session.status[tag] != STATUS[action]):
                name = label if tag is None else session.name(tag)
                record = {"time": decision.when, "action": "add" if is_new else action}
                records.append({**record, "item": item, "label": name, "person": decision.who})
        session.take_over(records)
        self.changed = {numbers[cell]: d for cell, d in carried.changed.items() if cell in numbers}

"""The link between a review and a file of decisions, which keeps their answers in sync."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING

from schirn._files import Record
from schirn.app.review._questions import DROP, KEEP, SKIP
from schirn.app.review._questions import OPEN as UNANSWERED
from schirn.app.review._state import STATUS
from schirn.app.workflow import (
    NOT_SURE,
    OPEN,
    RIGHT,
    WRONG,
    Decision,
    Decisions,
    RowContent,
)
from schirn.exceptions import InputError

if TYPE_CHECKING:
    from schirn.app.review._session import Session

_ANSWERS = {"keep": [RIGHT], "drop": [WRONG], "skip": [NOT_SURE], "swap": [WRONG, RIGHT]}
_AFTER_UNDO = {KEEP: RIGHT, DROP: WRONG, SKIP: NOT_SURE, UNANSWERED: OPEN}
_ACTION = {RIGHT: "keep", WRONG: "drop", NOT_SURE: "skip"}


class DecisionLink:
    """Exchange answers with a file of decisions, when a review is opened and after each answer.

    Parameters
    ----------
    session : Session
        The review.
    store : Decisions
        The file of decisions.

    Attributes
    ----------
    changed : dict from tag to Decision
        Answers about rows that have changed since; they are asked again.
    """

    def __init__(self, session: Session, store: Decisions) -> None:
        project = session.project
        roles = session.project.table
        if roles.id is None or not roles.content:
            raise InputError(
                f"{project.folder}: the items have no ids, so their decisions cannot be kept in "
                f"{store.path}; start the review again with a column of ids",
                parameter="id",
            )
        self._session = session
        self._store = store
        self._rows = RowContent(project.ids, session.table.table, roles.content)
        self.changed: dict[int, Decision] = {}
        # First, answers that a crash kept from being written: they are newer than the file.
        for step in session.history:
            self.write(step.record, step.tags, only_newer=True)
        self._read()

    @property
    def draws(self) -> int:
        """Number of draws of certificates with answers about these rows."""
        return self._store.draws(self._rows)

    def write(self, record: Record, tags: list[int], *, only_newer: bool = False) -> None:
        """Write a journal record's answers about tags."""
        action = record["action"]
        session = self._session
        new = []
        answers = _ANSWERS.get(action, [])
        if action == "undo":
            answers = [_AFTER_UNDO[int(session.status[tag])] for tag in tags]
        for tag, answer in zip(tags, answers, strict=True):
            row = int(session.project.row[tag])
            label = session.name(tag)
            earlier = self._store.latest(self._rows.ids[row], label)
            when = str(record["time"]).replace("+00:00", "Z")
            if only_newer and earlier is not None and earlier.when >= when:
                continue
            self.changed.pop(tag, None)
            words = (self._rows.ids[row], label, answer, str(record.get("person", "")), when)
            about = (self._rows.columns, self._rows.hashes[row], session.draw_of(tag))
            new.append(Decision(*words, *about))
        self._store.add(new)

    def _read(self) -> None:
        """Import answers that the review lacks, and note answers about changed rows."""
        session = self._session
        match = self._store.match(self._rows)
        records: list[Record] = []
        n_unknown = 0
        for (row, label), decision in match.valid.items():
            item = self._rows.ids[row]
            action = _ACTION[decision.answer]
            try:
                tag = session.find(item, label)
            except InputError:
                n_unknown += decision.answer == RIGHT
                continue
            if session.status[tag] != STATUS[action]:
                record = {"time": decision.when, "action": action, "item": item, "label": label}
                records.append({**record, "person": decision.who})
        session.take_over(records)
        if n_unknown:
            warnings.warn(
                f"{self._store.path}: adds {n_unknown:,} tags that are not in this review; start "
                f"it again from the table to see them",
                stacklevel=4,
            )
        for (row, label), decision in match.changed.items():
            with contextlib.suppress(InputError):
                self.changed[session.find(self._rows.ids[row], label)] = decision

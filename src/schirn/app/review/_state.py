"""The state of a review, and the effect of each journal record on it.

The state follows from the project and the journal alone. If there are several answers about a tag,
the latest counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from schirn._files import Record, brief
from schirn._input import Array, OneOf, is_count
from schirn.app.review._project import Project
from schirn.app.review._questions import DROP, KEEP, OPEN, SKIP, Interview
from schirn.app.review._vocabulary import ANSWER, PROPOSE, LineKey, VocabularyRoom
from schirn.cleaning import Vocabulary
from schirn.cleaning.certificate import MAX_DRAW, Certificate
from schirn.cleaning.policy import RULES
from schirn.cleaning.questions import LISTED, MISSING
from schirn.exceptions import InputError

TARGET = "target"
"""The action that changes the target precision."""
RULE = "rule"
"""The action that sets a rule about all tags of a label."""
STATUS = {"keep": KEEP, "drop": DROP, "skip": SKIP}
# Actions that apply the answers to all tags of a kind at once.
KIND = {"remove": LISTED, "complete": MISSING}


@dataclass(frozen=True)
class Step:
    """A record that can be undone."""

    seq: int
    record: Record
    tags: list[int]
    before: list[Any]
    """Values that undo restores."""


class ReviewState:
    """Answers, and actions on all tags at once.

    Parameters
    ----------
    project : Project
        Items and tags to review.

    Attributes
    ----------
    status : (m,) array
        Status of each tag of the project.
    person : dict from tag to str
        Name of the person who decided each tag; may be empty.
    history : list of Step
        Steps that can be undone.
    questions : Interview
        The questions, and the estimates from the answers.
    chosen : dict from kind to array of tags
        Tags that were removed or added at once, as the answers allowed.
    room : VocabularyRoom
        The lines of the vocabulary, with the rules about tags.
    """

    def __init__(self, project: Project):
        self.project = project
        self.status = np.zeros(len(project.row), dtype=np.uint8)
        self.person: dict[int, str] = {}
        self.history: list[Step] = []
        self.questions = Interview(project)
        self.room = VocabularyRoom(project)
        self.chosen: dict[str, Array | None] = {LISTED: None, MISSING: None}
        self._certificate: Certificate | None = None
        # Once a question of a draw has been answered or undone, its number is tied to one set of
        # tags.
        self._next_draw = 0
        self._draw_of = dict[bytes, int]()
        # Tags of certificates whose answers were undone.
        self._changed_answers: set[int] = set()
        self._row_of = {name: i for i, name in enumerate(project.ids)}
        # Number of the last record about each tag.
        self._changed: dict[int, int] = {}
        # Number of the last record about each line of the vocabulary.
        self._changed_lines: dict[LineKey, int] = {}
        # The tag that was just undone; it is asked about again at once.
        self._undone: int | None = None

    def name(self, tag: int) -> str:
        """Return the label name of a tag.

        Parameters
        ----------
        tag : int
            Number of the tag.

        Returns
        -------
        str
        """
        return self.project.labels[self.project.column[tag]]

    def find(self, item: str, label: str) -> int:
        """Return the number of a tag, given its item and label name.

        Parameters
        ----------
        item, label : str
            Names of the item and of the label.

        Returns
        -------
        int
            Number of the tag.
        """
        try:
            return self.questions.number((self._row_of[item], label))
        except KeyError:
            raise InputError(f"the item {brief(item)} has no tag {brief(label)}") from None

    def certificate(self) -> Certificate | None:
        """Return the certificate of the removed tags with all answers; None before a removal.

        Returns
        -------
        Certificate or None
        """
        if self._certificate is None:
            return None
        return self.questions.certificate(self._certificate, self.status, self._changed_answers)

    def draw_of(self, tag: int) -> int | None:
        """Return the number of the draw that asked about a tag; None if it was not drawn.

        Parameters
        ----------
        tag : int
            Number of the tag.

        Returns
        -------
        int or None
        """
        is_drawn = self._certificate is not None and tag in set(self._drawn())
        return self._certificate.draw if is_drawn and self._certificate else None

    def final(self) -> Array:
        """Return a mask of the final tags, as decided by people or else as the answers allowed.

        Returns
        -------
        (m,) bool array
        """
        is_kept = self.project.kept.copy()
        for kind, tags in self.chosen.items():
            if tags is not None:
                is_kept[self.questions.tags[kind]] = kind == LISTED
                is_kept[tags] = kind == MISSING
        by_rule = self.questions.by_rule()
        is_kept = np.where(by_rule > 0, True, np.where(by_rule < 0, False, is_kept))
        return np.where(self.status == KEEP, True, np.where(self.status == DROP, False, is_kept))

    def _tags_of(self, record: Record) -> list[int]:
        """Return the tags that a record is about; raise InputError if it is invalid."""
        action = _text(record, "action")
        if action in KIND:
            chosen = record.get("tags") or []
            known = np.flatnonzero(self.project.listed == (action == "remove"))
            if not chosen or len(np.intersect1d(chosen, known)) < len(chosen):
                raise InputError("tags to remove must be listed, and those to add must not be")
            draws = record.get("draws", 0)
            if not is_count(draws) or draws > MAX_DRAW:
                raise InputError(f"{brief(draws)} is not a number of draws")
            return []
        if action == "undo":
            return self._undoable(record).tags
        if action == TARGET:
            precision: Any = record.get("precision")
            is_number = isinstance(precision, int | float) and not isinstance(precision, bool)
            if not is_number or not 0 < precision <= 1:
                raise InputError(f"the target must be between 0 and 1, not {brief(precision)}")
            return []
        if action == RULE:
            self._check_rule(_text(record, "label"), _text(record, "rule"))
            return []
        if action in (ANSWER, PROPOSE):
            # Raises if the vocabulary does not accept the record.
            self._new_vocabulary(record)
            return []
        if action not in (*STATUS, "swap"):
            raise InputError(f"there is no action {brief(action)}")
        tags = [self.find(_text(record, "item"), _text(record, "label"))]
        if action == "swap":
            tags.append(self.find(record["item"], _text(record, "to")))
            if self.project.listed[tags].tolist() != [True, False]:
                raise InputError("a swap drops a tag of the table and adds one that is not in it")
        return tags

    def _check_rule(self, label: str, rule: str) -> None:
        """Raise InputError for an invalid rule."""
        OneOf(RULES).check("rule", rule)
        if label not in self.project.labels:
            raise InputError(f"there is no tag {brief(label)}")
        if label in self.questions.fixed:
            raise InputError(f"the vocabulary keeps {brief(label)}; change its line there")
        self.room.after_rule(label, rule)

    def _undoable(self, record: Record) -> Step:
        if not self.history or self.history[-1].seq != record.get("of"):
            raise InputError("only the last record can be undone")
        return self.history[-1]

    def _apply(self, record: Record, tags: list[int]) -> None:
        """Apply a checked record to the state."""
        action = record["action"]
        seq = record["seq"]
        self._undone = None
        if action == "undo":
            self._apply_undo(self._undoable(record), seq)
            return
        if action in KIND:
            former: list[Any] = [self.chosen[KIND[action]], self._certificate]
            # Draws of certificates that the file of decisions knew when the tags were chosen.
            self._next_draw = max(self._next_draw, record.get("draws", 0))
            self._choose(KIND[action], np.array(record["tags"]))
        elif action == TARGET:
            former = [self.questions.precision]
            self.questions.precision = float(record["precision"])
        elif action in (RULE, ANSWER, PROPOSE):
            former = [self.room.current, self.chosen[LISTED], self._certificate]
            self._set_vocabulary(self._new_vocabulary(record))
            self._mark_line(record, seq)
        else:
            former = [(int(self.status[tag]), self.person.get(tag, "")) for tag in tags]
            answers = (DROP, KEEP) if action == "swap" else (STATUS[action],)
            person = str(record.get("person", ""))
            self._answer(tags, [(status, person) for status in answers], seq)
        self.history.append(Step(seq, record, tags, former))

    def _apply_undo(self, step: Step, seq: int) -> None:
        self.history.pop()
        action = step.record["action"]
        if action in KIND:
            self._count_draw()
            self.chosen[KIND[action]], self._certificate = step.before
            return
        if action == TARGET:
            self.questions.precision = step.before[0]
            return
        if action in (RULE, ANSWER, PROPOSE):
            self.room.current, self.chosen[LISTED], self._certificate = step.before
            self.questions.rules = self.room.rules
            self._mark_line(step.record, seq)
            return
        self._answer(step.tags, step.before, seq)
        self._undone = step.tags[0]

    def _new_vocabulary(self, record: Record) -> Vocabulary:
        """Return the vocabulary after a record about a line, proposals, or a rule."""
        action = record["action"]
        if action == ANSWER:
            return self.room.after_answer(record)
        if action == PROPOSE:
            return self.room.after_proposals(record)
        return self.room.after_rule(record["label"], record["rule"])

    def _set_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Replace the lines; if rules change, a removal at once ends, since its set changes."""
        self.room.current = vocabulary
        rules = self.room.rules
        if rules == self.questions.rules:
            return
        self.questions.rules = rules
        self._count_draw()
        self._certificate = None
        self.chosen[LISTED] = None

    def _mark_line(self, record: Record, seq: int) -> None:
        """Note the record that changed a line of the vocabulary."""
        if record["action"] == ANSWER:
            self._changed_lines[LineKey.from_record(record)] = seq

    def _choose(self, kind: str, tags: Array) -> None:
        """Remove or add tags at once; a removal fixes the set of a certificate."""
        if kind == LISTED:
            # The same tags always have the same draw, even if their removal is undone and repeated.
            draw = self._draw_of.setdefault(np.sort(tags).tobytes(), self._next_draw)
            self._certificate = self.questions.begin_certificate(tags, self.status, draw)
        self.chosen[kind] = tags

    def _count_draw(self) -> None:
        """Reserve the draw for its tags, because its questions are known by now."""
        if self._certificate is not None:
            self._next_draw = max(self._next_draw, self._certificate.draw + 1)

    def _drawn(self) -> Iterator[int]:
        """Yield the tags of the certificate in the order of drawing."""
        order = (self._certificate and self._certificate.order) or ()
        return map(self.questions.number, order)

    def _answer(self, tags: list[int], answers: list[tuple[int, str]], seq: int) -> None:
        """Set the status of tags, with the name of the person."""
        if next((tag for tag in self._drawn() if self.status[tag] == OPEN), None) in tags:
            self._count_draw()
        members = set(self._drawn())
        for tag, (status, person) in zip(tags, answers, strict=True):
            if self.status[tag] not in (OPEN, status) and tag in members:
                self._changed_answers.add(tag)
            self.questions.drawn[tag] = tag in members and status != OPEN
            self.status[tag] = status
            self.person[tag] = person
            self._changed[tag] = seq


def _text(record: Record, key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        raise InputError(f"{key!r} must be a text, not {brief(value)}")
    return value

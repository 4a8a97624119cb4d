"""The state of a review: what each record of the journal is about, does, and undoes.

The state follows from the project and the journal alone. Each person has one vote per tag. A tag
has the status that most of its votes have; in a tie it stays open.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from schirn._files import Record, brief
from schirn._input import Array
from schirn.cleaning.certificate import Certificate
from schirn.cleaning.questions import LISTED, MISSING
from schirn.exceptions import InputError
from schirn.review._questions import DROP, KEEP, OPEN, SKIP, Questions
from schirn.review.project import Project

STATUS = {"keep": KEEP, "drop": DROP, "skip": SKIP}
MAX_PERSON = 60
# What the answers allow to do to all tags of a kind at once.
KIND = {"remove": LISTED, "complete": MISSING}


@dataclass(frozen=True)
class Step:
    """A record that can be undone."""

    seq: int
    person: str
    record: Record
    tags: list[int]
    before: list[Any]
    """What undo puts back."""


class ReviewState:
    """Votes, and what was done to all tags at once.

    Parameters
    ----------
    project : Project
        Items and tags to review.

    Attributes
    ----------
    status : (m,) array
        Status of each tag of the project.
    votes : dict from tag to dict from person to status
    history : list of Step
        What can be undone.
    questions : Questions
        What to ask, and what the answers say.
    chosen : dict from kind to array of tags
        Tags that were removed, or added, as the answers allowed.
    """

    def __init__(self, project: Project):
        self.project = project
        self.status = np.zeros(len(project.row), dtype=np.uint8)
        self.votes: dict[int, dict[str, int]] = {}
        self.history: list[Step] = []
        self.questions = Questions(project)
        self.chosen: dict[str, Array | None] = {LISTED: None, MISSING: None}
        self._certificate: Certificate | None = None
        # A number of a draw is for one set of tags, once a question of it was answered or undone.
        self._next_draw, self._draw_of = 0, dict[bytes, int]()
        # Tags of certificates whose answers were taken back.
        self._changed_answers: set[int] = set()
        self._row_of = {name: i for i, name in enumerate(project.ids)}
        # Number of the last record about each tag, and by each person about each tag.
        self._changed: dict[int, int] = {}
        self._changed_by: dict[tuple[int, str], int] = {}
        # The tag that each person has just undone, which is asked again at once.
        self._undone: dict[str, int] = {}

    def name(self, tag: int) -> str:
        """Return the label of a tag."""
        return self.project.labels[self.project.column[tag]]

    def find(self, item: str, label: str) -> int:
        """Return the tag of an item by the name of its label."""
        try:
            return self.questions.number((self._row_of[item], label))
        except KeyError:
            raise InputError(f"the item {brief(item)} has no tag {brief(label)}") from None

    def certificate(self) -> Certificate | None:
        """Return the certificate of the removed tags with all answers; None before a removal."""
        if self._certificate is None:
            return None
        return self.questions.certificate(self._certificate, self.status, self._changed_answers)

    def final(self) -> Array:
        """Return whether each tag is kept: as people decided, or else as the answers allowed."""
        is_kept = self.project.kept.copy()
        for kind, tags in self.chosen.items():
            if tags is not None:
                is_kept[self.questions.tags[kind]] = kind == LISTED
                is_kept[tags] = kind == MISSING
        return np.where(self.status == KEEP, True, np.where(self.status == DROP, False, is_kept))

    def _last(self, person: str) -> Step | None:
        return next((step for step in reversed(self.history) if step.person == person), None)

    def _tags_of(self, record: Record) -> list[int]:
        """Return the tags that a record is about; raise InputError if it makes no sense."""
        action = _text(record, "action")
        if action in KIND:
            self._check_choice(record)
            return []
        if action == "undo":
            return self._undoable(record).tags
        if action not in (*STATUS, "swap"):
            raise InputError(f"there is no action {brief(action)}")
        tags = [self.find(_text(record, "item"), _text(record, "label"))]
        if action == "swap":
            tags.append(self.find(record["item"], _text(record, "to")))
            if self.project.listed[tags].tolist() != [True, False]:
                raise InputError("a swap drops a tag of the table and adds one that is not in it")
        return tags

    def _check_choice(self, record: Record) -> None:
        tags, is_removal = record.get("tags"), record["action"] == "remove"
        if not isinstance(tags, list) or not tags or len(set(map(str, tags))) < len(tags):
            raise InputError("there is no tag to remove or to add")
        is_listed = self.project.listed
        if not all(
            type(k) is int and 0 <= k < len(is_listed) and is_listed[k] == is_removal for k in tags
        ):
            raise InputError("the tags to remove must be listed, and those to add must not be")

    def _undoable(self, record: Record) -> Step:
        step = self._last(str(record.get("person", "")))
        if step is None or record.get("of") != step.seq:
            raise InputError("there is no such record to undo")
        action = step.record["action"]
        later = [s for s in self.history if s.seq > step.seq and s.record["action"] == action]
        if action in KIND and later:
            who = later[-1].person or "somebody"
            raise InputError(f"{who} has done another {action} since; undo that first")
        return step

    def _apply(self, record: Record, tags: list[int]) -> None:
        """Change the state as a checked record says."""
        action, person, seq = record["action"], str(record.get("person", "")), record["seq"]
        if action == "undo":
            self._apply_undo(person, seq)
            return
        if action in KIND:
            former: list[Any] = [self.chosen[KIND[action]], self._certificate]
            self._choose(KIND[action], np.array(record["tags"]))
        else:
            former = [self.votes.get(tag, {}).get(person) for tag in tags]
            votes = (DROP, KEEP) if action == "swap" else (STATUS[action],)
            for tag, vote in zip(tags, votes, strict=True):
                self.votes.setdefault(tag, {})[person] = vote
        self._touch(tags, person, seq)
        self.history.append(Step(seq, person, record, tags, former))
        self._undone.pop(person, None)

    def _apply_undo(self, person: str, seq: int) -> None:
        step: Any = self._last(person)
        self.history.remove(step)
        self._undone.pop(person, None)
        action = step.record["action"]
        if action in KIND:
            self._count_draw()
            self.chosen[KIND[action]], self._certificate = step.before
            return
        for tag, vote in zip(step.tags, step.before, strict=True):
            del self.votes[tag][person]
            if vote is not None:
                self.votes[tag][person] = vote
        self._touch(step.tags, person, seq)
        self._undone[person] = step.tags[0]

    def _choose(self, kind: str, tags: Array) -> None:
        """Remove or add tags; a removal fixes what a certificate is about."""
        if kind == LISTED:
            # The same tags have the same draw, which undoing and removing again does not change.
            draw = self._draw_of.setdefault(np.sort(tags).tobytes(), self._next_draw)
            self._certificate = self.questions.begin_certificate(tags, self.status, draw)
        self.chosen[kind] = tags

    def _count_draw(self) -> None:
        """Give other tags another draw: what this one asks is known."""
        if self._certificate is not None:
            self._next_draw = max(self._next_draw, self._certificate.draw + 1)

    def _drawn(self) -> Iterator[int]:
        """Yield the tags of the certificate in the order of drawing."""
        order = (self._certificate and self._certificate.order) or ()
        return map(self.questions.number, order)

    def _touch(self, tags: list[int], person: str, seq: int) -> None:
        """Derive the status of tags from the votes on them."""
        if next((tag for tag in self._drawn() if self.status[tag] == OPEN), None) in tags:
            self._count_draw()
        for tag in tags:
            self._changed[tag] = self._changed_by[tag, person] = seq
            votes = list(self.votes[tag].values())
            n_keep, n_drop = votes.count(KEEP), votes.count(DROP)
            status = KEEP if n_keep > n_drop else DROP if n_drop > n_keep else OPEN
            if votes and not n_keep and not n_drop:
                status = SKIP
            if self.status[tag] not in (OPEN, status) and tag in self._drawn():
                self._changed_answers.add(tag)
            self.status[tag] = status


def _text(record: Record, key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        raise InputError(f"{key!r} must be a text, not {brief(value)}")
    return value


def checked_person(person: Any) -> str:
    """Return the name of a person; raise InputError if it cannot be one."""
    if not isinstance(person, str) or len(person) > MAX_PERSON or not person.isprintable():
        raise InputError(
            f"a name has at most {MAX_PERSON} printable characters, unlike {brief(person)}"
        )
    return person.strip()

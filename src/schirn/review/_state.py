"""The state of a review: what each record of the journal is about, does, and undoes.

The state follows from the project and the journal alone. Each person has one vote per tag. A tag
has the status that most of its votes have; in a tie it stays open. Tags keep their number
for ever: a rename changes the name under which a label is shown, and of two tags of a row that are
shown under one name, the first stands for both.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from schirn._files import Record, brief
from schirn._input import Array
from schirn.cleaning.certificate import Certificate
from schirn.cleaning.questions import LISTED, MISSING
from schirn.exceptions import InputError
from schirn.review._questions import DROP, KEEP, OPEN, SKIP, Questions
from schirn.review.project import Project

STATUS = {"keep": KEEP, "drop": DROP, "skip": SKIP}
DECISION = {KEEP: "keep", DROP: "drop", SKIP: "skip"}
MAX_BATCH, MAX_NAME, MAX_NOTE, MAX_PERSON = 200, 200, 5000, 60
# What the answers allow to do to all tags of a kind at once.
KIND = {"remove": LISTED, "complete": MISSING}


class Step(NamedTuple):
    """A record that can be undone."""

    seq: int
    person: str
    record: Record
    tags: list[int]
    before: list[Any]
    """What undo puts back."""


class ReviewState:
    """Votes, names, notes, and what was done to all tags at once.

    Parameters
    ----------
    project : Project
        Items and tags to review.

    Attributes
    ----------
    row, column, listed, status : (m,) arrays
        The tags of the project, and after them those that a person added.
    votes : dict from tag to dict from person to status
    settled : dict from tag to status
        Disagreements that somebody has settled.
    notes : dict from (row, label) to dict from person to text
    names : list of str
        The name under which each label is shown.
    merged : dict from tag to tag
        Tags that are shown as another tag of their row.
    history : list of Step
        What can be undone.
    questions : Questions
        What to ask, and what the answers say.
    chosen : dict from kind to array of tags
        Tags that were removed, or added, as the answers allowed.
    """

    def __init__(self, project: Project):
        self.project = project
        self.row, self.column, self.listed = project.row, project.column, project.listed
        self.status = np.zeros(len(project.row), dtype=np.uint8)
        self.votes: dict[int, dict[str, int]] = {}
        self.settled: dict[int, int] = {}
        self.notes: dict[tuple[int, str], dict[str, str]] = {}
        self.names = list(project.labels)
        self.merged: dict[int, int] = {}
        self.history: list[Step] = []
        self.questions = Questions(project)
        self.chosen: dict[str, Array | None] = {LISTED: None, MISSING: None}
        self._certificate: Certificate | None = None
        # A number of a draw is for one set of tags, once a question of it was answered or undone.
        self._next_draw, self._draw_of = 0, dict[bytes, int]()
        # Tags of certificates whose answers were taken back.
        self._changed_answers: set[int] = set()
        self._row_of = {item.id: i for i, item in enumerate(project.items)}
        self._added: dict[int, list[int]] = {}
        self._merged_at = 0
        # Number of the last record about each tag, and by each person about each tag.
        self._changed: dict[int, int] = {}
        self._changed_by: dict[tuple[int, str], int] = {}
        # The tag that each person has just undone, which is asked again at once.
        self._undone: dict[str, int] = {}

    def name(self, tag: int) -> str:
        """Return the name under which a tag is shown."""
        return self.names[self.column[tag]]

    def tags_of_row(self, i: int) -> list[int]:
        """Return the tags of an item: those of the project, then those that a person added."""
        start = self.project.start
        added = self._added.get(i, ())
        return [*range(start[i], start[i + 1]), *(k for k in added if self.votes.get(k))]

    def is_visible(self, tag: int) -> bool:
        """Whether a tag is shown: as itself, and not added and taken back."""
        return tag not in self.merged and (tag < len(self.project.row) or bool(self.votes.get(tag)))

    def find(self, item: str, label: str) -> int:
        """Return the tag of an item that is shown under a name."""
        i = self._row_of.get(item)
        for k in () if i is None else self.tags_of_row(i):
            if self.name(k) == label and k not in self.merged:
                return k
        raise InputError(f"the item {brief(item)} has no tag {brief(label)}")

    def disagreements(self) -> list[int]:
        """Return the tags that some people kept and others dropped, and nobody settled."""
        return [
            tag
            for tag, votes in self.votes.items()
            if tag not in self.settled and {KEEP, DROP} <= set(votes.values())
        ]

    @property
    def confidence(self) -> Array:
        """Probability that each tag is correct, by the answers; 1 for tags that a person added."""
        p = self.questions.confidence(self.status)
        return np.r_[p, np.ones(len(self.row) - len(p))]

    def certificate(self) -> Certificate | None:
        """Return the certificate of the removed tags with all answers; None before a removal."""
        if self._certificate is None:
            return None
        return self.questions.certificate(self._certificate, self.status, self._changed_answers)

    def final(self) -> Array:
        """Return whether each tag is kept: as people decided, or else as the answers allowed."""
        kept = np.zeros(len(self.row), dtype=bool)
        kept[: len(self.project.row)] = self.project.kept
        for kind, tags in self.chosen.items():
            if tags is not None:
                kept[self.questions.tags[kind]] = kind == LISTED
                kept[tags] = kind == MISSING
        kept = np.where(self.status == KEEP, True, np.where(self.status == DROP, False, kept))
        for tag, first in self.merged.items():
            decided = self.status[first] in (KEEP, DROP) and self._changed[first] > self._merged_at
            kept[first] |= kept[tag] and not decided
            kept[tag] = False
        return kept

    def _last(self, person: str) -> Step | None:
        return next((step for step in reversed(self.history) if step.person == person), None)

    def _tags_of(self, record: Record) -> list[int]:
        """Return the tags that a record is about; raise InputError if it makes no sense."""
        action = _text(record, "action")
        checks = {
            **dict.fromkeys(STATUS, self._of_vote),
            **dict.fromkeys(KIND, self._of_choice),
            "swap": self._of_swap,
            "batch": self._of_batch,
            "add": self._of_new_tag,
            "settle": self._of_settlement,
            "rename": self._of_rename,
            "note": self._of_note,
            "threshold": self._of_threshold,
            "undo": self._undoable,
        }
        if action not in checks:
            raise InputError(f"there is no action {brief(action)}")
        if action in ("batch", "settle") and record.get("decision") not in ("keep", "drop"):
            raise InputError("the decision must be keep or drop")
        return checks[action](record)

    def _of_vote(self, record: Record) -> list[int]:
        return [self.find(_text(record, "item"), _text(record, "label"))]

    def _of_swap(self, record: Record) -> list[int]:
        wrong, right = (self.find(_text(record, "item"), _text(record, k)) for k in ("label", "to"))
        if not self.listed[wrong] or self.listed[right]:
            raise InputError("a swap drops a tag of the table and adds one that is not in it")
        return [wrong, right]

    def _of_choice(self, record: Record) -> list[int]:
        tags, listed = record.get("tags"), record["action"] == "remove"
        if not isinstance(tags, list) or not tags or len(set(map(str, tags))) < len(tags):
            raise InputError("there is no tag to remove or to add")
        n = len(self.project.row)
        if not all(type(k) is int and 0 <= k < n and self.listed[k] == listed for k in tags):
            raise InputError("the tags to remove must be listed, and those to add must not be")
        return []

    def _of_batch(self, record: Record) -> list[int]:
        items = record.get("items")
        if not isinstance(items, list) or not 0 < len(items) <= MAX_BATCH:
            raise InputError(f"a batch needs 1 to {MAX_BATCH} items")
        tags = [self.find(str(item), _text(record, "label")) for item in items]
        if len(set(tags)) < len(tags):
            raise InputError("a batch must not hold an item twice")
        return tags

    def _of_new_tag(self, record: Record) -> list[int]:
        self._check_item(record)
        self._check_name(_text(record, "label"))
        with contextlib.suppress(InputError):
            return [self.find(record["item"], record["label"])]
        return []

    def _of_settlement(self, record: Record) -> list[int]:
        tag = self.find(_text(record, "item"), _text(record, "label"))
        if tag not in self.disagreements():
            raise InputError("there is no disagreement about this tag")
        return [tag]

    def _of_rename(self, record: Record) -> list[int]:
        if _text(record, "label") not in self.names:
            raise InputError(f"there is no tag {brief(record['label'])}")
        self._check_name(_text(record, "to"))
        if record["to"] == record["label"]:
            raise InputError("the new name is the old one")
        return []

    def _of_note(self, record: Record) -> list[int]:
        self._check_item(record)
        if len(_text(record, "text")) > MAX_NOTE:
            raise InputError(f"a note has at most {MAX_NOTE:,} characters")
        return [self.find(record["item"], record["label"])] if _text(record, "label") else []

    def _of_threshold(self, record: Record) -> list[int]:
        """Journals of version 0.2 may hold thresholds, which have no effect any more."""
        return []

    def _undoable(self, record: Record) -> list[int]:
        step = self._last(str(record.get("person", "")))
        # Journals of version 0.1 do not number what is undone.
        is_same = step and record.get("of", step.seq) == step.seq
        if not step or not is_same or about(step.record) != about(record):
            raise InputError("there is no such record to undo")
        action = step.record["action"]
        if action in ("rename", *KIND):
            later = [s for s in self.history if s.seq > step.seq and s.record["action"] == action]
            if later:
                who = later[-1].person or "somebody"
                raise InputError(f"{who} has done another {action} since; undo that first")
        return step.tags

    def _check_item(self, record: Record) -> None:
        if _text(record, "item") not in self._row_of:
            raise InputError(f"there is no item {brief(record['item'])}")

    def _check_name(self, name: str) -> None:
        """Raise InputError for a text that cannot be a tag."""
        separator = self.project.table.separator if self.project.table is not None else None
        if not name or name != name.strip() or len(name) > MAX_NAME or not name.isprintable():
            raise InputError(
                f"a tag has 1 to {MAX_NAME} printable characters and no spaces around them, unlike "
                f"{brief(name)}"
            )
        if separator is not None and separator in name:
            raise InputError(f"{brief(name)} contains {separator!r}, which separates tags")

    def _apply(self, record: Record, tags: list[int]) -> None:
        """Change the state as a checked record says."""
        action, person, seq = record["action"], str(record.get("person", "")), record["seq"]
        if action == "undo":
            self._apply_undo(person, seq)
            return
        before: list[Any] = []
        if action == "add" and not tags:
            tags = [self._new_tag(record["item"], record["label"])]
        if action in (*STATUS, "batch", "add"):
            status = KEEP if action == "add" else STATUS[str(record.get("decision", action))]
            before = [self._vote(tag, person, status) for tag in tags]
        elif action == "swap":
            before = [self._vote(t, person, s) for t, s in zip(tags, (DROP, KEEP), strict=True)]
        elif action == "settle":
            before = [self.settled.get(tag) for tag in tags]
            self.settled |= dict.fromkeys(tags, STATUS[record["decision"]])
        elif action == "rename":
            before = [j for j, name in enumerate(self.names) if name == record["label"]]
            self._rename(before, record["to"], seq)
        elif action == "note":
            before = [self._note(record, person, record["text"])]
        elif action in KIND:
            before = [self.chosen[KIND[action]], self._certificate]
            self._choose(KIND[action], np.array(record["tags"]))
        self._touch(tags, person, seq)
        self.history.append(Step(seq, person, record, tags, before))
        self._undone.pop(person, None)

    def _apply_undo(self, person: str, seq: int) -> None:
        step: Any = self._last(person)
        self.history.remove(step)
        action, record = step.record["action"], step.record
        if action in (*STATUS, "swap", "batch", "add"):
            for tag, (vote, settled) in zip(step.tags, step.before, strict=True):
                self._restore(self.votes.setdefault(tag, {}), person, vote)
                self._restore(self.settled, tag, settled)
        elif action == "settle":
            for tag, settled in zip(step.tags, step.before, strict=True):
                self._restore(self.settled, tag, settled)
        elif action == "rename":
            self._rename(step.before, record["label"], seq)
        elif action == "note":
            self._note(record, person, step.before[0])
        elif action in KIND:
            self._count_draw()
            self.chosen[KIND[action]], self._certificate = step.before
        self._touch(step.tags, person, seq)
        if action in (*STATUS, "swap"):
            self._undone[person] = step.tags[0]
        else:
            self._undone.pop(person, None)

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

    def _next_drawn(self) -> int | None:
        """Return the tag that the certificate asks about next."""
        return next((tag for tag in self._drawn() if self.status[tag] == OPEN), None)

    def _drawn(self) -> Iterator[int]:
        """Yield the tags of the certificate in the order of drawing."""
        order = (self._certificate and self._certificate.order) or ()
        return map(self.questions.number, order)

    def _vote(self, tag: int, person: str, status: int) -> tuple[Any, ...]:
        """Record a vote; return what undo puts back."""
        votes = self.votes.setdefault(tag, {})
        earlier, settled = votes.get(person), self.settled.pop(tag, None)
        votes[person] = status
        return earlier, settled

    def _touch(self, tags: list[int], person: str, seq: int) -> None:
        """Derive the status of tags from the votes on them."""
        if self._next_drawn() in tags:
            self._count_draw()
        for tag in tags:
            self._changed[tag] = self._changed_by[tag, person] = seq
            votes = list(self.votes.get(tag, {}).values())
            n_keep, dropped = votes.count(KEEP), votes.count(DROP)
            status = KEEP if n_keep > dropped else DROP if dropped > n_keep else OPEN
            if votes and not n_keep and not dropped:
                status = SKIP
            status = self.settled.get(tag, status)
            if self.status[tag] not in (OPEN, status) and tag in self._drawn():
                self._changed_answers.add(tag)
            self.status[tag] = status

    def _new_tag(self, item: str, label: str) -> int:
        """Give an item a tag that nobody listed or suggested."""
        i = self._row_of[item]
        # One that was added before, and undone, has no vote and is not shown.
        for tag in self._added.get(i, ()):
            if self.name(tag) == label:
                return tag
        if label not in self.names:
            self.names.append(label)
        tag = len(self.row)
        self._added.setdefault(i, []).append(tag)
        self.row = np.r_[self.row, i]
        self.column = np.r_[self.column, self.names.index(label)]
        self.listed = np.r_[self.listed, False]
        self.status = np.r_[self.status, np.uint8(OPEN)]
        return tag

    def _rename(self, columns: list[int], name: str, seq: int) -> None:
        """Show labels under another name, and two tags of a row under one name as one."""
        for j in columns:
            self.names[j] = name
        self._merged_at = seq
        times = Counter(self.names)
        merged = np.isin(self.column, [j for j, label in enumerate(self.names) if times[label] > 1])
        first: dict[tuple[int, str], int] = {}
        self.merged = {}
        for tag in np.flatnonzero(merged).tolist():
            first_tag = first.setdefault((int(self.row[tag]), self.name(tag)), tag)
            if first_tag != tag:
                self.merged[tag] = first_tag

    def _note(self, record: Record, person: str, text: str) -> str:
        """Keep a note, or forget it if the text is empty; return the one before."""
        texts = self.notes.setdefault((self._row_of[record["item"]], record["label"]), {})
        earlier = texts.get(person, "")
        self._restore(texts, person, text, absent="")
        self.notes = {key: texts for key, texts in self.notes.items() if texts}
        return earlier

    @staticmethod
    def _restore(values: dict[Any, Any], key: Any, value: Any, *, absent: Any = None) -> None:
        """Put a former value back; the value `absent` says that there was none."""
        if value is absent:
            values.pop(key, None)
        else:
            values[key] = value


def about(record: Record) -> dict[str, str]:
    """Return item and label of a record, as far as it has them."""
    return {key: record[key] for key in ("item", "label") if key in record}


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

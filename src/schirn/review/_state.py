"""The state of a review: what each record of the journal is about, does, and undoes.

The state follows from the project and the journal alone. Each person has one vote per tag. A tag
has the status that most of its votes have; in a tie it stays with the model. Tags keep their number
for ever: a rename changes the name under which a label is shown, and of two tags of a row that are
shown under one name, the first stands for both.
"""

import contextlib
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from schirn._files import brief
from schirn._input import Array, is_share
from schirn.cleaning.limits import least_likely, with_one_left
from schirn.exceptions import InputError
from schirn.review._audit import ReviewAudit
from schirn.review._journal import Record
from schirn.review.project import Project

OPEN, KEEP, DROP, SKIP = range(4)
STATUS = {"keep": KEEP, "drop": DROP, "skip": SKIP}
DECISION = {KEEP: "keep", DROP: "drop", SKIP: "skip"}
_ANSWER = {KEEP: True, DROP: False, SKIP: None}
MAX_BATCH, MAX_NAME, MAX_NOTE, MAX_PERSON = 200, 200, 5000, 60
_ABSENT: Any = object()
# Each closer tag of the same label moves a tag back by this much confidence.
_VARIETY = 0.01


class Step(NamedTuple):
    """A record that can be undone."""

    seq: int
    person: str
    record: Record
    tags: list[int]
    before: list[Any]
    """What undo puts back."""


class ReviewState:
    """Votes, names, notes, the threshold and the audit of a review.

    Parameters
    ----------
    project : Project
        Items and tags to review.

    Attributes
    ----------
    row, column, listed, status, confidence : (m,) arrays
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
    """

    def __init__(self, project: Project):
        self.project = project
        self.row, self.column, self.listed = project.row, project.column, project.listed
        self.status = np.zeros(len(project.row), dtype=np.uint8)
        self.confidence = project.confidence
        self.votes: dict[int, dict[str, int]] = {}
        self.settled: dict[int, int] = {}
        self.notes: dict[tuple[int, str], dict[str, str]] = {}
        self.names = list(project.labels)
        self.merged: dict[int, int] = {}
        self.threshold = project.threshold
        self.history: list[Step] = []
        self.audit: ReviewAudit | None = None
        self._kept = project.kept
        self._row_of = {item.id: i for i, item in enumerate(project.items)}
        self._added: dict[int, list[int]] = {}
        self._merged_at = 0
        # Number of the last record about each tag, and by each person about each tag.
        self._changed: dict[int, int] = {}
        self._changed_by: dict[tuple[int, str], int] = {}
        # The tag that each person has just undone, which is asked again at once.
        self._undone: dict[str, int] = {}
        self._sorted: Array | None = None
        self._reorder()

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
    def auditing(self) -> bool:
        """Whether an audit is under way, so that nothing may show what the model thinks."""
        return self.audit is not None and not self.audit.done

    def final(self, threshold: float | None = None) -> Array:
        """Return whether each tag is kept, by people or else by the model.

        Parameters
        ----------
        threshold : float, optional
            By default the one in force.
        """
        kept = np.zeros(len(self.row), dtype=bool)
        model = self._model(threshold)
        kept[: len(model)] = model
        kept = np.where(self.status == KEEP, True, np.where(self.status == DROP, False, kept))
        for tag, first in self.merged.items():
            decided = self.status[first] in (KEEP, DROP) and self._changed[first] > self._merged_at
            kept[first] |= kept[tag] and not decided
            kept[tag] = False
        return kept

    def _model(self, threshold: float | None) -> Array:
        """Whether the model keeps each tag of the project."""
        # The certificate is about the audited verdicts, so no other model may change them.
        if self.audit is not None and self.audit.done:
            return self.audit.kept()
        if threshold is None and self.threshold == self.project.threshold:
            return self._kept
        return self._by_threshold(self.threshold if threshold is None else threshold)

    def _below(self, threshold: float) -> Array:
        """Whether the model keeps each tag at another threshold, within the limits of a row."""
        project, limits = self.project, self.project.limits
        listed = np.flatnonzero(project.listed)
        row, confidence = project.row[listed], self.confidence[listed]
        removed = project.judged[listed] & (confidence < threshold)
        if limits["max_remove_per_row"] is not None:
            removed = least_likely(row, confidence, removed, limits["max_remove_per_row"])
        if limits["keep_one"]:
            removed = with_one_left(row, confidence, removed, np.zeros(len(row), dtype=np.int8))
        kept = np.zeros(len(project.row), dtype=bool)
        kept[listed] = ~removed
        return kept

    @property
    def _order(self) -> Array:
        """Tags of the project in the order of the questions, sorted when they are needed."""
        if self._sorted is None:
            project, confidence = self.project, self.confidence[: len(self.project.row)]
            order = review_order(confidence, project.column, self.threshold, project.listed)
            self._sorted = order[~np.isin(order, list(self.merged))] if self.merged else order
        return self._sorted

    def _reorder(self) -> None:
        """Forget what followed from other confidences, another threshold, or other names."""
        self._sorted = None
        self._by_threshold = lru_cache(1)(self._below)

    def _last(self, person: str) -> Step | None:
        return next((step for step in reversed(self.history) if step.person == person), None)

    def _is_answer(self, record: Record, tags: Sequence[int]) -> bool:
        votes = record["action"] in STATUS
        return votes and self.audit is not None and tags[0] in self.audit

    def _tags_of(self, record: Record) -> list[int]:
        """Return the tags that a record is about; raise InputError if it makes no sense."""
        action = _text(record, "action")
        checks = {
            **dict.fromkeys(STATUS, self._asked),
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

    def _asked(self, record: Record) -> list[int]:
        item, label = _text(record, "item"), _text(record, "label")
        audit = self.audit if self.auditing else None
        # The sample may hold a tag that is shown as another one by now.
        for tag in () if audit is None else audit.tags:
            if audit is not None and tag not in audit.answers and self._is_named(tag, item, label):
                return [tag]
        return [self.find(item, label)]

    def _is_named(self, tag: int, item: str, label: str) -> bool:
        return self.project.items[self.row[tag]].id == item and self.name(tag) == label

    def _of_batch(self, record: Record) -> list[int]:
        items = record.get("items")
        if not isinstance(items, list) or not 0 < len(items) <= MAX_BATCH:
            raise InputError(f"a batch needs 1 to {MAX_BATCH} items")
        if self.auditing:
            raise InputError("the audit comes first; batches follow after it")
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
        value: Any = record.get("value")
        if not is_share(value):
            raise InputError(f"the threshold must be a number from 0 to 1, not {brief(value)}")
        if self.audit is not None:
            raise InputError("the certificate is about one threshold, so it stays")
        return []

    def _undoable(self, record: Record) -> list[int]:
        step = self._last(str(record.get("person", "")))
        # Journals of version 0.1 do not number what is undone.
        same = step and record.get("of", step.seq) == step.seq
        if not step or not same or about(step.record) != about(record):
            raise InputError("there is no such record to undo")
        action = step.record["action"]
        if action in ("rename", "threshold"):
            later = [s for s in self.history if s.seq > step.seq and s.record["action"] == action]
            if later:
                who = later[-1].person or "somebody"
                raise InputError(f"{who} has made another {action} since; undo that first")
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
            before = [self._vote(tag, person, status, record) for tag in tags]
        elif action == "settle":
            before = [self.settled.get(tag) for tag in tags]
            self.settled |= dict.fromkeys(tags, STATUS[record["decision"]])
        elif action == "rename":
            before = [j for j, name in enumerate(self.names) if name == record["label"]]
            self._rename(before, record["to"], seq)
        elif action == "note":
            before = [self._note(record, person, record["text"])]
        elif action == "threshold":
            before = [self.threshold]
            self._use_threshold(float(record["value"]))
        self._touch(tags, person, seq)
        self.history.append(Step(seq, person, record, tags, before))
        self._undone.pop(person, None)

    def _apply_undo(self, person: str, seq: int) -> None:
        step: Any = self._last(person)
        self.history.remove(step)
        action, record = step.record["action"], step.record
        if action in (*STATUS, "batch", "add"):
            for tag, (vote, settled, answer) in zip(step.tags, step.before, strict=True):
                self._restore(self.votes.setdefault(tag, {}), person, vote)
                self._restore(self.settled, tag, settled)
                audit = self.audit
                if audit is not None and answer is not None and step.seq > audit.start:
                    audit.answers = {**audit.answers}
                    self._restore(audit.answers, tag, answer[0], absent=_ABSENT)
        elif action == "settle":
            for tag, settled in zip(step.tags, step.before, strict=True):
                self._restore(self.settled, tag, settled)
        elif action == "rename":
            self._rename(step.before, record["label"], seq)
        elif action == "note":
            self._note(record, person, step.before[0])
        elif action == "threshold":
            self._use_threshold(step.before[0])
        self._touch(step.tags, person, seq)
        if action in STATUS:
            self._undone[person] = step.tags[0]
        else:
            self._undone.pop(person, None)

    def _vote(self, tag: int, person: str, status: int, record: Record) -> tuple[Any, ...]:
        """Record a vote; return what undo puts back."""
        votes, answer = self.votes.setdefault(tag, {}), None
        before, settled = votes.get(person), self.settled.pop(tag, None)
        votes[person] = status
        if record.get("audit") and self.audit is not None:
            answers = self.audit.answers
            answer = [answers.get(tag, _ABSENT)]
            self.audit.answers = {**answers, tag: _ANSWER[status]}
            self.audit.date = str(record.get("time", ""))[:10]
        return before, settled, answer

    def _touch(self, tags: list[int], person: str, seq: int) -> None:
        """Derive the status of tags from the votes on them."""
        for tag in tags:
            self._changed[tag] = self._changed_by[tag, person] = seq
            votes = list(self.votes.get(tag, {}).values())
            kept, dropped = votes.count(KEEP), votes.count(DROP)
            status = KEEP if kept > dropped else DROP if dropped > kept else OPEN
            if votes and not kept and not dropped:
                status = SKIP
            self.status[tag] = self.settled.get(tag, status)

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
        self.confidence = np.r_[self.confidence, 1.0]
        return tag

    def _rename(self, columns: list[int], name: str, seq: int) -> None:
        """Show labels under another name, and two tags of a row under one name as one."""
        for j in columns:
            self.names[j] = name
        self._merged_at = seq
        times = Counter(self.names)
        merged = np.isin(self.column, [j for j, own in enumerate(self.names) if times[own] > 1])
        first: dict[tuple[int, str], int] = {}
        self.merged = {}
        for tag in np.flatnonzero(merged).tolist():
            other = first.setdefault((int(self.row[tag]), self.name(tag)), tag)
            if other != tag:
                self.merged[tag] = other
        self._reorder()

    def _use_threshold(self, value: float) -> None:
        self.threshold = value
        self._reorder()

    def _note(self, record: Record, person: str, text: str) -> str:
        """Keep a note, or forget it if the text is empty; return the one before."""
        texts = self.notes.setdefault((self._row_of[record["item"]], record["label"]), {})
        before = texts.get(person, "")
        self._restore(texts, person, text, absent="")
        self.notes = {key: texts for key, texts in self.notes.items() if texts}
        return before

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


def review_order(
    confidence: Array, column: Array, threshold: float, listed: Array | bool = True
) -> Array:
    """Return the indices of the tags, most informative first.

    A listed tag near the threshold is the most informative, and a suggestion that is almost
    certain. So that a label with many such tags does not crowd out the others, the k-th nearest tag
    of a label counts as k hundredths further away.

    Parameters
    ----------
    confidence : (m,) float array
        Probability that each tag is correct.
    column : (m,) int array
        Label of each tag.
    threshold : float
        Tags at or above it are kept.
    listed : (m,) bool array, default=True
        False for suggestions.

    Examples
    --------
    >>> review_order(np.array([0.9, 0.51, 0.511, 0.515]), np.array([0, 0, 0, 1]), 0.5)
    array([1, 3, 2, 0])
    """
    distance = np.where(listed, np.abs(confidence - threshold), 1 - confidence)
    by_label = np.lexsort((distance, column))
    _, first, size = np.unique(column[by_label], return_index=True, return_counts=True)
    rank = np.empty(len(column))
    rank[by_label] = np.arange(len(column)) - np.repeat(first, size)
    return np.lexsort((distance, distance + _VARIETY * rank))

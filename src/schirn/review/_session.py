"""A review session: decisions, the next question and the final tags, safe for parallel requests.

The state follows from the project and the journal alone. Each person has one vote per tag. A tag
has the status that most of its votes have; in a tie it stays with the model. Tags keep their number
for ever: a rename changes the name under which a label is shown, and of two tags of a row that are
shown under one name, the first stands for both.
"""

import contextlib
import os
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from schirn._files import atomic_write, brief, read_archive
from schirn.cleaning.audit import Certificate
from schirn.cleaning.changes import Change, ChangeList
from schirn.cleaning.found import CLOSE
from schirn.cleaning.limits import least_likely, with_one_left
from schirn.exceptions import DataError, InputError
from schirn.review._audit import ReviewAudit
from schirn.review._journal import Journal, Record
from schirn.review._project import Project, read_project
from schirn.review._table import ProjectTable

Array = np.ndarray

OPEN, KEEP, DROP, SKIP = range(4)
_STATUS = {"keep": KEEP, "drop": DROP, "skip": SKIP}
_DECISION = {KEEP: "keep", DROP: "drop", SKIP: "skip"}
_ANSWER = {KEEP: True, DROP: False, SKIP: None}
ACTIONS = (*_STATUS, "undo")
# Records that say nothing new to the model.
_NOT_LEARNED = ("skip", "audit", "note", "rename", "threshold")
CONFIDENCE_FILE, CERTIFICATE_FILE = "confidence.npz", "certificate.json"
MAX_BATCH, MAX_NAME, MAX_NOTE, MAX_PERSON, MAX_TEXT = 200, 200, 5000, 60, 300
_ABSENT: Any = object()
# Each closer tag of the same label moves a tag back by this much confidence.
_VARIETY = 0.01


class Conflict(Exception):
    """Another tab decided first; nothing was written."""


class Step(NamedTuple):
    """A record that can be undone."""

    seq: int
    person: str
    record: Record
    tags: list[int]
    before: list[Any]
    """What undo puts back."""


def open_session(
    folder: str | os.PathLike[str], *, write: bool = True, image_root: str | None = None
) -> "Session":
    """Open a project folder with its decisions and the confidences of its last training.

    Parameters
    ----------
    folder : path
        Folder written by ``schirn clean --project``.
    write : bool
        Whether to accept decisions; if False, nothing in the folder changes.
    image_root : str, optional
        Folder of the image files; by default the one that ``schirn clean`` used.

    Returns
    -------
    Session
        ``final_tags()`` yields the tags of each item, ``write_table(path)`` writes the whole table
        with these tags, and ``changes()`` lists what has changed.

    Examples
    --------
    >>> from schirn.review import open_session
    >>> open_session("/nowhere")
    Traceback (most recent call last):
    ...
    schirn.exceptions.DataError: /nowhere: not a review project (project.json is missing); \
create one with: schirn clean TABLE --project /nowhere
    """
    project = read_project(folder)
    journal = Journal(Path(folder, "journal.jsonl"), project.fingerprint, write=write)
    try:
        if journal.repaired:
            warnings.warn(f"{journal.path}: {journal.repaired}", stacklevel=2)
        session = Session(project, journal, image_root=image_root)
        stored = _read_confidence(project, session.sequence)
        if stored is not None:
            session.use_confidence(*stored)
        if write:
            session.store_certificate()
    except BaseException:
        journal.close()
        raise
    return session


class Session:
    """A project, its journal, and the state that follows from both.

    Parameters
    ----------
    project : Project
        Items and tags to review.
    journal : Journal
        Decisions so far; they are replayed here.
    image_root : str, optional
        Folder of the image files.
    """

    def __init__(self, project: Project, journal: Journal, *, image_root: str | None = None):
        self.project, self.journal = project, journal
        self._image_root = image_root
        # Tags that a person added follow those of the project.
        self.row, self.column, self.listed = project.row, project.column, project.listed
        self.status = np.zeros(len(project.row), dtype=np.uint8)
        self.votes: dict[int, dict[str, int]] = {}
        self.settled: dict[int, int] = {}
        self.notes: dict[tuple[int, str], dict[str, str]] = {}
        self.names = list(project.labels)
        """The name under which each label is shown."""
        self.threshold = project.threshold
        self.history: list[Step] = []
        self.audit: ReviewAudit | None = None
        self.on_decision: Callable[[], None] | None = None
        self._row_of = {item.id: i for i, item in enumerate(project.items)}
        self._added: dict[int, list[int]] = {}
        self.merged: dict[int, int] = {}
        """Tags that are shown as another tag of their row."""
        self._merged_at = 0
        self._order: Array = np.arange(len(project.row))
        # Number of the last record about each tag, and by each person about each tag.
        self._changed: dict[int, int] = {}
        self._changed_by: dict[tuple[int, str], int] = {}
        self._undone: dict[str, int] = {}
        self.lock = threading.RLock()
        self.trained_to = 0
        self._kept = project.kept
        self.confidence = project.confidence
        for record in journal.records:
            self._replay(record)
        self._reorder()

    @property
    def sequence(self) -> int:
        """Number of the last record in the journal."""
        return self.journal.sequence

    @cached_property
    def table(self) -> ProjectTable | None:
        """The table of the project; None in projects of version 1."""
        roles, project = self.project.table, self.project
        if roles is None:
            return None
        return ProjectTable(project.folder, roles, len(project.items), self._image_root)

    def decide(self, action: str, item: str, label: str, seen: int, person: str = "") -> int:
        """Write a decision to the journal and return its number.

        Parameters
        ----------
        action : {"keep", "drop", "skip", "undo"}
        item, label : str
            The tag to decide.
        seen : int
            Number of the last record that the caller knows. A tag that was decided after it
            raises `Conflict`.
        person : str
            Who decides; "" if nobody gave a name.
        """
        if action not in ACTIONS:
            raise InputError(f"the action must be one of {', '.join(ACTIONS)}, not {brief(action)}")
        if action == "undo":
            return self.undo(seen, person, tag=(item, label))
        return self.act({"action": action, "item": item, "label": label}, seen, person)

    def undo(self, seen: int, person: str = "", *, of: int | None = None, tag: Any = None) -> int:
        """Undo the last record of a person and return the number of the new one.

        Parameters
        ----------
        seen : int
            Number of the last record that the caller knows.
        person : str
            Who undoes; only their own records are undone.
        of : int, optional
            Number of the record to undo; another one raises `Conflict`.
        tag : pair of str, optional
            Item and label of the record to undo.
        """
        with self.lock:
            step = self._last(person)
            if step is None:
                raise Conflict("There is nothing to undo.")
            expected = tag is None or (step.record.get("item"), step.record.get("label")) == tag
            if step.seq > seen or not expected or of not in (None, step.seq):
                raise Conflict("Another tab made a decision in the meantime; nothing was undone.")
            return self.act({"action": "undo", **_about(step.record), "of": step.seq}, seen, person)

    def act(self, record: Record, seen: int, person: str = "") -> int:
        """Check a record, write it to the journal, and return its number.

        Parameters
        ----------
        record : dict
            ``action`` and what it needs: ``item`` and ``label`` for "keep", "drop", "skip", "add"
            and "settle" (with ``decision``); ``label``, ``items`` and ``decision`` for "batch";
            ``label`` and ``to`` for "rename"; ``item``, ``label`` ("" for the whole item) and
            ``text`` for "note"; ``value`` for "threshold".
        seen : int
            Number of the last record that the caller knows.
        person : str
            Who acts.
        """
        with self.lock:
            if seen > self.sequence:
                raise Conflict("This page belongs to an earlier session and was reloaded.")
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            whole: Record = {"time": now, **record}
            person = checked_person(person)
            if person:
                whole["person"] = person
            try:
                tags = self._tags_of(whole)
            except InputError:
                if seen == self.sequence or record["action"] == "undo":
                    raise
                raise Conflict("The tags have changed in another tab; nothing was done.") from None
            if record["action"] not in ("undo", "note"):
                for tag in tags:
                    if self._changed_by.get((tag, person), 0) > seen:
                        raise Conflict("This tag was decided in another tab; nothing was changed.")
            if self._is_answer(whole, tags):
                whole["audit"] = True
            seq = self.journal.append(whole)
            self._apply(self.journal.records[-1], tags)
            self.store_certificate()
        if self.on_decision is not None:
            self.on_decision()
        return seq

    def start_audit(self, size: int) -> None:
        """Draw tags at random, to be asked first; an audit of the same size goes on.

        Parameters
        ----------
        size : int
            Number of tags.
        """
        with self.lock:
            audit = self.audit
            if audit is not None and audit.size == size:
                return
            if audit is not None and audit.answers and not audit.done:
                raise InputError(
                    f"{self.project.folder}: an audit of {audit.size} tags has begun, of which "
                    f"{len(audit.answers)} are answered; go on with --audit {audit.size}"
                )
            seed = sum(record["action"] == "audit" for record in self.journal.records)
            audit = ReviewAudit(self.project, size, seed, self.sequence + 1)
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            record = {"time": now, "action": "audit", "size": size, "seed": seed}
            self.journal.append({**record, "sample": audit.sha256})
            self.audit = audit
            self.store_certificate()

    @property
    def certificate(self) -> Certificate | None:
        """What a complete audit certifies."""
        with self.lock:
            return None if self.audit is None else self.audit.certificate

    @property
    def auditing(self) -> bool:
        """Whether an audit is under way, so that nothing may show what the model thinks."""
        return self.audit is not None and not self.audit.done

    def store_certificate(self) -> None:
        """Write the certificate to the project folder, or remove one that no longer holds."""
        if self.audit is None:
            return
        path, certificate = self.project.folder / CERTIFICATE_FILE, self.certificate
        # The journal holds all answers, so a full disk loses nothing: the next start writes it.
        with contextlib.suppress(OSError):
            if certificate is None:
                path.unlink(missing_ok=True)
            elif not path.exists() or path.read_bytes() != certificate.to_json().encode():
                certificate.to_json(path)

    def use_confidence(self, confidence: Array, seq: int) -> None:
        """Use the confidences of a model that was trained on the decisions up to `seq`."""
        threshold, first = self.project.threshold, self.project.confidence
        # Tags that `clean` could not judge (confidence one half), or kept in spite of a low
        # confidence, stay until the reviewer drops them.
        protected = self.project.kept & ((first == 0.5) | (first < threshold))
        with self.lock:
            self._kept = ((confidence >= threshold) | protected) & self.project.listed
            self.confidence = np.r_[confidence, np.ones(len(self.row) - len(confidence))]
            self.trained_to = seq
            self._reorder()

    def store_confidence(self) -> None:
        """Write the confidences to the project folder, for the next start and for the export."""
        with self.lock:
            confidence, seq = self.confidence[: len(self.project.row)], self.trained_to
        with atomic_write(self.project.folder / CONFIDENCE_FILE) as stream:
            project = np.array(self.project.fingerprint)
            np.savez(stream, confidence=confidence, seq=seq, project=project)

    def decisions_since(self, seq: int) -> int:
        """Return the number of tags decided and undone after record `seq`."""
        with self.lock:
            later = self.journal.records[seq:]
            learned = [record for record in later if record["action"] not in _NOT_LEARNED]
            return sum(len(record.get("items", "1")) for record in learned)

    def current(self, person: str = "", *, second: bool = False) -> int | None:
        """Return the tag to ask: just undone, of the audit, open, skipped, or None.

        Parameters
        ----------
        person : str
            Who is asked.
        second : bool
            Whether to ask about what only others have decided.
        """
        if person in self._undone:
            return self._undone[person]
        if self.audit is not None and not self.audit.done:
            return self.audit.next()
        status = self.status[self._order]
        if second:
            others = map(int, self._order[(status == KEEP) | (status == DROP)])
            fresh = (t for t in others if t not in self.settled and person not in self.votes[t])
            return next(fresh, None)
        for tag in self._order[status == OPEN]:
            # Open in spite of votes, since these are tied.
            if self.votes.get(int(tag), {}).get(person, SKIP) == SKIP:
                return int(tag)
        # The tag skipped longest ago comes first, so that every one has its turn.
        skipped = self._order[status == SKIP].tolist()
        return min(skipped, key=self._changed.__getitem__, default=None)

    def view(
        self, person: str = "", *, second: bool = False, chosen: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """Return what the page shows, as a JSON document.

        Parameters
        ----------
        person : str
            Who looks at the page.
        second : bool
            Whether to ask about what only others have decided.
        chosen : pair of str, optional
            Item and label to show instead of the next question.
        """
        with self.lock:
            tag = self.current(person, second=second)
            if chosen is not None and not self.auditing:
                with contextlib.suppress(InputError):
                    tag = self.find(*chosen)
            last = self._last(person)
            return {
                "seq": self.sequence,
                "threshold": self.threshold,
                "current": None if tag is None else self.describe(tag, person, second),
                "last": last and self._describe_step(last),
                "progress": self._progress(),
                "audit": self.audit and self.audit.view(),
                "disagreements": len(self.disagreements()),
            }

    def final_tags(self) -> Iterator[dict[str, Any]]:
        """Yield one record per item: tags, and those removed, decided by a person, and added.

        If there are any notes, each record has them as well.
        """
        with self.lock:
            status, kept, listed = self.status.copy(), self.final(), self.listed
            names = np.array(self.names, dtype=object)[self.column]
            into, notes = dict(self.merged), self._notes_by_row()
            rows = [self.tags_of_row(i) for i in range(len(self.project.items))]
        for i, (item, tags) in enumerate(zip(self.project.items, rows, strict=True)):
            shown = [k for k in tags if k not in into]
            given = {names[k] for k in tags if listed[k]}
            record = {
                "id": item.id,
                "tags": [names[k] for k in shown if kept[k]],
                "removed": [names[k] for k in shown if names[k] in given and not kept[k]],
                "checked": [names[k] for k in shown if status[k] in (KEEP, DROP)],
                "added": [names[k] for k in shown if names[k] not in given and kept[k]],
            }
            if notes:
                parts = (each.values() for each in notes.get(i, ()))
                record["notes"] = [": ".join(filter(None, part)) for part in parts]
            yield record

    def changes(self) -> ChangeList:
        """List how the tags of the table change: removals, additions, renames and merges."""
        project, found = self.project, []
        with self.lock:
            kept = self.final()
            rows = [self.tags_of_row(i) for i in range(len(project.items))]
            for i, tags in enumerate(rows):
                final = {self.name(k) for k in tags if k not in self.merged and kept[k]}
                listed = [k for k in tags if self.listed[k]]
                names = [self.name(k) for k in listed]
                spelled = None if self.table is None else self.table.tags(i)
                for k, after in zip(listed, names, strict=True):
                    label = project.labels[project.column[k]].strip()
                    own = [label]
                    if spelled is not None:
                        own = [tag for tag, judged in spelled if judged == label] or own
                    for before in own:
                        if after not in final:
                            why, sure = self._reason(k)
                            found.append(Change(i, "removal", before, "", sure, why))
                        elif before != after:
                            several = names.count(after) > 1 or len(own) > 1
                            why = "in the list of merges"
                            if label != after:
                                why = "renamed in the review"
                            kind = "merge" if several else "rename"
                            found.append(Change(i, kind, before, after, None, why))
                new = [k for k in tags if not self.listed[k] and k not in self.merged]
                for k in new:
                    if self.name(k) in final.difference(names):
                        why, sure = self._reason(k)
                        found.append(Change(i, "addition", "", self.name(k), sure, why))
        if self.table is None:
            own = [
                [project.labels[project.column[k]] for k in tags if self.listed[k]] for tags in rows
            ]
            return ChangeList.from_cells(own, found)
        cells, roles = self.table.cells, self.table.roles
        return ChangeList.from_cells(cells, found, column=roles.column, separator=roles.separator)

    def write_table(self, path: str | os.PathLike[str]) -> None:
        """Write the whole table with the final tags: all columns, all rows, in their order.

        Parameters
        ----------
        path : path
            Must have the format of the table.

        Raises
        ------
        InputError
            If the project has no table.
        """
        table = self.table
        if table is None:
            raise InputError(
                f"{self.project.folder}: this project keeps no table; create it again to export "
                f"all columns"
            )
        cells = self.changes().apply(table.cells, spreadsheet=not table.table.lists)
        table.table.write(os.fspath(path), {table.roles.column: cells}, {})

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

    def _reason(self, tag: int) -> tuple[str, float | None]:
        """Why a tag is removed or added, and the probability that this is right."""
        confidence, status = float(self.confidence[tag]), int(self.status[tag])
        why = f"{confidence:.0%} likely to be correct ({self.project.method})"
        sure: float | None = 1 - confidence
        if status in (KEEP, DROP):
            votes = self.votes.get(tag, {})
            people = ", ".join(who for who, vote in votes.items() if vote == status and who)
            done = "dropped" if status == DROP else "added"
            why, sure = f"{done} by {people or 'a person'}", None
        said = self.notes.get((int(self.row[tag]), self.name(tag)), {}).values()
        return ". ".join([why, *said]), sure

    def _notes_by_row(self) -> dict[int, list[dict[str, str]]]:
        found: dict[int, list[dict[str, str]]] = {}
        for (i, label), texts in self.notes.items():
            found.setdefault(i, []).extend(
                {"label": label, "person": who, "text": text} for who, text in texts.items()
            )
        return found

    def _last(self, person: str) -> Step | None:
        return next((step for step in reversed(self.history) if step.person == person), None)

    def _is_answer(self, record: Record, tags: Sequence[int]) -> bool:
        votes = record["action"] in _STATUS
        return votes and self.audit is not None and tags[0] in self.audit

    def _tags_of(self, record: Record) -> list[int]:
        """Return the tags that a record is about; raise InputError if it makes no sense."""
        action = _text(record, "action")
        checks = {
            **dict.fromkeys(_STATUS, self._asked),
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
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= value <= 1:
            raise InputError(f"the threshold must be a number from 0 to 1, not {brief(value)}")
        if self.audit is not None:
            raise InputError("the certificate is about one threshold, so it stays")
        return []

    def _check_item(self, record: Record) -> None:
        if _text(record, "item") not in self._row_of:
            raise InputError(f"there is no item {brief(record['item'])}")

    def _undoable(self, record: Record) -> list[int]:
        step = self._last(str(record.get("person", "")))
        # Journals of version 0.1 do not number what is undone.
        same = step and record.get("of", step.seq) == step.seq
        if not step or not same or _about(step.record) != _about(record):
            raise InputError("there is no such record to undo")
        action = step.record["action"]
        if action in ("rename", "threshold"):
            later = [s for s in self.history if s.seq > step.seq and s.record["action"] == action]
            if later:
                who = later[-1].person or "somebody"
                raise InputError(f"{who} has made another {action} since; undo that first")
        return step.tags

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

    def _replay(self, record: Record) -> None:
        if record.get("action") == "audit":
            self._replay_audit(record)
            return
        try:
            checked_person(record.get("person", ""))
            tags = self._tags_of(record)
            if bool(record.get("audit")) != self._is_answer(record, tags):
                raise InputError("the audit does not fit")
        except InputError:
            action, item, label = (record.get(key) for key in ("action", "item", "label"))
            raise DataError(
                f"{self.journal.path}: record {record['seq']} does not fit the project "
                f"({brief(action)} on {brief(item)}, {brief(label)}); restore the file from a "
                f"backup, or move it away to start over"
            ) from None
        self._apply(record, tags)

    def _replay_audit(self, record: Record) -> None:
        size, seed = record.get("size"), record.get("seed")
        try:
            self.audit = ReviewAudit(self.project, size, seed, record["seq"])  # type: ignore[arg-type]
            fits = self.audit.sha256 == record.get("sample")
        except (InputError, TypeError, ValueError):
            fits = False
        if not fits:
            raise DataError(
                f"{self.journal.path}: the audit of record {record['seq']} was drawn from other "
                f"verdicts than those in the folder; move the file away to start over"
            )

    def _apply(self, record: Record, tags: list[int]) -> None:
        """Change the state as a checked record says."""
        action, person, seq = record["action"], str(record.get("person", "")), record["seq"]
        if action == "undo":
            self._apply_undo(person, seq)
            return
        before: list[Any] = []
        if action == "add" and not tags:
            tags = [self._new_tag(record["item"], record["label"])]
        if action in (*_STATUS, "batch", "add"):
            status = KEEP if action == "add" else _STATUS[str(record.get("decision", action))]
            before = [self._vote(tag, person, status, record) for tag in tags]
        elif action == "settle":
            before = [self.settled.get(tag) for tag in tags]
            self.settled |= dict.fromkeys(tags, _STATUS[record["decision"]])
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
        if action in (*_STATUS, "batch", "add"):
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
        if action in _STATUS:
            self._undone[person] = step.tags[0]
        else:
            self._undone.pop(person, None)

    @staticmethod
    def _restore(values: dict[Any, Any], key: Any, value: Any, *, absent: Any = None) -> None:
        """Put a former value back; the value `absent` says that there was none."""
        if value is absent:
            values.pop(key, None)
        else:
            values[key] = value

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

    def _reorder(self) -> None:
        """Sort the questions, and forget what followed from another threshold."""
        self._by_threshold = lru_cache(1)(self._below)
        project, n = self.project, len(self.project.row)
        confidence = self.confidence[:n]
        order = review_order(confidence, project.column, self.threshold, project.listed)
        self._order = order[~np.isin(order, list(self.merged))] if self.merged else order

    def _progress(self) -> dict[str, int]:
        n = len(self.project.row)
        counts, listed = np.bincount(self.status, minlength=4), self.project.listed
        undecided = (self.status[:n] == OPEN) | (self.status[:n] == SKIP)
        undecided[list(filter(n.__gt__, self.merged))] = False
        is_close = np.abs(self.confidence[:n] - self.threshold) < CLOSE
        return {
            "kept": int(counts[KEEP]),
            "dropped": int(counts[DROP]),
            "skipped": int(counts[SKIP]),
            "decided": int(counts[KEEP] + counts[DROP]),
            "doubtful": int((undecided & is_close & listed).sum()),
            "suggested": int((undecided & ~listed).sum()),
            "total": int(listed.sum()),
        }

    def describe(self, tag: int, person: str = "", second: bool = False) -> dict[str, Any]:
        """Return what the page shows about a tag and its item."""
        # Who knows the verdict, or what others decided, answers differently.
        blind, i = self.auditing, int(self.row[tag])
        hidden = blind or second
        final = self.final()
        tags = self.chips(i, final, tag)
        if hidden:
            tags = [chip | {"decision": None} for chip in tags if blind <= chip["listed"]]
        if blind:
            tags = [chip | {"confidence": None, "kept": True} for chip in tags]
        votes = {} if hidden else self.votes.get(tag, {})
        return {
            **self.about_row(i),
            "text": self.project.items[i].text,
            "label": self.name(tag),
            "confidence": None if blind else self._likely(tag),
            "kept": None if hidden else bool(final[tag]),
            "suggested": not self.listed[tag],
            "audit": self.audit is not None and tag in self.audit,
            "decision": None if hidden else self._decision(tag),
            "mine": None if blind else _DECISION.get(self.votes.get(tag, {}).get(person, OPEN)),
            "votes": {who: _DECISION[vote] for who, vote in votes.items()},
            "notes": self._notes_by_row().get(i, []),
            "others": [] if self.table is None else list(self.table.others(i)),
            "tags": tags,
        }

    def about_row(self, i: int) -> dict[str, Any]:
        """Return id, number, the start of the text and the name of the image of an item."""
        item = self.project.items[i]
        table = self.table
        return {
            "item": item.id,
            "row": i,
            "text": item.text[:MAX_TEXT],
            "image": None if table is None else table.image_name(i),
            "has_image": table is not None and table.image_file(i) is not None,
        }

    def chips(self, i: int, final: Array, current: int | None = None) -> list[dict[str, Any]]:
        """Return what the page shows about all tags of an item."""
        return [
            {
                "label": self.name(k),
                "confidence": self._likely(k),
                "kept": bool(final[k]),
                "decision": self._decision(k),
                "listed": bool(self.listed[k]),
                "suggested": not self.listed[k],
                "current": k == current,
            }
            for k in self.tags_of_row(i)
            if k not in self.merged
        ]

    def _describe_step(self, step: Step) -> dict[str, Any]:
        """Return what the page says about the last action of a person."""
        keys = ("item", "label", "action", "decision", "to", "value")
        about = {key: step.record[key] for key in keys if key in step.record}
        return {**about, "of": step.seq, "count": len(step.tags)}

    def _likely(self, tag: int) -> float | None:
        """Return the confidence to show; there is none for a tag that a person added."""
        return None if tag >= len(self.project.row) else round(float(self.confidence[tag]), 4)

    def _decision(self, tag: int) -> str | None:
        return _DECISION.get(int(self.status[tag]))


def _about(record: Record) -> dict[str, str]:
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


def _read_confidence(project: Project, sequence: int) -> tuple[Array, int] | None:
    """Return the stored confidences and their sequence number, or None if they do not fit."""
    path = Path(project.folder, CONFIDENCE_FILE)
    if not path.is_file():
        return None
    try:
        stored = read_archive(path)
        confidence, seq = np.asarray(stored["confidence"], np.float64), int(stored["seq"])
        same = str(stored["project"]) == project.fingerprint
    except (DataError, OSError, ValueError, KeyError, TypeError):
        return None
    fits = confidence.shape == project.confidence.shape and np.isfinite(confidence).all()
    return (confidence, seq) if same and fits and 0 <= seq <= sequence else None

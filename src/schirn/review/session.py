"""A review session: decisions, the next question and the final tags, safe for parallel requests."""

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import atomic_write, brief, read_archive
from schirn._input import Array
from schirn.cleaning.audit import Certificate
from schirn.cleaning.found import CLOSE
from schirn.exceptions import DataError, InputError
from schirn.review._audit import ReviewAudit
from schirn.review._journal import Journal, Record
from schirn.review._state import (
    DECISION,
    DROP,
    KEEP,
    OPEN,
    SKIP,
    STATUS,
    ReviewState,
    Step,
    about,
    checked_person,
)
from schirn.review.project import Project, read_project
from schirn.review.table import ProjectTable
from schirn.tables.changes import Change, ChangeList

ACTIONS = (*STATUS, "undo")
# Records that say nothing new to the model.
_NOT_LEARNED = ("skip", "audit", "note", "rename", "threshold")
CONFIDENCE_FILE, CERTIFICATE_FILE = "confidence.npz", "certificate.json"
_MAX_TEXT = 300


class Conflict(Exception):
    """Another tab decided first; nothing was written."""


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


class Session(ReviewState):
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
        super().__init__(project)
        self.journal, self._image_root = journal, image_root
        self.on_decision: Callable[[], None] | None = None
        self.lock = threading.RLock()
        self.trained_to = 0
        for record in journal.records:
            self._replay(record)

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
            return self.act({"action": "undo", **about(step.record), "of": step.seq}, seen, person)

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
            "mine": None if blind else DECISION.get(self.votes.get(tag, {}).get(person, OPEN)),
            "votes": {who: DECISION[vote] for who, vote in votes.items()},
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
            "text": item.text[:_MAX_TEXT],
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
        return DECISION.get(int(self.status[tag]))


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

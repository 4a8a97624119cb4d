"""A review session: decisions, the next question and the final tags, safe for parallel requests."""

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from schirn._files import atomic_write, brief, read_archive
from schirn.cleaning.audit import Certificate
from schirn.cleaning.found import CLOSE
from schirn.exceptions import DataError, InputError
from schirn.review._audit import ReviewAudit
from schirn.review._journal import Journal, Record
from schirn.review._project import Project, read_project

Array = np.ndarray

OPEN, KEEP, DROP, SKIP = range(4)
_STATUS = {"keep": KEEP, "drop": DROP, "skip": SKIP}
_DECISION = {KEEP: "keep", DROP: "drop", SKIP: "skip"}
_ANSWER = {KEEP: True, DROP: False, SKIP: None}
ACTIONS = (*_STATUS, "undo")
CONFIDENCE_FILE, CERTIFICATE_FILE = "confidence.npz", "certificate.json"
# Each closer tag of the same label moves a tag back by this much confidence.
_VARIETY = 0.01


class Conflict(Exception):
    """Another tab decided first; nothing was written."""


class Step(NamedTuple):
    """A decision that can be undone."""

    tag: int
    before: int
    seq: int
    action: str
    answers: dict[int, bool | None] | None
    """Answers of the audit before it; None if it was not one of them."""


def open_session(folder: str | os.PathLike[str], *, write: bool = True) -> "Session":
    """Open a project folder with its decisions and the confidences of its last training.

    Parameters
    ----------
    folder : path
        Folder written by ``schirn clean --project``.
    write : bool
        Whether to accept decisions; if False, nothing in the folder changes.

    Returns
    -------
    Session
        ``final_tags()`` yields the tags of each item.

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
        session = Session(project, journal)
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
    """

    def __init__(self, project: Project, journal: Journal):
        self.project, self.journal = project, journal
        self.status = np.zeros(len(project.row), dtype=np.uint8)
        self.history: list[Step] = []
        self.audit: ReviewAudit | None = None
        self.on_decision: Callable[[], None] | None = None
        # Number of the last record about each tag.
        self._changed: dict[int, int] = {}
        self._undone: int | None = None
        self._lock = threading.RLock()
        self.trained_to = 0
        self._set_confidence(project.confidence, project.kept)
        for record in journal.records:
            self._replay(record)

    @property
    def sequence(self) -> int:
        """Number of the last record in the journal."""
        return self.journal.sequence

    def decide(self, action: str, item: str, label: str, seen: int) -> int:
        """Write a decision to the journal and return its number.

        Parameters
        ----------
        action : {"keep", "drop", "skip", "undo"}
        item, label : str
            The tag to decide.
        seen : int
            Number of the last record that the caller knows. A tag that was decided after it
            raises `Conflict`.
        """
        if action not in ACTIONS:
            raise InputError(f"the action must be one of {', '.join(ACTIONS)}, not {brief(action)}")
        tag = self.project.tag_of.get((item, label))
        if tag is None:
            raise InputError(f"the item {brief(item)} has no tag {brief(label)}")
        with self._lock:
            self._check_conflict(action, tag, seen)
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            record: Record = {"time": now, "item": item, "label": label, "action": action}
            if self.audit is not None and tag in self.audit and action != "undo":
                record["audit"] = True
            seq = self.journal.append(record)
            self._apply(action, tag, self.journal.records[-1])
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
        with self._lock:
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
        with self._lock:
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
        with self._lock:
            kept = ((confidence >= threshold) | protected) & self.project.listed
            self._set_confidence(confidence, kept)
            self.trained_to = seq

    def store_confidence(self) -> None:
        """Write the confidences to the project folder, for the next start and for the export."""
        with self._lock:
            confidence, seq = self.confidence, self.trained_to
        with atomic_write(self.project.folder / CONFIDENCE_FILE) as stream:
            project = np.array(self.project.fingerprint)
            np.savez(stream, confidence=confidence, seq=seq, project=project)

    def decisions_since(self, seq: int) -> int:
        """Return the number of keeps, drops and undos after record `seq`."""
        with self._lock:
            others = ("skip", "audit")
            return sum(record["action"] not in others for record in self.journal.records[seq:])

    def current(self) -> int | None:
        """Return the tag to ask: just undone, of the audit, open, skipped, or None."""
        if self._undone is not None:
            return self._undone
        if self.audit is not None and not self.audit.done:
            return self.audit.next()
        status = self.status[self._order]
        undecided = self._order[status == OPEN]
        if len(undecided):
            return int(undecided[0])
        # The tag skipped longest ago comes first, so that every one has its turn.
        skipped = self._order[status == SKIP].tolist()
        return min(skipped, key=self._changed.__getitem__, default=None)

    def view(self) -> dict[str, Any]:
        """Return what the page shows, as a JSON document."""
        with self._lock:
            tag = self.current()
            last = self.history[-1] if self.history else None
            return {
                "seq": self.sequence,
                "threshold": self.project.threshold,
                "current": None if tag is None else self._describe(tag),
                "last": last and {**self._named(last.tag), "action": last.action},
                "progress": self._progress(),
                "audit": self.audit and self.audit.view(),
            }

    def final_tags(self) -> Iterator[dict[str, Any]]:
        """Yield one record per item: tags, and those removed, decided by a person, and added."""
        with self._lock:
            status, kept = self.status.copy(), self._final()
        project = self.project
        for i, item in enumerate(project.items):
            tags = range(project.start[i], project.start[i + 1])
            label = {k: project.labels[project.column[k]] for k in tags}
            yield {
                "id": item.id,
                "tags": [label[k] for k in tags if kept[k]],
                "removed": [label[k] for k in tags if project.listed[k] and not kept[k]],
                "checked": [label[k] for k in tags if status[k] in (KEEP, DROP)],
                "added": [label[k] for k in tags if not project.listed[k] and kept[k]],
            }

    def _check_conflict(self, action: str, tag: int, seen: int) -> None:
        if action == "undo":
            if not self.history:
                raise Conflict("There is nothing to undo.")
            if self.history[-1].tag != tag or self.history[-1].seq > seen:
                raise Conflict("Another tab made a decision in the meantime; nothing was undone.")
        elif self._changed.get(tag, 0) > seen:
            raise Conflict("This tag was decided in another tab; nothing was changed.")
        if seen > self.sequence:
            raise Conflict("This page belongs to an earlier session and was reloaded.")

    def _replay(self, record: Record) -> None:
        action, seq = record.get("action"), record["seq"]
        if action == "audit":
            self._replay_audit(record)
            return
        item, label = record.get("item"), record.get("label")
        are_names = isinstance(item, str) and isinstance(label, str)
        tag = self.project.tag_of.get((str(item), str(label))) if are_names else None
        undoes = bool(self.history) and self.history[-1].tag == tag
        sampled = action != "undo" and self.audit is not None and tag in self.audit
        fits = tag is not None and action in ACTIONS and bool(record.get("audit")) == sampled
        if tag is None or not fits or (action == "undo" and not undoes):
            raise DataError(
                f"{self.journal.path}: record {seq} does not fit the project "
                f"({brief(action)} on {brief(item)}, {brief(label)}); restore the file from a "
                f"backup, or move it away to start over"
            )
        self._apply(str(action), tag, record)

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

    def _apply(self, action: str, tag: int, record: Record) -> None:
        self._changed[tag] = record["seq"]
        audit = self.audit
        if action == "undo":
            step = self.history.pop()
            self.status[tag] = step.before
            if audit is not None and step.answers is not None and step.seq > audit.start:
                audit.answers = step.answers
            self._undone = tag
            return
        status, answers = _STATUS[action], None
        if audit is not None and tag in audit:
            answers = audit.answers
            audit.answers = {**answers, tag: _ANSWER[status]}
            audit.date = str(record.get("time", ""))[:10]
        self.history.append(Step(tag, int(self.status[tag]), record["seq"], action, answers))
        self.status[tag] = status
        self._undone = None

    def _set_confidence(self, confidence: Array, kept: Array) -> None:
        self.confidence, self._kept = confidence, kept
        project = self.project
        self._order = review_order(confidence, project.column, project.threshold, project.listed)

    def _final(self) -> Array:
        # The certificate is about the audited verdicts, so no other model may change them.
        done = self.audit is not None and self.audit.done
        kept = self.audit.kept() if self.audit is not None and done else self._kept
        return np.where(self.status == KEEP, True, np.where(self.status == DROP, False, kept))

    def _progress(self) -> dict[str, int]:
        counts, listed = np.bincount(self.status, minlength=4), self.project.listed
        undecided = (self.status == OPEN) | (self.status == SKIP)
        is_close = np.abs(self.confidence - self.project.threshold) < CLOSE
        return {
            "kept": int(counts[KEEP]),
            "dropped": int(counts[DROP]),
            "skipped": int(counts[SKIP]),
            "decided": int(counts[KEEP] + counts[DROP]),
            "doubtful": int((undecided & is_close & listed).sum()),
            "suggested": int((undecided & ~listed).sum()),
            "total": int(listed.sum()),
        }

    def _named(self, tag: int) -> dict[str, str]:
        item, label = self.project.name(tag)
        return {"item": item, "label": label}

    def _describe(self, tag: int) -> dict[str, Any]:
        project = self.project
        i = int(project.row[tag])
        final = self._final()
        # Who knows the verdict answers differently, so the audit does not show it.
        blind = self.audit is not None and not self.audit.done
        tags = [
            {
                "label": project.labels[project.column[k]],
                "confidence": None if blind else round(float(self.confidence[k]), 4),
                "kept": bool(final[k]) or blind,
                "decision": None if blind else _DECISION.get(int(self.status[k])),
                "suggested": not project.listed[k],
                "current": k == tag,
            }
            for k in range(project.start[i], project.start[i + 1])
            if project.listed[k] or not blind
        ]
        return {
            **self._named(tag),
            "text": project.items[i].text,
            "confidence": None if blind else round(float(self.confidence[tag]), 4),
            "kept": None if blind else bool(final[tag]),
            "suggested": not project.listed[tag],
            "audit": self.audit is not None and tag in self.audit,
            "tags": tags,
        }


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

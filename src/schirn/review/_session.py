"""A review session: decisions, the next question and the final tags, safe for parallel requests."""

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from schirn._files import atomic_write, brief, read_archive
from schirn.cleaning.found import CLOSE
from schirn.exceptions import DataError, InputError
from schirn.review._journal import Journal, Record
from schirn.review._project import Project, read_project

Array = np.ndarray

OPEN, KEEP, DROP, SKIP = range(4)
_STATUS = {"keep": KEEP, "drop": DROP, "skip": SKIP}
_DECISION = {KEEP: "keep", DROP: "drop", SKIP: "skip"}
ACTIONS = (*_STATUS, "undo")
CONFIDENCE_FILE = "confidence.npz"
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
            raise InputError(f"the action must be one of {', '.join(ACTIONS)}, not {action!r}")
        tag = self.project.tag_of.get((item, label))
        if tag is None:
            raise InputError(f"the item {item!r} has no tag {label!r}")
        with self._lock:
            self._check_conflict(action, tag, seen)
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            record = {"time": now, "item": item, "label": label, "action": action}
            seq = self.journal.append(record)
            self._apply(action, tag, seq)
        if self.on_decision is not None:
            self.on_decision()
        return seq

    def use_confidence(self, confidence: Array, seq: int) -> None:
        """Use the confidences of a model that was trained on the decisions up to `seq`."""
        threshold, first = self.project.threshold, self.project.confidence
        # Tags that `clean` could not judge (confidence one half), or kept in spite of a low
        # confidence, stay until the reviewer drops them.
        protected = self.project.kept & ((first == 0.5) | (first < threshold))
        with self._lock:
            self._set_confidence(confidence, (confidence >= threshold) | protected)
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
            return sum(record["action"] != "skip" for record in self.journal.records[seq:])

    def current(self) -> int | None:
        """Return the tag to ask about: just undone, else open, else skipped, else None."""
        if self._undone is not None:
            return self._undone
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
            }

    def final_tags(self) -> Iterator[dict[str, Any]]:
        """Yield one record per item: tags kept, tags removed, tags decided by a person."""
        with self._lock:
            status, kept = self.status.copy(), self._final()
        project = self.project
        for i, item in enumerate(project.items):
            tags = range(project.start[i], project.start[i + 1])
            label = {k: project.labels[project.column[k]] for k in tags}
            yield {
                "id": item.id,
                "tags": [label[k] for k in tags if kept[k]],
                "removed": [label[k] for k in tags if not kept[k]],
                "checked": [label[k] for k in tags if status[k] in (KEEP, DROP)],
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
        item, label = record.get("item"), record.get("label")
        are_names = isinstance(item, str) and isinstance(label, str)
        tag = self.project.tag_of.get((str(item), str(label))) if are_names else None
        action = record.get("action")
        undoes = bool(self.history) and self.history[-1].tag == tag
        if tag is None or action not in ACTIONS or (action == "undo" and not undoes):
            raise DataError(
                f"{self.journal.path}: record {record['seq']} does not fit the project "
                f"({brief(action)} on {brief(item)}, {brief(label)}); restore the file from a "
                f"backup, or move it away to start over"
            )
        self._apply(str(action), tag, record["seq"])

    def _apply(self, action: str, tag: int, seq: int) -> None:
        self._changed[tag] = seq
        if action == "undo":
            self.status[tag] = self.history.pop().before
            self._undone = tag
            return
        self.history.append(Step(tag, int(self.status[tag]), seq, action))
        self.status[tag] = _STATUS[action]
        self._undone = None

    def _set_confidence(self, confidence: Array, kept: Array) -> None:
        self.confidence, self._kept = confidence, kept
        self._order = review_order(confidence, self.project.column, self.project.threshold)

    def _final(self) -> Array:
        return np.where(self.status == KEEP, True, np.where(self.status == DROP, False, self._kept))

    def _progress(self) -> dict[str, int]:
        counts = np.bincount(self.status, minlength=4)
        undecided = (self.status == OPEN) | (self.status == SKIP)
        is_close = np.abs(self.confidence - self.project.threshold) < CLOSE
        return {
            "kept": int(counts[KEEP]),
            "dropped": int(counts[DROP]),
            "skipped": int(counts[SKIP]),
            "decided": int(counts[KEEP] + counts[DROP]),
            "doubtful": int((undecided & is_close).sum()),
            "total": len(self.status),
        }

    def _named(self, tag: int) -> dict[str, str]:
        item, label = self.project.name(tag)
        return {"item": item, "label": label}

    def _describe(self, tag: int) -> dict[str, Any]:
        project = self.project
        i = int(project.row[tag])
        final = self._final()
        tags = [
            {
                "label": project.labels[project.column[k]],
                "confidence": round(float(self.confidence[k]), 4),
                "kept": bool(final[k]),
                "decision": _DECISION.get(int(self.status[k])),
                "current": k == tag,
            }
            for k in range(project.start[i], project.start[i + 1])
        ]
        return {
            **self._named(tag),
            "text": project.items[i].text,
            "confidence": round(float(self.confidence[tag]), 4),
            "tags": tags,
        }


def review_order(confidence: Array, column: Array, threshold: float) -> Array:
    """Return the indices of the tags, most informative first.

    A tag near the threshold is the most informative. So that a label with many such tags does not
    crowd out the others, the k-th nearest tag of a label counts as k hundredths further away.

    Parameters
    ----------
    confidence : (m,) float array
        Probability that each tag is correct.
    column : (m,) int array
        Label of each tag.
    threshold : float
        Tags at or above it are kept.

    Examples
    --------
    >>> review_order(np.array([0.9, 0.51, 0.511, 0.515]), np.array([0, 0, 0, 1]), 0.5)
    array([1, 3, 2, 0])
    """
    distance = np.abs(confidence - threshold)
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

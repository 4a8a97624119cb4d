"""What is decided, what comes next, and the final tags; safe for many requests at once."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from schirn._files import brief
from schirn.exceptions import DataError, InputError
from schirn.review._journal import Journal, Record
from schirn.review._order import doubtful, review_order
from schirn.review._project import Project

Array = np.ndarray

OPEN, KEEP, DROP, SKIP = range(4)
_STATUS = {"keep": KEEP, "drop": DROP, "skip": SKIP}
_DECISION = {KEEP: "keep", DROP: "drop", SKIP: "skip"}
ACTIONS = (*_STATUS, "undo")


class Conflict(Exception):
    """Somebody else decided first; nothing was written."""


class Step(NamedTuple):
    """A decision that can be undone."""

    pair: int
    before: int
    seq: int
    action: str


class Session:
    """A project, its journal, and the state that follows from both.

    Parameters
    ----------
    project : what is reviewed
    journal : its decisions, replayed here

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from schirn.review import Journal, Session, read_project
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> head = {"format": "schirn-review", "version": 1, "labels": ["cat", "dog"],
    ...         "threshold": 0.5, "n_items": 1, "features": None}
    >>> _ = (folder / "project.json").write_text(json.dumps(head))
    >>> tags = [{"label": "cat", "confidence": 0.6, "kept": True},
    ...         {"label": "dog", "confidence": 0.9, "kept": True}]
    >>> item = {"id": "a", "text": "A dog.", "tags": tags}
    >>> _ = (folder / "items.jsonl").write_text(json.dumps(item))
    >>> project = read_project(folder)
    >>> session = Session(project, Journal(folder / "journal.jsonl", project.fingerprint))
    >>> session.view()["current"]["label"]
    'cat'
    >>> session.decide("drop", "a", "cat", seen=0)
    1
    >>> list(session.final_tags())
    [{'id': 'a', 'tags': ['dog'], 'removed': ['cat'], 'checked': ['cat']}]
    """

    def __init__(self, project: Project, journal: Journal):
        self.project, self.journal = project, journal
        self.status = np.zeros(len(project.row), dtype=np.uint8)
        self.history: list[Step] = []
        self.listener: Callable[[], None] | None = None
        self._changed: dict[int, int] = {}
        self._front: int | None = None
        self._lock = threading.RLock()
        self.trained_to = 0
        self._set_confidence(project.confidence, project.kept)
        for record in journal.records:
            self._replay(record)

    @property
    def sequence(self) -> int:
        """Number of the last decision in the journal."""
        return self.journal.sequence

    def decide(self, action: str, item: str, label: str, seen: int) -> int:
        """Write a decision and return its number.

        Raises `Conflict` if the tag was decided after `seen`, the last number that the caller knew.
        """
        if action not in ACTIONS:
            raise InputError(f"the action must be one of {', '.join(ACTIONS)}, not {action!r}")
        pair = self.project.pairs.get((item, label))
        if pair is None:
            raise InputError(f"the item {item!r} has no tag {label!r}")
        with self._lock:
            self._check_seen(action, pair, seen)
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            record = {"time": now, "item": item, "label": label, "action": action}
            seq = self.journal.append(record)
            self._apply(action, pair, seq)
        if self.listener is not None:
            self.listener()
        return seq

    def use_confidence(self, confidence: Array, seq: int) -> None:
        """Take over the confidences of a model that knew the decisions up to `seq`."""
        threshold, first = self.project.threshold, self.project.confidence
        # Tags that nobody could judge (one half), or that were to stay in spite of their
        # confidence, are left to the reviewer.
        protected = self.project.kept & ((first == 0.5) | (first < threshold))
        with self._lock:
            self._set_confidence(confidence, (confidence >= threshold) | protected)
            self.trained_to = seq

    def decisions_since(self, seq: int) -> int:
        """How many decisions the last model did not know."""
        with self._lock:
            return sum(record["action"] != "skip" for record in self.journal.records[seq:])

    def current(self) -> int | None:
        """The tag to ask about: just undone, else open, else skipped, else None."""
        if self._front is not None:
            return self._front
        status = self.status[self._order]
        for wanted in (OPEN, SKIP):
            places = np.flatnonzero(status == wanted)
            if not len(places):
                continue
            if wanted == SKIP:
                # The longest skipped comes first, so that all of them have their turn.
                return min(self._order[places].tolist(), key=self._changed.__getitem__)
            return int(self._order[places[0]])
        return None

    def view(self) -> dict[str, Any]:
        """What the page shows, as a JSON document."""
        with self._lock:
            pair = self.current()
            last = self.history[-1] if self.history else None
            return {
                "seq": self.sequence,
                "threshold": self.project.threshold,
                "current": None if pair is None else self._describe(pair),
                "last": last and {**self._named(last.pair), "action": last.action},
                "progress": self._progress(),
            }

    def final_tags(self) -> Iterator[dict[str, Any]]:
        """One record per item: tags that stay, tags removed, tags that a person checked."""
        with self._lock:
            status, kept = self.status.copy(), self._final()
        project = self.project
        for i, item in enumerate(project.items):
            mine = range(project.start[i], project.start[i + 1])
            label = {k: project.labels[project.column[k]] for k in mine}
            yield {
                "id": item.id,
                "tags": [label[k] for k in mine if kept[k]],
                "removed": [label[k] for k in mine if not kept[k]],
                "checked": [label[k] for k in mine if status[k] in (KEEP, DROP)],
            }

    def _check_seen(self, action: str, pair: int, seen: int) -> None:
        if action == "undo":
            if not self.history:
                raise Conflict("There is nothing to undo.")
            if self.history[-1].pair != pair or self.history[-1].seq > seen:
                raise Conflict("Another tab decided in the meantime; nothing was undone.")
        elif self._changed.get(pair, 0) > seen:
            raise Conflict("This tag was decided in another tab; nothing was changed.")
        if seen > self.sequence:
            raise Conflict("This page is from another session; it was loaded again.")

    def _replay(self, record: Record) -> None:
        item, label = record.get("item"), record.get("label")
        are_names = isinstance(item, str) and isinstance(label, str)
        pair = self.project.pairs.get((str(item), str(label))) if are_names else None
        action = record.get("action")
        undoes = bool(self.history) and self.history[-1].pair == pair
        if pair is None or action not in ACTIONS or (action == "undo" and not undoes):
            raise DataError(
                f"{self.journal.path}: record {record['seq']} does not fit the project "
                f"({brief(action)} on {brief(item)}, {brief(label)}); restore the file from a "
                f"copy, or move it away to start anew"
            )
        self._apply(str(action), pair, record["seq"])

    def _apply(self, action: str, pair: int, seq: int) -> None:
        self._changed[pair] = seq
        if action == "undo":
            self.status[pair] = self.history.pop().before
            self._front = pair
            return
        self.history.append(Step(pair, int(self.status[pair]), seq, action))
        self.status[pair] = _STATUS[action]
        self._front = None

    def _set_confidence(self, confidence: Array, kept: Array) -> None:
        self.confidence, self._kept = confidence, kept
        self._order = review_order(confidence, self.project.column, self.project.threshold)

    def _final(self) -> Array:
        return np.where(self.status == KEEP, True, np.where(self.status == DROP, False, self._kept))

    def _progress(self) -> dict[str, int]:
        counts = np.bincount(self.status, minlength=4)
        undecided = (self.status == OPEN) | (self.status == SKIP)
        near = undecided & doubtful(self.confidence, self.project.threshold)
        return {
            "kept": int(counts[KEEP]),
            "dropped": int(counts[DROP]),
            "skipped": int(counts[SKIP]),
            "decided": int(counts[KEEP] + counts[DROP]),
            "doubtful": int(near.sum()),
            "total": len(self.status),
        }

    def _named(self, pair: int) -> dict[str, str]:
        item, label = self.project.name(pair)
        return {"item": item, "label": label}

    def _describe(self, pair: int) -> dict[str, Any]:
        project = self.project
        i = int(project.row[pair])
        final = self._final()
        tags = [
            {
                "label": project.labels[project.column[k]],
                "confidence": round(float(self.confidence[k]), 4),
                "kept": bool(final[k]),
                "decision": _DECISION.get(int(self.status[k])),
                "current": k == pair,
            }
            for k in range(project.start[i], project.start[i + 1])
        ]
        return {
            **self._named(pair),
            "text": project.items[i].text,
            "confidence": round(float(self.confidence[pair]), 4),
            "tags": tags,
        }

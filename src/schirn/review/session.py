"""A review session: decisions, the next question and the final tags, safe for parallel requests."""

import contextlib
import os
import threading
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import Record, brief
from schirn._input import Array
from schirn.cleaning.certificate import Certificate
from schirn.cleaning.decisions import Decision, Decisions
from schirn.cleaning.questions import LISTED, MISSING
from schirn.exceptions import DataError, InputError
from schirn.review._decisions import DecisionLink
from schirn.review._journal import Journal
from schirn.review._questions import (
    CERTIFY,
    DROP,
    FIRST,
    KEEP,
    OPEN,
    ORDERS,
    SKIP,
    SUGGESTED,
    SWAPS,
    describe_certificate,
    say_what_is_known,
)
from schirn.review._state import (
    DECISION,
    KIND,
    STATUS,
    ReviewState,
    Step,
    about,
    checked_person,
)
from schirn.review.project import Project, read_project
from schirn.review.table import ProjectTable
from schirn.tables.changes import Change, ChangeList
from schirn.tables.files import write_copy

ACTIONS = (*STATUS, "undo")
# Records of earlier versions: the answers to what they asked are decisions now.
_IGNORED = ("ask", "audit")
# A larger set is offered once it has this share of new tags: every set needs its own certificate.
_FEW_MORE = 0.05
_MAX_TEXT = 300


class Conflict(Exception):
    """Another tab decided first; nothing was written."""


def open_session(
    folder: str | os.PathLike[str],
    *,
    write: bool = True,
    image_root: str | None = None,
    decisions: str | os.PathLike[str] | None = None,
) -> "Session":
    """Open a project folder with its decisions.

    Parameters
    ----------
    folder : path
        Folder written by ``schirn clean --project``.
    write : bool
        Whether to accept decisions; if False, nothing in the folder changes.
    image_root : str, optional
        Folder of the image files; by default the one that ``schirn clean`` used.
    decisions : path, optional
        File of `Decisions`: its answers are taken over, and every new one is written to it.

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
        if decisions is not None:
            session.link = DecisionLink(session, Decisions(decisions))
        return session
    except BaseException:
        journal.close()
        raise


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
        self.lock = threading.RLock()
        self.link: DecisionLink | None = None
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
            ``label`` and ``to`` for "rename", and for "swap" with ``item``; ``item``, ``label`` (""
            for the whole item) and ``text`` for "note"; ``tags`` for "remove" and "complete".
        seen : int
            Number of the last record that the caller knows.
        person : str
            Who acts.
        """
        with self.lock:
            if seen > self.sequence:
                raise Conflict("This page belongs to an earlier session and was reloaded.")
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            entry: Record = {"time": time, **record}
            person = checked_person(person)
            if person:
                entry["person"] = person
            try:
                tags = self._tags_of(entry)
            except InputError:
                if seen == self.sequence or record["action"] == "undo":
                    raise
                raise Conflict("The tags have changed in another tab; nothing was done.") from None
            if record["action"] not in ("undo", "note"):
                for tag in tags:
                    if self._changed_by.get((tag, person), 0) > seen:
                        raise Conflict("This tag was decided in another tab; nothing was changed.")
            seq = self.journal.append(entry)
            self._apply(self.journal.records[-1], tags)
            if self.link is not None:
                # A tag that is new in the review has its number only now.
                self.link.write(entry, tags or self.history[-1].tags)
        return seq

    def take_over(self, records: list[Record]) -> None:
        """Write votes that were given elsewhere to the journal."""
        if records:
            self.journal.append(*records)
            for record in self.journal.records[-len(records) :]:
                self._replay(record)

    def earlier(self, tag: int) -> Decision | None:
        """Return the answer about a tag from before its row has changed, if there is one."""
        return None if self.link is None else self.link.changed.get(tag)

    def apply_answers(self, action: str, count: int, seen: int, person: str = "") -> int:
        """Remove, or add, all tags that the answers allow at the target precision.

        Parameters
        ----------
        action : {"remove", "complete"}
        count : int
            Number of tags that the caller was shown; another one raises `Conflict`.
        seen : int
            Number of the last record that the caller knows.
        person : str
            Who acts.
        """
        with self.lock:
            tags = self.questions.ready(KIND[action], self.status).tolist()
            if len(tags) != count:
                raise Conflict("The answers have changed in another tab; nothing was done.")
            return self.act({"action": action, "tags": tags}, seen, person)

    def current(self, person: str = "", *, order: str = FIRST, second: bool = False) -> int | None:
        """Return the tag to ask: just undone, the next in this order, skipped, or None.

        Parameters
        ----------
        person : str
            Who is asked.
        order : {"first", "suspicious", "close", "tag", "suggested", "swaps", "certify"}
            What to ask next.
        second : bool
            Whether to ask about what only others have decided.
        """
        if person in self._undone:
            return self._undone[person]
        if second:
            decided = (self.status == KEEP) | (self.status == DROP)
            decided_tags = np.flatnonzero(decided)
            decided_tags = decided_tags[np.argsort(self.confidence[decided_tags], kind="stable")]
            fresh = (t for t in decided_tags.tolist() if t not in self.settled)
            return next((t for t in fresh if person not in self.votes[t]), None)
        last = self._last(person)
        tag_before = last.tags[0] if last and last.tags else None
        tags = self.questions.in_order(order, self.status, tag_before)
        if self.link is not None:
            tags = chain(self.link.changed, tags)
        if order == CERTIFY:
            begun = self._certificate
            tags = map(self.questions.number, (begun and begun.order) or ())
        for tag in tags:
            # Open in spite of votes, since these are tied.
            voted = self.votes.get(tag, {}).get(person, SKIP) != SKIP
            if self.status[tag] == OPEN and tag not in self.merged and not voted:
                return tag
        if order == CERTIFY:
            return None
        # The tag skipped longest ago comes first, so that every one has its turn.
        skipped = [t for t in np.flatnonzero(self.status == SKIP).tolist() if t not in self.merged]
        return min(skipped, key=self._changed.__getitem__, default=None)

    def view(
        self,
        person: str = "",
        *,
        order: str = FIRST,
        second: bool = False,
        chosen: tuple[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return what the page shows, as a JSON document.

        Parameters
        ----------
        person : str
            Who looks at the page.
        order : {"first", "suspicious", "close", "tag", "suggested", "swaps", "certify"}
            What to ask next.
        second : bool
            Whether to ask about what only others have decided.
        chosen : pair of str, optional
            Item and label to show instead of the next question.
        """
        if order not in ORDERS:
            raise InputError(f"the order must be one of {', '.join(ORDERS)}, not {brief(order)}")
        with self.lock:
            tag, swap = self.current(person, order=order, second=second), None
            blind = tag is not None and self._is_blind(tag, order)
            if order == SWAPS and tag is not None:
                swap = self.questions.swaps(self.status).get(tag)
            if chosen is not None:
                with contextlib.suppress(InputError):
                    tag, blind, swap = self.find(*chosen), False, None
            last, current = self._last(person), None
            if tag is not None:
                current = self.describe(tag, person, second, blind)
                current["swap"] = None if swap is None else self.name(swap)
            return {
                "seq": self.sequence,
                "current": current,
                "last": last and self._describe_step(last),
                "progress": self._progress(),
                "known": self.known(),
                "disagreements": len(self.disagreements()),
            }

    def known(self) -> dict[str, Any]:
        """Return what the answers say and allow, and the state of the certificate."""
        questions, status = self.questions, self.status
        ranking, certificate = questions.ranking(status), self.certificate()
        first = {}
        for kind in (LISTED, MISSING):
            answered = sum(int(status[tag] != OPEN) for tag in questions.steps(kind, status))
            first[kind] = {"answered": answered, "size": questions.size(kind)}
        return {
            "line": say_what_is_known(ranking),
            "answers": ranking.n_answers,
            "precision": ranking.precision,
            "first": first,
            **{action: self._ready(kind) for action, kind in KIND.items()},
            "swaps": len(questions.swaps(status)),
            "removed": int((self.project.listed & ~self.final()[: len(self.project.row)]).sum()),
            "certificate": certificate and describe_certificate(certificate),
        }

    def _ready(self, kind: str) -> dict[str, int]:
        """Number of tags that the answers allow to remove or add, and how many of them are new."""
        tags, chosen = self.questions.ready(kind, self.status), self.chosen[kind]
        new = len(tags if chosen is None else np.setdiff1d(tags, chosen))
        minimum = 0 if chosen is None else _FEW_MORE * len(chosen)
        return {"count": len(tags), "new": new if new > minimum else 0}

    def _is_blind(self, tag: int, order: str) -> bool:
        """Whether a question must not show what the model thinks, which would sway the answer."""
        kind = MISSING if order == SUGGESTED else LISTED
        is_step = order in (FIRST, SUGGESTED) and tag in self.questions.steps(kind, self.status)
        return is_step or order == CERTIFY

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
            visible = [k for k in tags if k not in into]
            before_names = {names[k] for k in tags if listed[k]}
            record = {
                "id": item.id,
                "tags": [names[k] for k in visible if kept[k]],
                "removed": [names[k] for k in visible if names[k] in before_names and not kept[k]],
                "checked": [names[k] for k in visible if status[k] in (KEEP, DROP)],
                "added": [names[k] for k in visible if names[k] not in before_names and kept[k]],
            }
            if notes:
                parts = (texts.values() for texts in notes.get(i, ()))
                record["notes"] = [": ".join(filter(None, part)) for part in parts]
            yield record

    def changes(self) -> ChangeList:
        """List how the tags of the table change: removals, additions, renames and merges."""
        project, changes = self.project, list[Change]()
        with self.lock:
            final = self.final()
            rows = [self.tags_of_row(i) for i in range(len(project.items))]
            for i, tags in enumerate(rows):
                changes += self._row_changes(i, tags, final)
        if self.table is None:
            cells = [
                [project.labels[project.column[k]] for k in tags if self.listed[k]] for tags in rows
            ]
            return ChangeList.from_cells(cells, changes)
        roles, options = self.table.roles, self.table.cell_options
        options = {"column": roles.column, "separator": roles.separator, **options}
        listing = ChangeList.from_cells(self.table.cells, changes, **options)
        return listing.keyed(self.table.table, roles.id)

    def _row_changes(self, i: int, tags: list[int], final: Array) -> Iterator[Change]:
        """Yield the changes of a row, its listed tags first."""
        names_left = {self.name(k) for k in tags if k not in self.merged and final[k]}
        in_table = [k for k in tags if self.listed[k]]
        names = [self.name(k) for k in in_table]
        cell = [] if self.table is None else self.table.tags(i)
        for k, name in zip(in_table, names, strict=True):
            label = self.project.labels[self.project.column[k]].strip()
            spellings = [tag for tag, merged_tag in cell if merged_tag == label] or [label]
            for spelling in spellings:
                if name not in names_left:
                    why, confidence = self._reason(k)
                    yield Change(i, "removal", spelling, "", confidence, why)
                elif spelling != name:
                    is_merge = names.count(name) > 1 or len(spellings) > 1
                    why = "in the list of merges" if label == name else "renamed in the review"
                    kind = "merge" if is_merge else "rename"
                    yield Change(i, kind, spelling, name, None, why)
        for k in tags:
            is_new = not self.listed[k] and k not in self.merged
            if is_new and self.name(k) in names_left.difference(names):
                why, confidence = self._reason(k)
                yield Change(i, "addition", "", self.name(k), confidence, why)

    def write_table(self, path: str | os.PathLike[str]) -> None:
        """Write the whole table with the final tags: all columns, all rows, in their order.

        Parameters
        ----------
        path : path
            In any format of a table.

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
        source, roles = table.table, table.roles
        cells = self.changes().apply(table.cells, **table.cell_options)
        changed = {roles.column: cells}
        write_copy(os.fspath(path), source, changed, {}, separator=roles.separator)

    def verify(self, certificate: Certificate) -> None:
        """Raise InputError unless a certificate is about what `write_table` writes."""
        before = [self._spelled(i) for i in range(len(self.project.items))]
        after = [record["tags"] for record in self.final_tags()]
        rows = list(enumerate(zip(before, after, strict=True)))
        # As its file says it, which holds the answers in the order of drawing only.
        Certificate.from_json(certificate.to_json()).verify(
            certificate.table_sha256,
            [(i, tag) for i, (old, _) in rows for tag in old],
            [(i, tag) for i, (old, new) in rows for tag in old if tag not in new],
            [(i, tag) for i, (old, new) in rows for tag in new if tag not in old],
        )

    def _spelled(self, i: int) -> list[str]:
        """Return the labels of the tags of a row, before any change."""
        tags = (k for k in self.tags_of_row(i) if self.listed[k])
        return [self.project.labels[self.column[k]] for k in tags]

    def _reason(self, tag: int) -> tuple[str, float | None]:
        """Why a tag is removed or added, and the probability that this is right."""
        confidence, status = float(self.confidence[tag]), int(self.status[tag])
        n_answers, by = self.questions.ranking(self.status).n_answers, self.project.method
        by = f"{by}, {n_answers:,} answers" if n_answers else by
        why = f"{confidence:.0%} likely to be correct ({by})"
        sure: float | None = 1 - confidence
        if status in (KEEP, DROP):
            votes = self.votes.get(tag, {})
            people = ", ".join(who for who, vote in votes.items() if vote == status and who)
            verb = "dropped" if status == DROP else "added"
            why, sure = f"{verb} by {people or 'a person'}", None
        notes = self.notes.get((int(self.row[tag]), self.name(tag)), {}).values()
        return ". ".join([why, *notes]), sure

    def _notes_by_row(self) -> dict[int, list[dict[str, str]]]:
        notes: dict[int, list[dict[str, str]]] = {}
        for (i, label), texts in self.notes.items():
            notes.setdefault(i, []).extend(
                {"label": label, "person": who, "text": text} for who, text in texts.items()
            )
        return notes

    def _replay(self, record: Record) -> None:
        if record.get("action") in _IGNORED:
            return
        try:
            checked_person(record.get("person", ""))
            tags = self._tags_of(record)
        except InputError:
            action, item, label = (record.get(key) for key in ("action", "item", "label"))
            raise DataError(
                f"{self.journal.path}: record {record['seq']} does not fit the project "
                f"({brief(action)} on {brief(item)}, {brief(label)}); restore the file from a "
                f"backup, or move it away to start over"
            ) from None
        self._apply(record, tags)

    def _progress(self) -> dict[str, int]:
        counts, listed = np.bincount(self.status, minlength=4), self.project.listed
        return {
            "kept": int(counts[KEEP]),
            "dropped": int(counts[DROP]),
            "skipped": int(counts[SKIP]),
            "decided": int(counts[KEEP] + counts[DROP]),
            "suggested": int((~listed & (self.status[: len(listed)] == OPEN)).sum()),
            "total": int(listed.sum()),
        }

    def describe(
        self, tag: int, person: str = "", second: bool = False, blind: bool = False
    ) -> dict[str, Any]:
        """Return what the page shows about a tag and its item."""
        # Who knows the verdict, or what others decided, answers differently.
        hidden, i = blind or second, int(self.row[tag])
        final = self.final()
        tags = self.chips(i, final, tag)
        if hidden:
            tags = [chip | {"decision": None} for chip in tags]
        if blind:
            visible = (chip for chip in tags if chip["listed"] or chip["current"])
            tags = [chip | {"confidence": None, "kept": True} for chip in visible]
        votes = {} if hidden else self.votes.get(tag, {})
        return {
            **self.about_row(i),
            "text": self.project.items[i].text,
            "label": self.name(tag),
            "confidence": None if blind else self._likely(tag),
            "kept": None if hidden else bool(final[tag]),
            "suggested": not self.listed[tag],
            "blind": blind,
            "decision": None if hidden else self._decision(tag),
            "mine": None if blind else DECISION.get(self.votes.get(tag, {}).get(person, OPEN)),
            "votes": {who: DECISION[vote] for who, vote in votes.items()},
            "notes": self._notes_by_row().get(i, []),
            "earlier": None if (decision := self.earlier(tag)) is None else str(decision),
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
        keys = ("item", "label", "action", "decision", "to")
        about = {key: step.record[key] for key in keys if key in step.record}
        count = len(step.record.get("tags", step.tags))
        return {**about, "of": step.seq, "count": count}

    def _likely(self, tag: int) -> float | None:
        """Return the confidence to show; there is none for a tag that a person added."""
        return None if tag >= len(self.project.row) else round(float(self.confidence[tag]), 4)

    def _decision(self, tag: int) -> str | None:
        return DECISION.get(int(self.status[tag]))

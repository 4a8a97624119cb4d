"""Review sessions: decisions, the next question and the final tags, for parallel requests."""

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
from schirn.app.review._decisions import DecisionLink
from schirn.app.review._journal import Journal
from schirn.app.review._project import Project, read_project
from schirn.app.review._questions import (
    CERTIFY,
    DROP,
    FIRST,
    KEEP,
    OPEN,
    ORDERS,
    SKIP,
    SUGGESTED,
    SUSPICIOUS,
    SWAPS,
    TAG,
    say_what_is_known,
)
from schirn.app.review._state import KIND, RULE, STATUS, TARGET, ReviewState, Step
from schirn.app.review._table import ProjectTable
from schirn.app.review._vocabulary import (
    ANSWER,
    PROPOSE,
    FinalRow,
    LineKey,
    TagAnswer,
    final_rows,
    proposal_records,
    record_of,
)
from schirn.app.review._vocabulary_view import describe_room, words_of
from schirn.app.tables import Table, keyed_changes, with_vocabulary, write_copy
from schirn.app.workflow import Decisions, write_vocabulary
from schirn.cleaning import Vocabulary, propose_vocabulary
from schirn.cleaning.certificate import Certificate, Tag
from schirn.cleaning.changes import Change, ChangeList, certainty
from schirn.cleaning.policy import ASK
from schirn.cleaning.policy import KEEP as KEPT
from schirn.cleaning.questions import LIKELY, LISTED, MISSING
from schirn.exceptions import DataError, InputError

# A larger set is only offered with this share of new tags, because each set needs its own
# certificate.
_FEW_MORE = 0.05
_LONGEST_NAME = 60
# Orders of questions about listed tags that include a spot check.
_CHECKED_ORDERS = (FIRST, SUSPICIOUS, TAG, SWAPS)
_MOST_MISSING = 5


class Conflict(Exception):
    """Raised if another tab decided first; nothing was written."""


def open_session(
    folder: str | os.PathLike[str],
    *,
    write: bool = True,
    name: str = "",
    image_root: str | None = None,
    decisions: str | os.PathLike[str] | None = None,
    table: Table | None = None,
) -> "Session":
    """Open a project folder with its decisions.

    Parameters
    ----------
    folder : path
        Folder written by ``schirn review``.
    write : bool, default=True
        Accept decisions; if False, nothing in the folder changes.
    name : str, default=""
        Name of the person who decides, at most 60 characters; may be empty.
    image_root : str, optional
        Folder of the image files; by default the folder used when the tags were ranked.
    decisions : path, optional
        File of `Decisions`. Its answers are imported, and each new answer is written to it.
    table : Table, optional
        The table of the project, if it was read before.

    Returns
    -------
    Session
        ``write_table(path)`` writes the whole table with the final tags, and ``changes()`` lists
        the changes.

    Examples
    --------
    >>> from schirn.app.review import open_session
    >>> open_session("/nowhere")
    Traceback (most recent call last):
    ...
    schirn.exceptions.DataError: /nowhere: not a review project (project.json is missing); \
start a review of a table with: schirn review TABLE
    """
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise InputError(
            f"a name has at most {_LONGEST_NAME} printable characters, unlike {brief(name)}"
        )
    project = read_project(folder)
    journal = Journal(Path(folder, "journal.jsonl"), project.fingerprint, write=write)
    try:
        if journal.repaired:
            warnings.warn(f"{journal.path}: {journal.repaired}", stacklevel=2)
        session = Session(project, journal, name=name.strip(), image_root=image_root, table=table)
        if decisions is not None:
            session.link = DecisionLink(session, Decisions(decisions))
        return session
    except BaseException:
        journal.close()
        raise


class Session(ReviewState):
    """A project, its journal, and the resulting state.

    Parameters
    ----------
    project : Project
        Items and tags to review.
    journal : Journal
        Decisions so far, which are replayed.
    name : str
        Name of the person who decides.
    image_root : str, optional
        Folder of the image files.
    table : Table, optional
        The table of the project; by default it is read when first needed.
    """

    def __init__(
        self,
        project: Project,
        journal: Journal,
        *,
        name: str = "",
        image_root: str | None = None,
        table: Table | None = None,
    ):
        super().__init__(project)
        self.journal = journal
        self._name = name
        self._image_root = image_root
        self._table = table
        self.lock = threading.RLock()
        self._proposing = threading.Lock()
        self.link: DecisionLink | None = None
        for record in journal.records:
            self._replay(record)

    @property
    def sequence(self) -> int:
        """Number of the last record in the journal."""
        return self.journal.sequence

    @cached_property
    def table(self) -> ProjectTable:
        """The table of the project."""
        project = self.project
        n_rows = len(project.ids)
        return ProjectTable(
            project.folder, project.table, n_rows, self._image_root, table=self._table
        )

    def decide(self, action: str, item: str, label: str, sequence: int) -> int:
        """Write a decision to the journal and return its number.

        Parameters
        ----------
        action : {"keep", "drop", "skip"}
            The decision.
        item, label : str
            The tag to decide about.
        sequence : int
            Number of the last record that the caller knows. If the tag was decided after it,
            `Conflict` is raised.

        Returns
        -------
        int
        """
        if action not in STATUS:
            raise InputError(f"the action must be one of {', '.join(STATUS)}, not {brief(action)}")
        return self.act({"action": action, "item": item, "label": label}, sequence)

    def undo(self, sequence: int, *, of: int | None = None) -> int:
        """Undo the last record and return the number of the new one.

        Parameters
        ----------
        sequence : int
            Number of the last record that the caller knows.
        of : int, optional
            Number of the record to undo. If another record is the last, `Conflict` is raised.

        Returns
        -------
        int
        """
        with self.lock:
            if not self.history:
                raise Conflict("There is nothing to undo.")
            step = self.history[-1]
            if step.seq > sequence or of not in (None, step.seq):
                raise Conflict("Another tab made a decision in the meantime; nothing was undone.")
            record: Record = {"action": "undo", "of": step.seq}
            record |= {key: step.record[key] for key in ("item", "label") if key in step.record}
            return self.act(record, sequence)

    def act(self, record: Record, sequence: int) -> int:
        """Check a record, write it to the journal, and return its number.

        Parameters
        ----------
        record : dict
            ``action`` and its fields: ``item`` and ``label`` for "keep", "drop" and "skip", also
            ``to`` for "swap"; ``label`` and ``rule`` for "rule"; ``tags`` for "remove" and
            "complete"; ``line``, ``accept`` and optionally ``to`` for "vocabulary"; ``lines`` for
            "propose"; ``of`` for "undo".
        sequence : int
            Number of the last record that the caller knows.

        Returns
        -------
        int
        """
        with self.lock:
            if sequence > self.sequence:
                raise Conflict("This page belongs to an earlier session and was reloaded.")
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            entry: Record = {"time": time, **record}
            if self._name:
                entry["person"] = self._name
            tags = self._tags_of(entry)
            if any(self._changed.get(tag, 0) > sequence for tag in tags):
                raise Conflict("This tag was decided in another tab; nothing was changed.")
            if record["action"] == ANSWER:
                line = LineKey.from_record(record)
                if self._changed_lines.get(line, 0) > sequence:
                    raise Conflict("This line was answered in another tab; nothing was changed.")
            seq = self.journal.append(entry)
            self._apply(self.journal.records[-1], tags)
            if self.link is not None:
                self.link.write(entry, tags)
        return seq

    def take_over(self, records: list[Record]) -> None:
        """Write answers from elsewhere to the journal."""
        if records:
            self.journal.append(*records)
            for record in self.journal.records[-len(records) :]:
                self._replay(record)

    def apply_answers(self, action: str, count: int, sequence: int) -> int:
        """Remove or add all tags that the answers allow at the target precision.

        Parameters
        ----------
        action : {"remove", "complete"}
            Remove listed tags, or add missing ones.
        count : int
            Number of tags that the caller was shown. If it has changed, `Conflict` is raised.
        sequence : int
            Number of the last record that the caller knows.

        Returns
        -------
        int
        """
        with self.lock:
            tags = self.questions.ready(KIND[action], self.status).tolist()
            if len(tags) != count:
                raise Conflict("The answers have changed in another tab; nothing was done.")
            draws = {} if self.link is None else {"draws": self.link.draws}
            return self.act({"action": action, "tags": tags, **draws}, sequence)

    def current(self, *, order: str = FIRST) -> int | None:
        """Return the next tag to ask about; None if there is none.

        It is the tag just undone, the next tag in the given order, or a skipped tag.

        Parameters
        ----------
        order : {"first", "suspicious", "tag", "suggested", "swaps", "certify"}
            Order of the questions.

        Returns
        -------
        int or None
            Number of the tag.
        """
        if self._undone is not None:
            return self._undone
        checks = set(self.questions.checks(self.status).tolist())
        # A check is no reason to continue with its label.
        decided = (tag for step in reversed(self.history) for tag in step.tags[:1])
        tag_before = next((tag for tag in decided if tag not in checks), None)
        tags = self.questions.in_order(order, self.status, tag_before)
        check = self._next_check(order)
        if check is not None:
            tags = chain([check], tags)
        if order == CERTIFY:
            certificate = self.certificate()
            tags = iter(()) if certificate and certificate.certified else self._drawn()
        elif self.link is not None:
            tags = chain(self.link.changed, tags)
        # Tags removed or added at once are only asked about for a certificate.
        at_once = {k for of in self.chosen.values() if of is not None for k in of.tolist()}
        is_ruled = self.questions.by_rule() != 0
        for tag in tags:
            is_decided = tag in at_once or is_ruled[tag]
            if self.status[tag] == OPEN and (not is_decided or self._is_drawn(tag, order)):
                return tag
        if order == CERTIFY:
            return None
        # The tag skipped longest ago comes first, so that each gets its turn.
        skipped = np.flatnonzero((self.status == SKIP) & ~is_ruled).tolist()
        return min(skipped, key=self._changed.__getitem__, default=None)

    def view(self, *, order: str = FIRST) -> dict[str, Any]:
        """Return the content of the page as a JSON document.

        Parameters
        ----------
        order : {"first", "suspicious", "tag", "suggested", "swaps", "certify"}
            Order of the questions.

        Returns
        -------
        dict
        """
        if order not in ORDERS:
            raise InputError(f"the order must be one of {', '.join(ORDERS)}, not {brief(order)}")
        with self.lock:
            tag = self.current(order=order)
            current = None
            if tag is not None:
                swap = self.questions.swaps(self.status).get(tag) if order == SWAPS else None
                current = self.describe(tag, self._is_blind(tag, order))
                current["swap"] = None if swap is None else self.name(swap)
                current["check"] = tag == self._next_check(order)
            return {
                "seq": self.sequence,
                "current": current,
                "last": _describe_step(self.history[-1]) if self.history else None,
                "progress": self._progress(),
                "known": self.known(order),
                "vocabulary": {**self.room.counts(), "more": self.n_more_proposals},
            }

    def known(self, order: str = FIRST) -> dict[str, Any]:
        """Return estimates, the changes that the answers allow, and the state of the certificate.

        Parameters
        ----------
        order : str
            Order of the questions, which implies listed or missing tags.

        Returns
        -------
        dict
        """
        questions = self.questions
        status = self.status
        final = self.final()
        is_listed = self.project.listed
        by_rule = questions.by_rule()
        kind_asked = MISSING if order == SUGGESTED else LISTED
        chosen = self.chosen[kind_asked]
        at_once = np.isin(questions.tags[kind_asked], [] if chosen is None else chosen)
        ranking = questions.ranking(status)
        certificate = self.certificate()
        first = {}
        for kind in (LISTED, MISSING):
            answered = sum(int(status[tag] != OPEN) for tag in questions.steps(kind, status))
            first[kind] = {"answered": answered, "size": questions.size(kind, status)}
        return {
            "line": say_what_is_known(ranking, kind_asked, at_once),
            "voices": [voice.sentence for voice in ranking.voices()],
            "answers": ranking.n_answers,
            "precision": ranking.precision,
            "trade_off": questions.trade_off(status) if ranking.n_answers else [],
            "first": first,
            **{action: self._ready(kind) for action, kind in KIND.items()},
            "swaps": len(questions.swaps(status)),
            "rules": len(questions.rules),
            "missing": self._most_missing(),
            "removed": int((is_listed & ~final).sum()),
            "dropped": int((is_listed & (status == DROP)).sum()),
            "by_rule": int((is_listed & ~final & (status != DROP) & (by_rule < 0)).sum()),
            "added": int((~is_listed & final).sum()),
            "certificate": certificate
            and {"words": certificate.progress, "certified": certificate.certified},
        }

    def _most_missing(self) -> dict[str, Any]:
        """Return the number of undecided missing tags, and their most frequent labels."""
        is_missing = ~self.project.listed & (self.status == OPEN) & ~self.final()
        is_missing &= self.questions.by_rule() == 0
        counts = np.bincount(self.project.column[is_missing], minlength=len(self.project.labels))
        first = np.argsort(-counts, kind="stable")[:_MOST_MISSING]
        labels = [[self.project.labels[j], int(counts[j])] for j in first.tolist() if counts[j]]
        return {"count": int(counts.sum()), "labels": labels}

    def labels(self) -> list[dict[str, Any]]:
        """Return statistics about the tags of each label, the most suspicious labels first.

        Returns
        -------
        list of dict
            With the keys "label"; "rows", "suspicious", "answered" and "wrong", which are numbers
            of rows; "rule"; and "fixed", True if the vocabulary sets the rule. "suspicious" is None
            until the first questions are answered, because it could bias the answers.
        """
        with self.lock:
            project = self.project
            questions = self.questions
            listed = questions.tags[LISTED]
            column = project.column[listed]
            status = self.status[listed]
            size = questions.size(LISTED, self.status)
            steps = questions.steps(LISTED, self.status)
            is_told = sum(int(self.status[tag] != OPEN) for tag in steps) >= size
            confidence = questions.ranking(self.status).confidence
            is_suspicious = (confidence < LIKELY) & (status == OPEN) & is_told

            def counts(mask: Any) -> list[int]:
                found = np.bincount(column[mask], minlength=len(project.labels))
                return [int(count) for count in found]

            rows = counts(slice(None))
            suspicious = counts(is_suspicious)
            answered = counts(np.isin(status, (KEEP, DROP)))
            wrong = counts(status == DROP)
            lines = [
                {
                    "label": label,
                    "rows": rows[j],
                    "suspicious": suspicious[j] if is_told else None,
                    "answered": answered[j],
                    "wrong": wrong[j],
                    "rule": KEPT if label in questions.fixed else questions.rules.get(label, ASK),
                    "fixed": label in questions.fixed,
                }
                for j, label in enumerate(project.labels)
                if rows[j]
            ]
        return sorted(lines, key=lambda line: (-(line["suspicious"] or 0), -line["rows"]))

    def answer_line(
        self, position: int, accept: bool | None, sequence: int, *, target: str | None = None
    ) -> int:
        """Answer a line of the vocabulary; rows change only when the table is written.

        Parameters
        ----------
        position : int
            Position of the line in `vocabulary()`.
        accept : bool or None
            True to accept, False to reject, None to open again.
        sequence : int
            Number of the last record that the caller knows. If the line was answered after it,
            `Conflict` is raised.
        target : str, optional
            Another target of a merge or an implication; a merge's own tag reverses the merge.

        Returns
        -------
        int
            Number of the record.
        """
        with self.lock:
            line = self.room.current[position]
            accepts = {True: "yes", False: "no", None: ""}
            record: Record = {"action": ANSWER, "line": record_of(line)}
            record["accept"] = accepts[accept]
            if target is not None:
                record["to"] = target
            return self.act(record, sequence)

    def propose(self) -> int:
        """Propose changes to the list of tags, and add them to the vocabulary as open lines.

        Changes that were answered before are not proposed again.

        Returns
        -------
        int
            Number of new lines.
        """
        if not self._proposing.acquire(blocking=False):
            raise Conflict("Proposals are already being looked for.")
        try:
            texts = self.project.texts if any(self.project.texts) else None
            # Without the lock, so that other requests are served while tags are compared.
            proposed = propose_vocabulary(self.table.tags, texts, vocabulary=self.room.current)
            with self.lock:
                lines = self.room.news(proposed.open)
                if lines:
                    record: Record = {"action": PROPOSE, "lines": proposal_records(lines)}
                    record["more"] = sum(not line.is_used_once for line in proposed.unlisted)
                    self.act(record, self.sequence)
            return len(lines)
        finally:
            self._proposing.release()

    @property
    def n_more_proposals(self) -> int:
        """Number of proposals that were left out of the list when they were last looked for."""
        records = (step.record for step in reversed(self.history))
        latest = next((record for record in records if record["action"] == PROPOSE), {})
        return int(latest.get("more", 0))

    def vocabulary_view(
        self,
        *,
        show: str = "open",
        find: str = "",
        line: int | None = None,
        after: int | None = None,
    ) -> dict[str, Any]:
        """Return the vocabulary part of the page as a JSON document.

        Parameters
        ----------
        show : {"open", "accepted", "rejected", "settled", "all"}, default="open"
            Lines to list.
        find : str, default=""
            Only list lines about tags that contain this string.
        line : int, optional
            Number of the line to show; by default the first open line.
        after : int, optional
            Show the first open line after this number, or the first open line if there is none.

        Returns
        -------
        dict
        """
        with self.lock:
            view = describe_room(self, show=show, find=find, line=line, after=after)
            last = _describe_step(self.history[-1]) if self.history else None
            return {"seq": self.sequence, "last": last, **view}

    def vocabulary(self) -> Vocabulary:
        """Return the vocabulary with all answers and rules of this review.

        Returns
        -------
        Vocabulary
        """
        return self.room.current

    def write_vocabulary(self, path: str | os.PathLike[str]) -> None:
        """Write the vocabulary with the answers and rules of this review, for later tables.

        Parameters
        ----------
        path : path
            File to write.
        """
        write_vocabulary(self.room.current, path)

    def _ready(self, kind: str) -> dict[str, int]:
        """Return the number of tags that the answers allow removing or adding, and of new ones."""
        tags = self.questions.ready(kind, self.status)
        chosen = self.chosen[kind]
        new = len(tags if chosen is None else np.setdiff1d(tags, chosen))
        minimum = 0 if chosen is None else _FEW_MORE * len(chosen)
        return {"count": len(tags), "new": new if new > minimum else 0}

    def _is_blind(self, tag: int, order: str) -> bool:
        """Check whether a question must hide the model's estimate, which could bias the answer."""
        return self._is_drawn(tag, order) or tag == self._next_check(order)

    def _is_drawn(self, tag: int, order: str) -> bool:
        """Check whether a tag belongs to the first steps, or was drawn for a certificate."""
        kind = MISSING if order == SUGGESTED else LISTED
        is_step = order in (FIRST, SUGGESTED) and tag in self.questions.steps(kind, self.status)
        return is_step or order == CERTIFY

    def _next_check(self, order: str) -> int | None:
        """Return the next tag of the spot check if it is due.

        After a removal at once there is none, because an answer about a removed tag that was not
        drawn would end its certificate.
        """
        if order not in _CHECKED_ORDERS or self.chosen[LISTED] is not None:
            return None
        return self.questions.next_check(self.status)

    def changes(self) -> ChangeList:
        """List all changes to the tags of the table, including the changes of the vocabulary.

        Returns
        -------
        ChangeList
        """
        roles = self.table.roles
        options = self.table.cell_options
        with self.lock:
            room = self.room
            changes = self._renamed_changes() if room.renames else self._tag_changes()
            vocabulary = room.without_rules
        changes = with_vocabulary(changes, self.table.tags, vocabulary, roles.add_implied)
        options = {"column": roles.column, "separator": roles.separator, **options}
        listing = ChangeList.from_cells(self.table.cells, changes, **options)
        return keyed_changes(listing, self.table.table, roles.id)

    def _tag_changes(self) -> list[Change]:
        """List the removals and additions under the names of the ranking."""
        final = self.final()
        changes = []
        for k in np.flatnonzero(self.project.listed != final).tolist():
            kind = "addition" if final[k] else "removal"
            names = ("", self.name(k)) if final[k] else (self.name(k).strip(), "")
            row = int(self.project.row[k])
            changes.append(Change(row, kind, *names, *self._certainty(k, kind)))
        return changes

    def _renamed_changes(self) -> list[Change]:
        """List the removals and additions under the names after all accepted lines."""
        final = self.final()
        answers: dict[int, list[TagAnswer]] = {}
        is_answered = np.isin(self.status, (KEEP, DROP))
        for k in np.flatnonzero((self.project.listed != final) | is_answered).tolist():
            seq = self._changed.get(k, 0) if is_answered[k] else 0
            is_listed = bool(self.project.listed[k])
            answer = TagAnswer(k, self.name(k).strip(), is_listed, bool(final[k]), seq)
            answers.setdefault(int(self.project.row[k]), []).append(answer)
        add_implied = self.table.roles.add_implied
        changes: list[Change] = []
        for row in final_rows(self.room, self.table.tags, answers, add_implied):
            changes += self._changes_of_row(row)
        return changes

    def _changes_of_row(self, row: FinalRow) -> Iterator[Change]:
        """Yield the changes to a row, compared with its tags after the vocabulary alone."""
        after = set(row.after)
        before = set(row.before)
        for name in row.before:
            if name in after:
                continue
            answer = row.answers.get(name)
            about: tuple[float | None, str] = (None, "implied by a tag that was removed")
            if answer is not None:
                about = self._certainty(answer.tag, "removal")
            yield Change(row.row, "removal", name, "", *about)
        for name in row.after:
            if name in before:
                continue
            answer = row.answers.get(name)
            if answer is not None:
                about = self._certainty(answer.tag, "addition")
            else:
                line = self.room.renaming[row.line_of[name]]
                about = (None, f"{line.reason}; line {line.number} of the vocabulary")
            yield Change(row.row, "addition", "", name, *about)

    def write_table(self, path: str | os.PathLike[str]) -> None:
        """Write the whole table with the final tags: all columns and rows, in their order.

        Parameters
        ----------
        path : path
            File to write; its suffix determines the format.
        """
        table = self.table
        roles = self.table.roles
        cells = self.changes().apply(table.cells, **table.cell_options)
        changed = {roles.column: cells}
        write_copy(os.fspath(path), table.table, changed, {}, separator=roles.separator)

    def verify(self, certificate: Certificate) -> None:
        """Raise InputError unless a certificate matches the table that `write_table` writes.

        Parameters
        ----------
        certificate : Certificate
            Certificate of the removed tags.
        """
        if self.room.renames:
            raise InputError(
                "lines of the vocabulary were accepted after the tags were ranked; save the "
                "vocabulary, and review the table with it"
            )
        rows = self.project.row.tolist()
        listed = [(rows[k], self.name(k)) for k in self.questions.tags[LISTED].tolist()]
        changes = self.tag_changes()
        by_kind = ([tag for tag, is_added in changes.items() if is_added == x] for x in (0, 1))
        # As read from its file, which only holds the answers in the order of drawing.
        file = Certificate.from_json(certificate.to_json())
        file.verify(certificate.table_sha256, listed, *by_kind)

    def tag_changes(self) -> dict[Tag, bool]:
        """Return the tags that are removed (False) or added (True).

        Returns
        -------
        dict from (row, tag) to bool
        """
        final = self.final()
        rows = self.project.row.tolist()
        changed = np.flatnonzero(self.project.listed != final).tolist()
        return {(rows[k], self.name(k)): bool(final[k]) for k in changed}

    def _certainty(self, tag: int, kind: str) -> tuple[float | None, str]:
        """Return the probability that the removal or addition of a tag is right, and the reason."""
        status = int(self.status[tag])
        if status in (KEEP, DROP):
            verb = "dropped" if status == DROP else "added"
            return None, f"{verb} by {self.person[tag] or 'a person'}"
        if self.questions.by_rule()[tag] < 0:
            return None, f"a rule drops every {self.name(tag)}"
        return certainty(self.questions.ranking(self.status), kind, self._confidence(tag))

    def _confidence(self, tag: int) -> float:
        """Return the probability that a tag is correct, given the answers."""
        return float(self.questions.confidence(self.status)[tag])

    def _replay(self, record: Record) -> None:
        try:
            tags = self._tags_of(record)
        except InputError:
            action, item, label = (record.get(key) for key in ("action", "item", "label"))
            raise DataError(
                f"{self.journal.path}: record {record['seq']} does not fit the project "
                f"({brief(action)} on {brief(item)}, {brief(label)}); restore the file from a "
                f"backup, or start the review again from the table"
            ) from None
        self._apply(record, tags)

    @property
    def n_decided(self) -> int:
        """Number of tags that people called right or wrong, whether listed or not."""
        return int(np.isin(self.status, (KEEP, DROP)).sum())

    def _progress(self) -> dict[str, int]:
        status = self.status
        is_listed = self.project.listed
        return {
            "skipped": int((status == SKIP).sum()),
            "decided": int(np.isin(status[is_listed], (KEEP, DROP)).sum()),
            "suggested": int((~is_listed & (status == OPEN) & ~self.final()).sum()),
            "total": int(is_listed.sum()),
        }

    def describe(self, tag: int, blind: bool = False) -> dict[str, Any]:
        """Return a tag and its item as the page shows them.

        Parameters
        ----------
        tag : int
            Number of the tag.
        blind : bool, default=False
            Hide the estimates of the model and the answers, also about the item's other tags.

        Returns
        -------
        dict
        """
        project = self.project
        table = self.table
        i = int(self.project.row[tag])
        final = project.listed if blind else self.final()
        decision = None if self.link is None else self.link.changed.get(tag)
        is_hidden = blind or not project.judged[tag]
        return {
            "item": project.ids[i],
            "row": i,
            "text": project.texts[i],
            "image": table.image_name(i),
            "has_image": table.image_file(i) is not None,
            "label": self.name(tag),
            "confidence": None if is_hidden else round(self._confidence(tag), 4),
            "suggested": not project.listed[tag],
            "blind": blind,
            "earlier": None if decision is None else str(decision),
            "others": list(table.others(i)),
            "tags": [
                {"label": self.name(k), "kept": bool(final[k]), "current": k == tag}
                for k in project.tags_of_row(i)
                if project.listed[k] or final[k] or k == tag
            ],
        }


def _describe_step(step: Step) -> dict[str, Any]:
    """Return the last action as the page shows it."""
    record = step.record
    about: dict[str, Any] = {key: record.get(key) for key in ("action", "item", "label", "to")}
    if record["action"] == TARGET:
        about["precision"] = record["precision"]
    if record["action"] == RULE:
        about["rule"] = record["rule"]
    if record["action"] in (ANSWER, PROPOSE):
        about["words"] = words_of(record)
    tags = record.get("tags", step.tags)
    if record["action"] in KIND and step.before[0] is not None:
        tags = np.setdiff1d(tags, step.before[0])
    return about | {"of": step.seq, "count": len(tags)}

"""The vocabulary of a review: its lines, the answers to them, and their effect on the tags.

The tags of a project were ranked under the names of its first vocabulary. Lines accepted later
change rows only when the table is written, after all answers about single tags.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from schirn._files import Record, brief
from schirn._input import Array, is_count
from schirn.app.review._project import Project
from schirn.cleaning import Vocabulary, VocabularyLine
from schirn.cleaning.policy import DROP, KEEP
from schirn.cleaning.vocabulary import FIELDS, apply_vocabulary
from schirn.exceptions import InputError
from schirn.labels.cells import split_tags

ANSWER = "vocabulary"
"""The action that answers a line."""
PROPOSE = "propose"
"""The action that adds proposals."""
ACCEPTED = "yes"
REJECTED = "no"
UNANSWERED = ""

STATUSES = ("open", "accepted", "rejected", "settled")
_ANSWERS = (ACCEPTED, REJECTED, UNANSWERED)
_CAN_CHANGE_TARGET = ("merge", "imply")
_LONGEST_TAG = 200
# The first line of a file holds the names of the columns.
_FIRST_LINE = 2


class LineKey(NamedTuple):
    """Action, tag and target of a line, which identify it in a review."""

    action: str
    tag: str
    target: str

    @classmethod
    def of(cls, line: VocabularyLine) -> "LineKey":
        """Return the key of a line."""
        return cls(line.action, line.tag, line.target)

    @classmethod
    def from_record(cls, record: Record) -> "LineKey":
        """Return the key of the line that a record answers."""
        line = record.get("line")
        values = [line.get(name) for name in cls._fields] if isinstance(line, dict) else [None]
        if not all(isinstance(value, str) for value in values):
            raise InputError("'line' must give the action, the tag and the target of a line")
        return cls(*values)

    def __str__(self) -> str:
        signs = {"merge": " → ", "imply": " ⇒ ", "exclude": " ≠ "}
        sign = signs.get(self.action)
        return f"{self.action} {self.tag}{sign}{self.target}" if sign else " ".join(self[:2])


class VocabularyRoom:
    """The lines of the vocabulary and the answers so far.

    Parameters
    ----------
    project : Project
        The project of the review.

    Attributes
    ----------
    ranked : Vocabulary
        The lines that the project was made with. Lines accepted at that time were applied before
        the tags were ranked, and cannot be changed.
    current : Vocabulary
        These lines and later ones, with all answers.
    """

    def __init__(self, project: Project):
        self._project = project
        records = project.table.vocabulary
        self.ranked = _numbered(Vocabulary.from_records(records, _FIRST_LINE).lines)
        self.current = self.ranked
        self._applied = frozenset(LineKey.of(line) for line in self.ranked.accepted)
        is_listed = project.listed
        self._row = project.row[is_listed]
        self._column = project.column[is_listed]
        self._column_of = {name: j for j, name in enumerate(project.labels)}

    def position(self, key: LineKey) -> int:
        """Return the position of a line.

        Parameters
        ----------
        key : LineKey
            Key of the line.

        Returns
        -------
        int
        """
        for position, line in enumerate(self.current):
            if LineKey.of(line) == key:
                return position
        raise InputError(f"the vocabulary has no line {brief(str(key))}")

    def is_applied(self, line: VocabularyLine) -> bool:
        """Check whether a line was applied before the tags were ranked.

        Parameters
        ----------
        line : VocabularyLine
            A line of the vocabulary.

        Returns
        -------
        bool
        """
        return LineKey.of(line) in self._applied

    def is_settled(self, line: VocabularyLine) -> bool:
        """Check whether other answers have decided an open line.

        Parameters
        ----------
        line : VocabularyLine
            A line of the vocabulary.

        Returns
        -------
        bool
        """
        return not line.accept and self.current.decides(line)

    def status(self, line: VocabularyLine) -> str:
        """Return the status of a line, under which the page lists it.

        Parameters
        ----------
        line : VocabularyLine
            A line of the vocabulary.

        Returns
        -------
        {"open", "accepted", "rejected", "settled"}
            "settled" for open lines that other answers have decided.
        """
        if line.is_accepted:
            return "accepted"
        if line.accept == REJECTED:
            return "rejected"
        return "settled" if self.is_settled(line) else "open"

    def counts(self) -> dict[str, int]:
        """Return the number of lines of each status.

        Returns
        -------
        dict from str to int
        """
        counts = Counter(map(self.status, self.current))
        return {status: counts[status] for status in STATUSES}

    def rows(self, name: str) -> Array:
        """Return the rows that list a tag, under the names of the ranking.

        Parameters
        ----------
        name : str
            Name of the tag.

        Returns
        -------
        array of int
        """
        column = self._column_of.get(name)
        if column is None:
            return np.zeros(0, dtype=int)
        return np.unique(self._row[self._column == column])

    def changed_rows(self, line: VocabularyLine) -> Array:
        """Return the rows that a line changes if it is accepted.

        Parameters
        ----------
        line : VocabularyLine
            A line of the vocabulary.

        Returns
        -------
        array of int
        """
        if line.action in ("merge", DROP):
            return self.rows(line.tag)
        has_effect = self.current.drops.isdisjoint((line.tag, line.target))
        if line.action == "imply" and has_effect and self._project.table.add_implied:
            target = self._rows_by_all_names(line.target)
            return np.setdiff1d(self._rows_by_all_names(line.tag), target)
        return np.zeros(0, dtype=int)

    def _rows_by_all_names(self, name: str) -> Array:
        """Return the rows that list a tag or another name of it."""
        merges = self.current.merges
        final = merges.get(name, name)
        synonyms = [tag for tag, target in merges.items() if target == final]
        return np.unique(np.concatenate([self.rows(tag) for tag in (final, *synonyms)]))

    @property
    def is_changed(self) -> bool:
        """True if lines or answers have changed since the project was made."""
        return self.current != self.ranked

    @property
    def rules(self) -> dict[str, str]:
        """Rules from lines accepted after the ranking, by label name."""
        return {
            line.tag: line.action for line in self._later(KEEP, DROP) if line.tag in self._column_of
        }

    @property
    def renames(self) -> bool:
        """True if merges or implications were accepted after the ranking."""
        return bool(self._later("merge", "imply"))

    @property
    def renaming(self) -> Vocabulary:
        """Lines to apply to the tags of the ranking: later merges, and all implications.

        Earlier implications are included because later lines can extend them to more rows.
        """
        names = self.ranked.merges
        gone = self.ranked.drops
        earlier = [
            line
            for line in self.ranked.accepted
            if line.action == "imply" and gone.isdisjoint((line.tag, line.target))
        ]
        lines = []
        for line in [*earlier, *self._later("merge", "imply")]:
            tag = names.get(line.tag, line.tag)
            target = names.get(line.target, line.target)
            if tag != target:
                lines.append(replace(line, tag=tag, target=target))
        return Vocabulary(lines)

    @property
    def without_rules(self) -> Vocabulary:
        """All accepted lines except the rules, which are applied tag by tag."""
        rules = self.rules
        lines = [
            line
            for line in self.current.accepted
            if self.is_applied(line) or rules.get(line.tag) != line.action
        ]
        return Vocabulary(lines)

    def after_answer(self, record: Record) -> Vocabulary:
        """Return the vocabulary after the answer of a record.

        Parameters
        ----------
        record : dict
            With "line", "accept" and, if another target was chosen, "to".

        Returns
        -------
        Vocabulary

        Raises
        ------
        InputError
            If there is no such line or answer, if the line was applied before the ranking, or if
            it contradicts another line.
        """
        position = self.position(LineKey.from_record(record))
        line = self.current[position]
        accept = record.get("accept")
        if accept not in _ANSWERS:
            raise InputError(f"'accept' must be yes, no or empty, not {brief(accept)}")
        if self.is_applied(line):
            raise InputError(
                f"line {line.number} was applied before the tags were ranked; change it in the "
                f"file, and start the review again from the table"
            )
        target = record.get("to")
        if target not in (None, line.target):
            line = self._with_target(line, target)
            for k, duplicate in enumerate(self.current):
                if k != position and LineKey.of(duplicate) == LineKey.of(line):
                    raise InputError(f"line {duplicate.number} is the same; answer that one")
        lines = list(self.current)
        lines[position] = replace(line, accept=accept)
        return self._consistent(_numbered(lines))

    def after_rule(self, label: str, rule: str) -> Vocabulary:
        """Return the vocabulary after a rule about all tags of a label.

        Parameters
        ----------
        label : str
            Name of the label.
        rule : {"keep", "drop", "ask"}
            Keep or remove all its tags; "ask" removes the rule.

        Returns
        -------
        Vocabulary
        """
        return self._consistent(_numbered(self.current.with_rule(label, rule).lines))

    def _consistent(self, vocabulary: Vocabulary) -> Vocabulary:
        """Return the vocabulary; raise InputError for a dropped tag that later lines bring back.

        Tags that were merged before the ranking have their new name, so a drop takes all of them.
        """
        drops = {line.tag: line for line in vocabulary.accepted if line.action == DROP}
        for line in vocabulary.accepted:
            drop = drops.get(line.target)
            is_applied = self.is_applied(line)
            if drop is None or (is_applied and (line.action != "imply" or self.is_applied(drop))):
                continue
            verb = {"merge": "is merged into", "imply": "implies"}.get(line.action)
            if verb is not None:
                raise InputError(
                    f"lines {line.number} and {drop.number}: {brief(line.tag)} {verb} "
                    f"{brief(line.target)}, which is dropped; reject one"
                )
        return vocabulary

    def after_proposals(self, record: Record) -> Vocabulary:
        """Return the vocabulary with additional open lines.

        Parameters
        ----------
        record : dict
            With "lines", which have the columns of a vocabulary file, and optionally "more", the
            number of proposals that are not among them.

        Returns
        -------
        Vocabulary
        """
        records = record.get("lines")
        if not isinstance(records, list) or not all(isinstance(line, dict) for line in records):
            raise InputError("'lines' must be a list of lines of a vocabulary")
        if not is_count(record.get("more", 0)):
            raise InputError(f"'more' must be a number of proposals, not {brief(record['more'])}")
        lines = Vocabulary.from_records(records).lines
        return _numbered([*self.current, *self.news(lines)])

    def news(self, lines: Iterable[VocabularyLine]) -> list[VocabularyLine]:
        """Return the lines that are new: neither decided nor already open.

        Parameters
        ----------
        lines : iterable of VocabularyLine
            Proposals.

        Returns
        -------
        list of VocabularyLine
        """
        pairs = {(line.action, frozenset((line.tag, line.target))) for line in self.current}
        return [
            line
            for line in lines
            if (line.action, frozenset((line.tag, line.target))) not in pairs
            and not self.current.decides(line)
        ]

    def _later(self, *actions: str) -> list[VocabularyLine]:
        """Return the lines with these actions that were accepted after the ranking."""
        return [
            line
            for line in self.current.accepted
            if line.action in actions and not self.is_applied(line)
        ]

    def _with_target(self, line: VocabularyLine, target: Any) -> VocabularyLine:
        """Return a line with another target; for a merge, it may be the tag itself."""
        if line.action not in _CAN_CHANGE_TARGET:
            raise InputError(f"a line with the action {line.action} has no other target")
        separator = self._project.table.separator
        is_tag = isinstance(target, str) and split_tags(target, separator) == [target]
        if not is_tag or len(target) > _LONGEST_TAG or not target.isprintable():
            raise InputError(
                f"the target must be one tag of at most {_LONGEST_TAG} characters, not "
                f"{brief(target)}"
            )
        if line.action == "merge" and target == line.tag:
            return replace(
                line,
                tag=line.target,
                target=line.tag,
                rows=line.rows_target,
                rows_target=line.rows,
            )
        rows = self.rows(target)
        n_both = len(np.intersect1d(self.rows(line.tag), rows))
        evidence = f"target chosen by a person instead of {line.target}"
        return replace(line, target=target, rows_target=len(rows), both=n_both, evidence=evidence)


def _numbered(lines: Iterable[VocabularyLine]) -> Vocabulary:
    """Number lines as in a file."""
    numbered = enumerate(lines, start=_FIRST_LINE)
    return Vocabulary([replace(line, number=number) for number, line in numbered])


class TagAnswer(NamedTuple):
    """Decision about a tag of a row.

    Attributes
    ----------
    tag : int
        Number of the tag.
    label : str
        Name of its label.
    is_listed, is_kept : bool
        True if the table lists the tag, and True if the final table has it.
    seq : int
        Number of the record with a person's answer; 0 if no person answered.
    """

    tag: int
    label: str
    is_listed: bool
    is_kept: bool
    seq: int


class FinalRow(NamedTuple):
    """The tags of a row, with the answers about them under their final names.

    Attributes
    ----------
    row : int
        Number of the row, from 0.
    before : list of str
        Tags after all accepted lines, without answers.
    after : list of str
        Tags after the answers and all accepted lines.
    answers : dict from str to TagAnswer
        The answer that counts for each name after all accepted lines.
    line_of : dict from str to int
        Position in `VocabularyRoom.renaming` of the line that adds a tag.
    """

    row: int
    before: list[str]
    after: list[str]
    answers: dict[str, TagAnswer]
    line_of: dict[str, int]


def final_rows(
    room: VocabularyRoom,
    rows: Sequence[Sequence[str]],
    answers: Mapping[int, Sequence[TagAnswer]],
    add_implied: bool = True,
) -> list[FinalRow]:
    """Return the rows after the answers, and after the lines accepted since the ranking.

    An answer about one name of a merged tag is an answer about the tag; if there are several, the
    latest counts. Tags removed by a person, a rule or a removal at once are not implied again.

    Parameters
    ----------
    room : VocabularyRoom
        The lines of the vocabulary.
    rows : sequence of sequences of str
        Tags of the table.
    answers : dict from row to sequence of TagAnswer
        Tags that were answered, removed or added.
    add_implied : bool, default=True
        Add implied tags.

    Returns
    -------
    list of FinalRow
        One for each row of the table.
    """
    renaming = room.renaming
    ranked = apply_vocabulary(room.ranked, rows, add_implied).rows
    before = apply_vocabulary(room.without_rules, rows, add_implied).rows
    answered = [_after_answers(tags, answers.get(i, ())) for i, tags in enumerate(ranked)]
    applied = apply_vocabulary(renaming, answered, add_implied)
    line_of: dict[int, dict[str, int]] = {}
    for change in applied.changes:
        line_of.setdefault(change.row, {})[change.after] = change.line
    final = []
    for i, tags in enumerate(applied.rows):
        verdicts = _verdicts(answers.get(i, ()), renaming.merges)
        stays = set(answered[i])
        names = {renaming.merges.get(name, name) for name in stays}
        # A removal without a person's answer (seq 0) concerns only one of the merged names: the tag
        # stays if the row has it under another name.
        after = [
            name
            for name in tags
            if name not in verdicts
            or verdicts[name].is_kept
            or (name in names and not verdicts[name].seq)
        ]
        final.append(FinalRow(i, before[i], after, verdicts, line_of.get(i, {})))
    return final


def _after_answers(tags: Sequence[str], answers: Iterable[TagAnswer]) -> list[str]:
    """Return the tags of a row after the answers, under the names of the ranking."""
    removed = {answer.label for answer in answers if not answer.is_kept}
    added = [answer.label for answer in answers if answer.is_kept and not answer.is_listed]
    return [tag for tag in tags if tag not in removed] + added


def _verdicts(answers: Iterable[TagAnswer], names: Mapping[str, str]) -> dict[str, TagAnswer]:
    """Return the answer that counts for each final name: a person's latest answer, if any."""
    verdicts: dict[str, TagAnswer] = {}
    for answer in answers:
        name = names.get(answer.label, answer.label)
        latest = verdicts.get(name)
        if latest is None or answer.seq > latest.seq:
            verdicts[name] = answer
    return verdicts


def record_of(line: VocabularyLine) -> Record:
    """Return the fields that identify a line in the journal and on the page.

    Parameters
    ----------
    line : VocabularyLine
        A line of the vocabulary.

    Returns
    -------
    dict
    """
    return LineKey.of(line)._asdict()


def proposal_records(lines: Iterable[VocabularyLine]) -> list[Record]:
    """Return open lines as journal records.

    Parameters
    ----------
    lines : iterable of VocabularyLine
        Proposals.

    Returns
    -------
    list of dict
    """
    return [{name: line.to_record()[name] for name in FIELDS if name != "accept"} for line in lines]

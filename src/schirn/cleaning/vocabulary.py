"""The vocabulary of a table: decisions about its tags, line by line, answered with yes or no.

A line has an action, a tag, and for some actions a target:

- ``merge``: `tag` is another name of `target`, and is replaced by it;
- ``imply``: a row with `tag` has `target` as well;
- ``exclude``: no row has both;
- ``drop``: `tag` is uninformative, and is removed;
- ``split``: `tag` has two meanings, for a person to separate; accepting the line changes no row;
- ``keep``: `tag` stays unchanged, and nothing is proposed about it.

Accepted lines are applied in this order: merges and drops, then implications, read with the names
after merging. Of a dropped tag, all names are dropped, and nothing implies it. Applying the lines
again changes nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from schirn._files import brief
from schirn._input import OneOf, is_missing
from schirn.cleaning._spelling import PLURAL, is_one_name, spelling_of
from schirn.cleaning.policy import ASK, DROP, KEEP, RULES
from schirn.exceptions import InputError
from schirn.labels.cells import TagCells

ACTIONS = ("merge", "imply", "exclude", "drop", "split", "keep")
FIELDS = ("action", "tag", "target", "rows", "rows_target", "both", "evidence", "accept")

_WITH_TARGET = ("merge", "imply", "exclude")
_YES = frozenset({"yes", "y", "true", "1", "x"})
_NO = frozenset({"no", "n", "false", "0"})
_CONFIDENCE = re.compile(r"confidence (0?\.\d+|[01](?:\.0+)?)(?:; |$)")


@dataclass(frozen=True)
class VocabularyLine:
    """A change to the list of tags, proposed or decided.

    Attributes
    ----------
    action : {"merge", "imply", "exclude", "drop", "split", "keep"}
        Kind of change.
    tag : str
        The tag that it is about.
    target : str
        The other tag of "merge", "imply" and "exclude".
    rows, rows_target, both : int
        Number of rows with the tag, with the target, and with both, when the line was proposed.
    evidence : str
        Reason for the proposal.
    accept : {"", "yes", "no"}
        The answer; "" is an open proposal.
    confidence : float
        Above 0.5 for proposals with confidence; 0 if unknown.
    number : int
        Number of the line in its file; 0 if it was not read from a file.

    Examples
    --------
    >>> from schirn.cleaning import VocabularyLine
    >>> print(VocabularyLine("merge", "Dog", "dog", 12, 340, evidence="case"))
    merge Dog (12 rows) → dog (340): case
    """

    action: str
    tag: str
    target: str = ""
    rows: int = 0
    rows_target: int = 0
    both: int = 0
    evidence: str = ""
    accept: str = ""
    confidence: float = 0.0
    number: int = field(default=0, compare=False)

    @property
    def is_sure(self) -> bool:
        """True if the line is proposed with confidence."""
        return self.confidence > 0.5

    @property
    def is_spelling(self) -> bool:
        """Whether it merges names that differ in case, spaces and hyphens only."""
        return self.action == "merge" and is_one_name(self.tag, self.target)

    @property
    def is_used_once(self) -> bool:
        """Whether it drops a tag of a single row."""
        return self.action == "drop" and self.rows == 1

    @property
    def is_accepted(self) -> bool:
        """True if the answer is yes; "keep" lines need no answer."""
        return self.accept == "yes" or (self.action == "keep" and self.accept == "")

    @property
    def reason(self) -> str:
        """Sentence that explains the changes by the line, such as "poodle implies dog"."""
        if self.action == "merge":
            spelling = spelling_of(self.tag, self.target)
            noun = "form" if spelling in (PLURAL, "ending") else "spelling" if spelling else "name"
            kind = f" ({spelling})" if spelling else ""
            return f"{self.tag} is another {noun} of {self.target}{kind}"
        verb = {"imply": "implies", "exclude": "excludes"}.get(self.action)
        if verb is not None:
            return f"{self.tag} {verb} {self.target}"
        verb = {"drop": "is dropped", "split": "has two meanings", "keep": "is kept"}[self.action]
        return f"{self.tag} {verb}"

    def __str__(self) -> str:
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        sign = {"merge": "→", "imply": "⇒", "exclude": "≠"}.get(self.action)
        target = f" {sign} {self.target} ({self.rows_target:,})" if sign else ""
        evidence = f": {self.evidence}" if self.evidence else ""
        return f"{self.action} {self.tag} ({rows}){target}{evidence}"

    def to_record(self) -> dict[str, Any]:
        """Return the line as a record with the columns of the file.

        Returns
        -------
        dict from str to object
        """
        confidence = f"confidence {self.confidence:.2f}" if self.confidence else ""
        evidence = "; ".join(filter(None, (confidence, self.evidence)))
        return {
            "action": self.action,
            "tag": self.tag,
            "target": self.target,
            "rows": self.rows,
            "rows_target": self.rows_target,
            "both": self.both,
            "evidence": evidence,
            "accept": self.accept,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any], number: int = 0) -> "VocabularyLine":
        """Build a line from a record with the columns of the file.

        Parameters
        ----------
        record : mapping from str
            At least `action` and `tag`; or `from` and `to`, which make an accepted merge.
        number : int, default=0
            Number of the line in the file.

        Returns
        -------
        VocabularyLine

        Raises
        ------
        InputError
            If a column has an invalid value.
        """
        cells = {name: str(value or "").strip() for name, value in record.items()}
        if "action" not in cells and "from" in cells:
            merge = {"action": "merge", "tag": cells["from"], "target": cells.get("to", "")}
            cells = {**merge, "accept": "yes"}
        where = f"line {number}: " if number else ""
        action = cells.get("action", "").casefold()
        if action not in ACTIONS:
            names = ", ".join(ACTIONS)
            raise InputError(f"{where}the action must be one of {names}, not {brief(action)}")
        accept = _answer(cells.get("accept", ""), where)
        confidence = _CONFIDENCE.match(cells.get("evidence", ""))
        evidence = cells.get("evidence", "")[confidence.end() if confidence else 0 :]
        line = cls(
            action,
            cells.get("tag", ""),
            cells.get("target", ""),
            _count(cells.get("rows", "")),
            _count(cells.get("rows_target", "")),
            _count(cells.get("both", "")),
            evidence,
            accept,
            float(confidence[1]) if confidence else 0.0,
            number,
        )
        needs_target = action in _WITH_TARGET
        if not line.tag or (needs_target and not line.target):
            need = "a tag and a target" if needs_target else "a tag"
            raise InputError(f"{where}{action} needs {need}")
        return line


def _answer(text: str, where: str) -> str:
    answer = text.casefold()
    if answer in _YES:
        return "yes"
    if answer in _NO:
        return "no"
    if answer:
        raise InputError(f"{where}accept must be yes, no or empty, not {brief(text)}")
    return ""


def _count(text: str) -> int:
    digits = text.replace(",", "")
    return int(digits) if digits.isdecimal() else 0


class VocabularyChange(NamedTuple):
    """A change to one tag of one row.

    Attributes
    ----------
    row : int
        Number of the row, from 0.
    change : {"removal", "addition", "merge", "rename"}
        Kind of change; "merge" if the row has the target already.
    before, after : str
        The tag and its replacement; "" for none.
    line : int
        Position of the line that causes it.
    """

    row: int
    change: str
    before: str
    after: str
    line: int


@dataclass(frozen=True)
class AppliedVocabulary:
    """Tags after the accepted lines of a vocabulary.

    Attributes
    ----------
    rows : list of list of str
        Tags of each row in their original order, with new tags at the end.
    changes : list of VocabularyChange
        The changes, sorted by row.
    suggestions : list of VocabularyChange
        Implied tags that were not added.
    conflicts : list of (int, int)
        Rows with two exclusive tags, and the position of the line.
    counts : list of int
        Number of rows that each line of the vocabulary changes.
    """

    rows: list[list[str]]
    changes: list[VocabularyChange]
    suggestions: list[VocabularyChange]
    conflicts: list[tuple[int, int]]
    counts: list[int]


@dataclass(frozen=True)
class Vocabulary:
    """Lines about tags: proposals, and the answers to them.

    Parameters
    ----------
    lines : sequence of VocabularyLine
    unlisted : sequence of VocabularyLine, optional
        Further proposals, which are not among the lines.

    Raises
    ------
    InputError
        If accepted lines contradict each other: merges in a chain or circle, a tag that is kept
        and dropped, implications in a circle. The message names the lines.

    Examples
    --------
    >>> from schirn.cleaning import Vocabulary, VocabularyLine
    >>> lines = [VocabularyLine("merge", "Dog", "dog"), VocabularyLine("imply", "poodle", "dog")]
    >>> vocabulary = Vocabulary(lines).answer({0: True, 1: True})
    >>> vocabulary.apply(["Dog;beach", "poodle"]).rows
    [['dog', 'beach'], ['poodle', 'dog']]
    """

    lines: Sequence[VocabularyLine] = ()
    unlisted: Sequence[VocabularyLine] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines", tuple(self.lines))
        object.__setattr__(self, "unlisted", tuple(self.unlisted))
        check_lines(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[VocabularyLine]:
        return iter(self.lines)

    def __getitem__(self, position: int) -> VocabularyLine:
        return self.lines[position]

    @property
    def accepted(self) -> tuple[VocabularyLine, ...]:
        """Accepted lines, and tags to keep."""
        return tuple(line for line in self.lines if line.is_accepted)

    @property
    def answered(self) -> tuple[VocabularyLine, ...]:
        """Lines that were accepted or rejected, and tags to keep."""
        return tuple(line for line in self.lines if line.accept or line.action == "keep")

    @property
    def open(self) -> tuple[VocabularyLine, ...]:
        """Proposals without an answer."""
        return tuple(line for line in self.lines if not line.accept and line.action != "keep")

    def answer(self, answers: Mapping[int, bool | None]) -> "Vocabulary":
        """Return the vocabulary with answers to some of its lines.

        Parameters
        ----------
        answers : mapping from int to bool or None
            From the position of a line to True (accept), False (reject) or None (open again).

        Returns
        -------
        Vocabulary
        """
        lines = list(self.lines)
        words = {True: "yes", False: "no", None: ""}
        for position, accept in answers.items():
            lines[position] = replace(lines[position], accept=words[accept])
        return Vocabulary(lines)

    def with_rule(self, tag: str, rule: str) -> "Vocabulary":
        """Return the vocabulary with a rule about a tag, which replaces earlier rules.

        Parameters
        ----------
        tag : str
            Name of the tag.
        rule : {"keep", "drop", "ask"}
            Keep the tag in all rows, remove it from all rows, or remove the rule.

        Returns
        -------
        Vocabulary

        Examples
        --------
        >>> from schirn.cleaning import Vocabulary
        >>> vocabulary = Vocabulary().with_rule("js", "keep").with_rule("js", "drop")
        >>> [str(line) for line in vocabulary]
        ['drop js (0 rows)']
        """
        OneOf(RULES).check("rule", rule)
        lines: list[VocabularyLine] = []
        is_new = rule != ASK
        for line in self.lines:
            if (line.action, line.tag) == (rule, tag):
                # A proposal keeps its evidence; a second line with the same rule is left out.
                if not is_new:
                    continue
                line = replace(line, accept="yes")
                is_new = False
            elif line.tag == tag and line.action in (KEEP, DROP) and line.is_accepted:
                if not line.evidence:
                    continue
                # An accepted proposal is open again.
                line = replace(line, accept="")
            lines.append(line)
        if is_new:
            lines.append(VocabularyLine(rule, tag, accept="yes"))
        return Vocabulary(lines)

    @classmethod
    def from_records(cls, records: Iterable[Mapping[str, Any]], first: int = 1) -> "Vocabulary":
        """Build a vocabulary from records, such as the lines of a file.

        Parameters
        ----------
        records : iterable of mappings from str
            One per line; see `VocabularyLine.from_record`.
        first : int, default=1
            Number of the first line.

        Returns
        -------
        Vocabulary
        """
        lines = [
            VocabularyLine.from_record(record, number)
            for number, record in enumerate(records, start=first)
        ]
        return cls(lines)

    def to_records(self) -> list[dict[str, Any]]:
        """Return the lines as records with the columns of the file.

        Returns
        -------
        list of dict
        """
        return [line.to_record() for line in self.lines]

    @cached_property
    def merges(self) -> dict[str, str]:
        """From each merged tag to its target; a name of a dropped tag is dropped instead."""
        return {tag: target for tag, target in self._names.items() if tag not in self.drops}

    @cached_property
    def drops(self) -> frozenset[str]:
        """Tags that are removed from all rows, under all their names."""
        dropped = {line.tag for line in self.accepted if line.action == "drop"}
        names = {tag for tag, target in self._names.items() if target in dropped}
        return frozenset(dropped | names)

    @cached_property
    def _names(self) -> dict[str, str]:
        """From each name that a line merges to its target."""
        return {line.tag: line.target for line in self.accepted if line.action == "merge"}

    @cached_property
    def keeps(self) -> frozenset[str]:
        """Tags that are never removed, under their names after merging."""
        names = self.merges
        tags = (line.tag for line in self.accepted if line.action == "keep")
        return frozenset(names.get(tag, tag) for tag in tags)

    @cached_property
    def parents(self) -> dict[str, tuple[str, ...]]:
        """From a tag to all that it implies, also through others, with the names after merging."""
        gone = self.drops
        lines = (line for line in self.accepted if gone.isdisjoint((line.tag, line.target)))
        direct = _parents(lines, self.merges)
        return {tag: tuple(_ancestors(tag, direct)) for tag in direct}

    @cached_property
    def exclusions(self) -> list[tuple[str, str]]:
        """Pairs of exclusive tags, under their names after merging."""
        names = self.merges
        return [
            (names.get(line.tag, line.tag), names.get(line.target, line.target))
            for line in self.accepted
            if line.action == "exclude"
        ]

    @cached_property
    def _decided(self) -> "_Decided":
        return _Decided.of(self)

    def decides(self, line: VocabularyLine) -> bool:
        """Check whether the answers already decide a proposal.

        They do if the proposal was answered, in either direction; if one of its tags is gone; or if
        it would change a tag that is kept or is the target of an accepted line.

        Parameters
        ----------
        line : VocabularyLine
            The proposal.

        Returns
        -------
        bool
        """
        decided = self._decided
        if _question(line) in decided.questions:
            return True
        if line.tag in decided.gone or line.target in decided.gone:
            return True
        changes_tag = line.action in ("merge", "drop", "split")
        return changes_tag and line.tag in decided.fixed

    def apply(
        self, tags: Iterable[Any], *, separator: str = ";", add_implied: bool = True
    ) -> AppliedVocabulary:
        """Apply the accepted lines to the tags of each row.

        Parameters
        ----------
        tags : list of lists of names, or strings such as "beach;dog"
            Tags of the rows.
        separator : str, default=";"
            Text between tags.
        add_implied : bool, default=True
            Add implied tags; False only suggests them.

        Returns
        -------
        AppliedVocabulary
        """
        return apply_vocabulary(self, _name_rows(tags, separator), add_implied)


class _Decided(NamedTuple):
    """Questions and tags that the answers of a vocabulary settle."""

    questions: frozenset[tuple[str, frozenset[str]]]
    gone: frozenset[str]
    fixed: frozenset[str]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "_Decided":
        accepted = vocabulary.accepted
        keeps = {line.tag for line in accepted if line.action == "keep"}
        targets = {line.target for line in accepted if line.target}
        return cls(
            frozenset(map(_question, vocabulary.answered)),
            frozenset(vocabulary.merges) | vocabulary.drops,
            frozenset(keeps | targets),
        )


def _question(line: VocabularyLine) -> tuple[str, frozenset[str]]:
    """Return the question that a line asks, whatever its direction; some lines have no target."""
    names = {line.tag} if line.action in ("drop", "split", "keep") else {line.tag, line.target}
    return line.action, frozenset(names)


def _name_rows(tags: Iterable[Any], separator: str) -> list[list[str]]:
    """Return the distinct names of each row in their order."""
    rows = list(tags)
    cells = TagCells.of(rows, separator)
    names = (
        cells.split(row) if isinstance(row, str) or is_missing(row) else map(str, row)
        for row in rows
    )
    return [list(dict.fromkeys(row)) for row in names]


def apply_vocabulary(
    vocabulary: Vocabulary, rows: Sequence[Sequence[str]], add_implied: bool = True
) -> AppliedVocabulary:
    """Apply the accepted lines to names; see `Vocabulary.apply`.

    Parameters
    ----------
    vocabulary : Vocabulary
        Lines of which the accepted ones apply.
    rows : sequence of sequences of str
        Names of the tags of each row.
    add_implied : bool, default=True
        Add implied tags; False only suggests them.

    Returns
    -------
    AppliedVocabulary
    """
    line_of = _positions(vocabulary)
    new_rows: list[list[str]] = []
    changes: list[VocabularyChange] = []
    suggestions: list[VocabularyChange] = []
    conflicts: list[tuple[int, int]] = []
    for i, names in enumerate(rows):
        new, row_changes = _replaced(vocabulary, i, names, line_of)
        implied = _implied(vocabulary, i, new, line_of)
        if add_implied:
            new += [change.after for change in implied]
            row_changes += implied
        else:
            suggestions += implied
        present = set(new)
        conflicts.extend(
            (i, line_of["exclude", frozenset(pair)])
            for pair in vocabulary.exclusions
            if present.issuperset(pair)
        )
        new_rows.append(new)
        changes += row_changes
    counts = [0] * len(vocabulary)
    for _, line in {(change.row, change.line) for change in changes}:
        counts[line] += 1
    return AppliedVocabulary(new_rows, changes, suggestions, conflicts, counts)


def _positions(vocabulary: Vocabulary) -> dict[Any, int]:
    """Return the position of each accepted line, keyed by the tags it concerns after merging."""
    positions: dict[Any, int] = {}
    names = vocabulary.merges
    for position, line in enumerate(vocabulary.lines):
        if not line.is_accepted:
            continue
        tag = names.get(line.tag, line.tag)
        target = names.get(line.target, line.target)
        key: Any = (line.action, line.tag)
        if line.action == "imply":
            key = (line.action, tag, target)
        elif line.action == "exclude":
            key = (line.action, frozenset({tag, target}))
        positions.setdefault(key, position)
    for name in vocabulary.drops:
        if ("drop", name) not in positions:
            line = vocabulary[positions["merge", name]]
            positions["drop", name] = positions["drop", line.target]
    return positions


def _replaced(
    vocabulary: Vocabulary, row: int, names: Sequence[str], line_of: Mapping[Any, int]
) -> tuple[list[str], list[VocabularyChange]]:
    """Return the names of a row after merges and drops, and the changes."""
    new: dict[str, None] = {}
    changes = []
    present = set(names)
    # A cell may list a tag twice, but the tag changes only once.
    for name in dict.fromkeys(names):
        if name in vocabulary.drops:
            changes.append(VocabularyChange(row, "removal", name, "", line_of["drop", name]))
            continue
        target = vocabulary.merges.get(name)
        if target is not None:
            # With several names of one target, the first is renamed and the others are merged.
            kind = "merge" if target in present or target in new else "rename"
            changes.append(VocabularyChange(row, kind, name, target, line_of["merge", name]))
        new[target or name] = None
    return list(new), changes


def _implied(
    vocabulary: Vocabulary, row: int, names: Sequence[str], line_of: Mapping[Any, int]
) -> list[VocabularyChange]:
    """Return the additions that the tags of a row imply."""
    present = set(names)
    additions = []
    for name in names:
        for parent in vocabulary.parents.get(name, ()):
            if parent not in present:
                present.add(parent)
                line = _line_of_parent(vocabulary, name, parent, line_of)
                additions.append(VocabularyChange(row, "addition", "", parent, line))
    return additions


def _line_of_parent(
    vocabulary: Vocabulary, name: str, parent: str, line_of: Mapping[Any, int]
) -> int:
    """Return the position of the last line on the path from a tag to an ancestor."""
    position = line_of.get(("imply", name, parent))
    if position is not None:
        return position
    for ancestor in vocabulary.parents[name]:
        position = line_of.get(("imply", ancestor, parent))
        if position is not None:
            return position
    raise AssertionError(f"no line implies {parent}")


def _parents(lines: Iterable[VocabularyLine], names: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the direct parents of each tag, under their names after merging."""
    parents: dict[str, list[str]] = {}
    for line in lines:
        if line.action != "imply":
            continue
        tag = names.get(line.tag, line.tag)
        target = names.get(line.target, line.target)
        if tag != target:
            parents.setdefault(tag, []).append(target)
    return parents


def _ancestors(tag: str, parents: Mapping[str, list[str]]) -> list[str]:
    """Return all tags that a tag implies, nearest first."""
    ancestors: dict[str, None] = {}
    queue = list(parents.get(tag, ()))
    while queue:
        name = queue.pop(0)
        if name not in ancestors:
            ancestors[name] = None
            queue += parents.get(name, ())
    return list(ancestors)


def check_lines(lines: Sequence[VocabularyLine]) -> None:
    """Raise InputError if accepted lines contradict each other.

    Parameters
    ----------
    lines : sequence of VocabularyLine
        All lines of a vocabulary.
    """
    numbered = [
        (line.number or position, line)
        for position, line in enumerate(lines, start=1)
        if line.is_accepted
    ]
    merges: dict[str, tuple[int, VocabularyLine]] = {}
    for number, line in numbered:
        if line.action in _WITH_TARGET and line.tag == line.target:
            raise InputError(f"line {number}: {line.action} of {brief(line.tag)} with itself")
        if line.action == "merge":
            first_number, first_line = merges.setdefault(line.tag, (number, line))
            if first_line.target != line.target:
                raise InputError(
                    f"lines {first_number} and {number}: {brief(line.tag)} is merged into "
                    f"{brief(first_line.target)} as well as into {brief(line.target)}; reject one"
                )
    _check_fates(numbered, merges)
    _check_circles(numbered, {tag: line.target for tag, (_, line) in merges.items()})


def _check_fates(
    numbered: Sequence[tuple[int, VocabularyLine]],
    merges: Mapping[str, tuple[int, VocabularyLine]],
) -> None:
    """Raise InputError for chains of merges, and for tags both kept or targeted and removed."""
    drops = {line.tag: number for number, line in numbered if line.action == "drop"}
    keeps = {line.tag: number for number, line in numbered if line.action == "keep"}
    for number, line in numbered:
        if line.action == "merge" and line.target in merges:
            second_number, second = merges[line.target]
            raise InputError(
                f"lines {number} and {second_number}: {brief(line.tag)} is merged into "
                f"{brief(line.target)}, which is merged into {brief(second.target)}; "
                f"{'reject one' if second.target == line.tag else 'merge both into one tag'}"
            )
        if line.action == "merge" and line.tag in drops:
            raise InputError(
                f"lines {number} and {drops[line.tag]}: {brief(line.tag)} is merged and dropped; "
                f"reject one"
            )
        if line.action in ("merge", "drop") and line.tag in keeps:
            verb = "merged" if line.action == "merge" else "dropped"
            raise InputError(
                f"lines {keeps[line.tag]} and {number}: {brief(line.tag)} is kept and {verb}; "
                f"reject one"
            )


def _check_circles(
    numbered: Sequence[tuple[int, VocabularyLine]], names: Mapping[str, str]
) -> None:
    """Raise InputError for tags that imply themselves or a tag that they exclude."""
    lines = [line for _, line in numbered]
    parents = _parents(lines, names)
    for number, line in numbered:
        tag = names.get(line.tag, line.tag)
        target = names.get(line.target, line.target)
        if line.action == "imply" and tag != target and tag in _ancestors(target, parents):
            circle = {target, *_ancestors(target, parents)}
            numbers = [
                second_number
                for second_number, second in numbered
                if second.action == "imply"
                and names.get(second.target, second.target) == tag
                and names.get(second.tag, second.tag) in circle
            ]
            raise InputError(
                f"lines {number} and {numbers[0]}: {brief(tag)} implies {brief(target)}, which "
                f"implies {brief(tag)} again; reject one, or merge them"
            )
        if line.action == "exclude":
            pairs = ((tag, target), (target, tag))
            for child, parent in pairs:
                if parent in _ancestors(child, parents):
                    raise InputError(
                        f"line {number}: {brief(child)} excludes {brief(parent)}, which it implies "
                        f"by another line; reject one"
                    )

"""Expectations of a table, for automatic checks: limits, and differences from the last run.

A file of expectations is TOML; every line is optional:

    wrong_share = 0.15            # maximum share of wrong tags, according to answers
    removed_share = 0.2           # maximum share of removed tags
    allowed_tags = "tags.txt"     # a list of tags, or a file with one tag per line

    [findings]                    # maximum number of each kind of finding
    spelling = 0
    copies = 10

    [drift]                       # maximum difference from the last run
    wrong_share = 0.05            # between the two shares, up or down
    tags = 0.1                    # total variation distance between the frequencies of the tags
    new_tags = 0                  # number of tags that the last run did not have
    gone_rows = 0.2               # share of the rows of the last update that are gone
    changed_rows = 0.5            # share of the remaining rows whose content has changed
    restored = 0.2                # share of the tags removed last time that are no longer removed
    new_removals = 0.2            # share of the tags that are removed now, and were not last time
    lost_tags = 0.2               # share of the tags of the remaining rows that are gone
    emptied = 0.2                 # share of the cells that a mostly filled column has lost
    joined_tags = 0               # number of new tags that are known ones with "|", say, between
    features = 0.2                # shift of the features of new rows, in standard deviations

The total variation distance is half the sum, over all tags, of the absolute difference of their
shares of all tags: 0 for equal frequencies, 1 if no tag is left. It is the share of the tags that
would have to change for the frequencies to agree.

Some limits hold without a file, with the values above: `gone_rows`, `changed_rows`, `restored` (if
at least 20 tags were removed last time), `new_removals`, `lost_tags`, `emptied` and `joined_tags`.
They reject an export that is incomplete, or written in another way than the last one. `restored`
and `new_removals` do not count tags that people have decided on.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from schirn._files import brief, brief_list
from schirn._input import is_count, is_share, suggest
from schirn._text import read_text
from schirn.app.tables._checks import KINDS, Finding
from schirn.exceptions import DataError, InputError

if TYPE_CHECKING:
    from schirn.cleaning.noisy_labels import NoisyLabels

_MAX_BYTES = 256 * 1024**2
_SHARES = ("wrong_share", "removed_share")
_DRIFT = (
    "wrong_share",
    "tags",
    "new_tags",
    "gone_rows",
    "changed_rows",
    "restored",
    "new_removals",
    "lost_tags",
    "emptied",
    "joined_tags",
    "features",
)
_COUNTS = ("drift.new_tags", "drift.joined_tags")
DEFAULT_LIMITS = {
    "gone_rows": 0.2,
    "changed_rows": 0.5,
    "restored": 0.2,
    "new_removals": 0.2,
    "lost_tags": 0.2,
    "emptied": 0.2,
    "joined_tags": 0,
}
"""Limits of `Expectations.drift` that hold unless others are given."""
# The share of wrong tags says nothing if at least this share of the tags is not ranked.
_MOST = 0.5
# A share of fewer earlier removals says too little to stop a run by default.
_LEAST_REMOVALS = 20


@dataclass(frozen=True)
class Violation:
    """An expectation that is not met.

    Attributes
    ----------
    name : str
        Name of the expectation, such as "findings.spelling".
    value : float or None
        The observed value; None if unknown.
    limit : float
        The allowed value.
    sentence : str
        The violation in words, with an example.
    """

    name: str
    value: float | None
    limit: float
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class RunSummary:
    """Figures of a run, with which the next run is compared.

    Attributes
    ----------
    rows, tags : int
        Numbers of rows and tags.
    wrong_share : float or None
        Share of wrong tags among the ranked tags, estimated from answers; None without answers.
    removed_share : float
        Share of the tags that were removed.
    tag_counts : dict from str to int
        Number of rows with each tag, before removals and after merges.
    feature_drift : float or None
        Shift of the features of new rows since training, in standard deviations; None if unknown.
    gone_share : float
        Share of the rows of the last update that are gone.
    changed_share : float
        Share of the remaining rows of the last update that have changed.
    earlier_removals : int
        Number of tags that were removed last time, and are still listed.
    restored_share : float
        Share of these tags that are no longer removed, although nobody called them right.
    new_removal_share : float
        Share of the tags that are removed now, and were not last time, although nobody called them
        wrong; 0 in the run whose answers are the first to allow this.
    emptied_share : float
        Largest share of its values that a column has lost; 1 if the column is empty now. Columns
        that were filled in less than half of the rows do not count.
    emptied_column : str
        Name of this column; empty if no column lost values. The column of tags counts as well: its
        share is that of the rows with tags that have none now.
    lost_share : float
        Share of the tags of the last update that are gone, in rows that are still there, without
        the tags that it removed.
    joined_tags : int
        Number of tags that consist of known tags with another separator between them.
    joined_tag : str
        The most frequent of these; empty if there is none.
    unranked_share : float
        Share of the tags that are not ranked, because they are too rare, in every row, or
        in rows without features.

    Examples
    --------
    >>> from schirn import CandidateRidge, find_noisy_labels
    >>> from schirn.app.tables import Expectations, RunSummary
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=100, n_labels=4, r=1, random_state=0)
    >>> ranking = find_noisy_labels(data.X, data.candidates, method=CandidateRidge())
    >>> run = RunSummary.from_ranking(ranking)
    >>> Expectations(removed_share=1.0, drift={"new_tags": 0}).check(run, last=run)
    []
    """

    rows: int
    tags: int
    wrong_share: float | None
    removed_share: float
    tag_counts: dict[str, int] = field(default_factory=dict)
    feature_drift: float | None = None
    gone_share: float = 0.0
    changed_share: float = 0.0
    earlier_removals: int = 0
    restored_share: float = 0.0
    new_removal_share: float = 0.0
    emptied_share: float = 0.0
    emptied_column: str = ""
    lost_share: float = 0.0
    joined_tags: int = 0
    joined_tag: str = ""
    unranked_share: float = 0.0

    @classmethod
    def from_ranking(cls, ranking: "NoisyLabels") -> "RunSummary":
        """Summarize a ranking.

        Parameters
        ----------
        ranking : NoisyLabels
            The ranking.

        Returns
        -------
        RunSummary
        """
        counts = np.bincount(ranking.column, minlength=len(ranking.label_names)).tolist()
        named = zip(ranking.label_names, counts, strict=True)
        n_tags = len(ranking.row)
        return cls(
            ranking.n_rows,
            n_tags,
            None if np.isnan(ranking.wrong_share) else ranking.wrong_share,
            int(ranking.removed.sum()) / max(1, n_tags),
            {name: count for name, count in named if count},
            unranked_share=1 - int(ranking.judged.sum()) / max(1, n_tags),
        )


@dataclass(frozen=True)
class Expectations:
    """Limits that a run must meet; limits that are None or absent are not checked.

    Parameters
    ----------
    wrong_share, removed_share : float, optional
        Maximum share of wrong tags, which needs answers, and of removed tags.
    allowed_tags : collection of str, optional
        The only tags that may occur.
    findings : dict from str to int, optional
        Maximum number of each kind of `Finding`.
    drift : dict from str to float, optional
        Maximum difference from the last run: "wrong_share", "tags", "new_tags", "gone_rows",
        "changed_rows", "restored", "new_removals", "lost_tags", "emptied" and "joined_tags"; and
        from training: "features". Unless named, "gone_rows", "restored" (if at least 20 tags were
        removed last time), "new_removals", "lost_tags" and "emptied" are 0.2, "changed_rows" 0.5,
        and "joined_tags" 0.
    """

    wrong_share: float | None = None
    removed_share: float | None = None
    allowed_tags: frozenset[str] | None = None
    findings: Mapping[str, int] = field(default_factory=dict)
    drift: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        limits = {name: getattr(self, name) for name in _SHARES if getattr(self, name) is not None}
        for table, known in (("findings", KINDS), ("drift", _DRIFT)):
            for name, value in getattr(self, table).items():
                _check_name(table, name, known)
                limits[f"{table}.{name}"] = value
        for name, value in limits.items():
            is_number = name.startswith("findings.") or name in _COUNTS
            if not (is_count(value) if is_number else is_share(value)):
                kind = "a whole number" if is_number else "a number from 0 to 1"
                raise InputError(f"{name} must be {kind}, not {brief(value)}")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Expectations":
        """Read a .toml file; a file of tags is relative to its folder.

        Parameters
        ----------
        path : path
            A .toml file.

        Returns
        -------
        Expectations

        Raises
        ------
        DataError
            For an expectation that does not exist, or a limit that is not a number.
        """
        path = Path(path)
        if path.suffix.lower() != ".toml":
            raise DataError(f"{path}: the name of the expectations must end in .toml")
        # Imported here because few programs that import the library read expectations.
        import tomllib

        try:
            document = tomllib.loads(read_text(path, _MAX_BYTES))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise DataError(f"{path}: not TOML ({str(error)[:100]})") from None
        known = [entry.name for entry in fields(cls)]
        try:
            for name, value in document.items():
                _check_name("", name, known)
                if name in ("findings", "drift") and not isinstance(value, dict):
                    raise InputError(f"{name} must be a table of limits, not {brief(value)}")
            tags = document.get("allowed_tags")
            if isinstance(tags, str):
                tags = read_text(path.parent / tags, _MAX_BYTES).splitlines()
            if tags is not None:
                if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
                    raise InputError("allowed_tags must be a list of tags, or the name of a file")
                document["allowed_tags"] = frozenset(filter(None, map(str.strip, tags)))
            return cls(**document)
        except InputError as error:
            where = "" if str(error).startswith(str(path.parent / "")) else f"{path}: "
            raise DataError(f"{where}{error}") from None

    def check_findings(self, findings: Iterable[Finding]) -> list[Violation]:
        """Return the kinds of findings that exceed their limits.

        Parameters
        ----------
        findings : iterable of Finding
            Findings of `look_at_table`.

        Returns
        -------
        list of Violation
        """
        return [
            Violation(
                f"findings.{case.kind}",
                case.count,
                self.findings[case.kind],
                f"findings.{case.kind}: {case.count:,}, limit {self.findings[case.kind]:,}; {case}",
            )
            for case in findings
            if case.count > self.findings.get(case.kind, case.count)
        ]

    def check(
        self,
        run: "RunSummary | NoisyLabels",
        findings: Iterable[Finding] = (),
        *,
        last: RunSummary | None = None,
    ) -> list[Violation]:
        """Return the expectations that a run does not meet.

        Parameters
        ----------
        run : RunSummary or NoisyLabels
            A ranking, or its summary.
        findings : list of Finding
            Findings of `look_at_table`.
        last : RunSummary, optional
            The last run; without it, "wrong_share", "tags" and "new_tags" of `drift` are not
            checked.

        Returns
        -------
        list of Violation
        """
        if not isinstance(run, RunSummary):
            run = RunSummary.from_ranking(run)
        violations = []
        about = {
            "wrong_share": "of the ranked tags are wrong according to the answers",
            "removed_share": "of the tags are removed",
        }
        for name, words in about.items():
            value = getattr(run, name)
            limit = getattr(self, name)
            unknown = "unknown without answers"
            if name == "wrong_share" and run.unranked_share >= _MOST:
                value = None
                unknown = f"unknown, since {run.unranked_share:.0%} of the tags are not ranked"
            if limit is not None and (value is None or value > limit):
                fact = unknown if value is None else f"{value:.2%} {words}"
                sentence = f"{name}: {fact}, limit {limit:.2%}"
                violations.append(Violation(name, value, limit, sentence))
        if self.allowed_tags is not None:
            forbidden = [tag for tag in run.tag_counts if tag not in self.allowed_tags]
            if forbidden:
                tags = "1 tag is" if len(forbidden) == 1 else f"{len(forbidden):,} tags are"
                sentence = f"allowed_tags: {tags} not allowed, limit 0; {brief_list(forbidden, 6)}"
                violations.append(Violation("allowed_tags", len(forbidden), 0, sentence))
        violations += self.check_findings(findings)
        facts = _facts_of_rows(run)
        if last is not None:
            facts = _facts_of_tags(run, last) | facts
        return violations + [
            Violation(
                f"drift.{name}", value, limit, f"drift.{name}: {fact}, limit {limit:g}{detail}"
            )
            for name, (value, fact, detail) in facts.items()
            if (limit := self._drift_limit(name, run)) is not None
            and (value is None or value > limit)
        ]

    def _drift_limit(self, name: str, run: RunSummary) -> float | None:
        """Return the limit of a difference, by default the usual one; None if there is none."""
        is_vague = name == "restored" and run.earlier_removals < _LEAST_REMOVALS
        return self.drift.get(name, None if is_vague else DEFAULT_LIMITS.get(name))


# Value, the value in words, and details.
_Fact = tuple[float | None, str, str]


def _facts_of_tags(run: RunSummary, last: RunSummary) -> dict[str, _Fact]:
    """Return how much the tags of a run differ from the last run's."""
    return {
        "wrong_share": _share_fact(run, last),
        "tags": _frequency_fact(run, last),
        "new_tags": _new_tag_fact(run, last),
    }


def _share_fact(run: RunSummary, last: RunSummary) -> _Fact:
    """Return the change in the share of wrong tags."""
    old = last.wrong_share
    new = run.wrong_share
    if old is None or new is None:
        return None, "unknown in one of the runs", ""
    change = abs(new - old)
    return change, f"{change:.2%}", f"; from {old:.2%} to {new:.2%}"


def _frequency_fact(run: RunSummary, last: RunSummary) -> _Fact:
    """Return the change in the frequencies of the tags."""
    distance, name, (old, new) = frequency_drift(last.tag_counts, run.tag_counts)
    detail = f"; {brief(name)} changed most, from {old:.2%} to {new:.2%} of the tags"
    return distance, f"{distance:.3f}", detail


def _new_tag_fact(run: RunSummary, last: RunSummary) -> _Fact:
    """Return the number of tags that the last run did not have."""
    new_tags = [tag for tag in run.tag_counts if tag not in last.tag_counts]
    return len(new_tags), f"{len(new_tags):,}", f"; {brief_list(new_tags, 6)}"


def _facts_of_rows(run: RunSummary) -> dict[str, _Fact]:
    """Return the differences that a run itself records, from the last run and from training."""
    facts: dict[str, _Fact] = {
        "gone_rows": (run.gone_share, f"{run.gone_share:.2%}", " of the rows of the last run"),
        "changed_rows": (
            run.changed_share,
            f"{run.changed_share:.2%}",
            "; share of the rows of the last run, without those that are gone",
        ),
        "restored": (
            run.restored_share,
            f"{run.restored_share:.2%}",
            "; share of the tags that the last run removed",
        ),
        "new_removals": (
            run.new_removal_share,
            f"{run.new_removal_share:.2%}",
            " of the tags, which the last run did not remove",
        ),
        "lost_tags": (
            run.lost_share,
            f"{run.lost_share:.2%}",
            "; share of the tags of the last run, in rows that are still there",
        ),
        "emptied": (
            run.emptied_share,
            f"{run.emptied_share:.2%}",
            f"; share of its values that the column {brief(run.emptied_column)} has lost",
        ),
        "joined_tags": (
            run.joined_tags,
            f"{run.joined_tags:,}",
            f"; {brief(run.joined_tag)} consists of known tags with another separator",
        ),
    }
    if run.feature_drift is not None:
        facts["features"] = (run.feature_drift, f"{run.feature_drift:.2f}", "")
    return facts


def frequency_drift(
    old: Mapping[str, int], new: Mapping[str, int]
) -> tuple[float, str, tuple[float, float]]:
    """Return the total variation distance, and the tag whose share changed most."""
    sums = max(1, sum(old.values())), max(1, sum(new.values()))
    shares = {
        tag: (old.get(tag, 0) / sums[0], new.get(tag, 0) / sums[1])
        for tag in dict.fromkeys((*old, *new))
    }
    changes = {tag: abs(a - b) for tag, (a, b) in shares.items()}
    name = max(changes, key=lambda tag: changes[tag], default="")
    return sum(changes.values()) / 2, name, shares.get(name, (0.0, 0.0))


def _check_name(table: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        full_name = f"{table}.{name}" if table else name
        raise InputError(f"there is no expectation {brief(full_name)}; {suggest(name, known)}")

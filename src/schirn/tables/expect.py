"""Expectations of a table, for automatic checks.

A file of expectations is TOML or JSON; every line is optional:

    wrong_share = 0.15            # largest share of wrong tags, by answers
    removed_share = 0.2           # largest share of the tags that are removed
    allowed_tags = "tags.txt"     # a list of tags, or a file with one tag per line

    [findings]                    # largest number of each kind of finding
    spelling = 0
    copies = 10
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from schirn._files import brief, brief_list
from schirn._input import is_count, is_share, suggest
from schirn.exceptions import DataError, InputError
from schirn.tables.checks import KINDS, Finding
from schirn.tables.text import check_size

if TYPE_CHECKING:
    from schirn.cleaning.noisy_labels import NoisyLabels

_MAX_BYTES = 256 * 1024**2
_SHARES = ("wrong_share", "removed_share")


class Violation(NamedTuple):
    """An expectation that is not met.

    Attributes
    ----------
    name : str
        Name of the expectation, such as "findings.spelling".
    value : float or None
        What was found; None if it is not known.
    limit : float
        What was allowed.
    sentence : str
        All of this in words, with an example.
    """

    name: str
    value: float | None
    limit: float
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Expectations:
    """What a run must meet; an expectation that is None or not named is not checked.

    Parameters
    ----------
    wrong_share, removed_share : float, optional
        Largest share of wrong tags, which needs answers, and of removed tags.
    allowed_tags : collection of str, optional
        The only tags that may occur.
    findings : dict from str to int, optional
        Largest number of each kind of `Finding`.

    Examples
    --------
    >>> from schirn import CandidateRidge, find_noisy_labels
    >>> from schirn.cleaning import Expectations
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=100, n_labels=4, r=1, random_state=0)
    >>> ranking = find_noisy_labels(data.X, data.candidates, method=CandidateRidge())
    >>> for violation in Expectations(removed_share=0.1).check(ranking.remove(below=0.9)):
    ...     print(violation.name)
    removed_share
    """

    wrong_share: float | None = None
    removed_share: float | None = None
    allowed_tags: frozenset[str] | None = None
    findings: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _SHARES:
            value = getattr(self, name)
            if value is not None and not is_share(value):
                raise InputError(f"{name} must be a number from 0 to 1, not {brief(value)}")
        for name, value in dict(self.findings).items():
            _check_name("findings", name, KINDS)
            if not is_count(value):
                raise InputError(f"findings.{name} must be a whole number, not {brief(value)}")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Expectations":
        """Read a .toml or .json file; a file of tags is relative to its folder.

        Raises
        ------
        DataError
            For an expectation that does not exist, or a limit that is not a number.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in (".toml", ".json"):
            raise DataError(f"{path}: the name of the expectations must end in .toml or .json")
        document = _json(path) if suffix == ".json" else _toml(path)
        if not isinstance(document, dict):
            raise DataError(f"{path}: must hold names and limits, such as wrong_share = 0.2")
        known = [each.name for each in fields(cls)]
        try:
            for name, value in document.items():
                _check_name("", name, known)
                if name == "findings" and not isinstance(value, dict):
                    raise InputError(f"{name} must be a table of limits, not {brief(value)}")
            tags = document.get("allowed_tags")
            if isinstance(tags, str):
                tags = _text(path.parent / tags).splitlines()
            if tags is not None:
                if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
                    raise InputError("allowed_tags must be a list of tags, or the name of a file")
                document["allowed_tags"] = frozenset(filter(None, map(str.strip, tags)))
            return cls(**document)
        except InputError as error:
            where = "" if str(error).startswith(str(path.parent / "")) else f"{path}: "
            raise DataError(f"{where}{error}") from None

    def check_findings(self, findings: Iterable[Finding]) -> list[Violation]:
        """Return the kinds of findings that exceed their limits."""
        return [
            Violation(
                f"findings.{each.kind}",
                each.count,
                self.findings[each.kind],
                f"findings.{each.kind}: {each.count:,}, limit {self.findings[each.kind]:,}; {each}",
            )
            for each in findings
            if each.count > self.findings.get(each.kind, each.count)
        ]

    def check(self, ranking: "NoisyLabels", findings: Iterable[Finding] = ()) -> list[Violation]:
        """Return the expectations that are not met.

        Parameters
        ----------
        ranking : NoisyLabels
        findings : list of Finding
            What `look_at_table` returned.
        """
        violations = []
        shares = {
            "wrong_share": (
                ranking.wrong_share if ranking.n_answers else None,
                "of the judged tags are wrong, by the answers",
            ),
            "removed_share": (ranking.summary()["removed_share"], "of the tags are removed"),
        }
        for name, (value, words) in shares.items():
            limit = getattr(self, name)
            if limit is not None and (value is None or value > limit):
                outcome = "unknown without answers" if value is None else f"{value:.2%} {words}"
                sentence = f"{name}: {outcome}, limit {limit:.2%}"
                violations.append(Violation(name, value, limit, sentence))
        if self.allowed_tags is not None:
            others = sorted({*ranking.label} - self.allowed_tags)
            if others:
                tags = "1 tag is" if len(others) == 1 else f"{len(others):,} tags are"
                sentence = f"allowed_tags: {tags} not allowed, limit 0; {brief_list(others, 6)}"
                violations.append(Violation("allowed_tags", len(others), 0, sentence))
        return violations + self.check_findings(findings)


def _check_name(table: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        whole = f"{table}.{name}" if table else name
        raise InputError(f"there is no expectation {brief(whole)}; {suggest(name, known)}")


def _text(path: Path) -> str:
    check_size(path, _MAX_BYTES)
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text ({error.reason})") from None


def _toml(path: Path) -> Any:
    # Loaded on use: few programs that import the library read expectations.
    import tomllib

    try:
        return tomllib.loads(_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"{path}: not TOML ({str(error)[:100]})") from None


def _json(path: Path) -> Any:
    try:
        return json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise DataError(f"{path}: not JSON ({str(error)[:100]})") from None

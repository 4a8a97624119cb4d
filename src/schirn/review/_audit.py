"""The audit of a review: the tags drawn at random, the answers to them, and the certificate.

Only answers to tags of the sample, given after it was drawn, count for the certificate. All other
decisions were made in the order of doubt and say nothing about the removals as a whole.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from schirn._input import Array
from schirn.cleaning.audit import Certificate
from schirn.cleaning.found import NoisyLabels
from schirn.exceptions import InputError
from schirn.review.project import Project


class ReviewAudit:
    """The sample of a project and the answers so far.

    Parameters
    ----------
    project : Project
        The sample is drawn from the verdicts of `schirn clean`, whatever was learned since.
    size, seed : int
        Number of tags, and the seed of the sample.
    start : int
        Number of the record that started the audit.

    Attributes
    ----------
    tags : list of int
        Numbers of the tags, in the order of the questions.
    answers : dict
        True, False or None (cannot tell) for each tag that was answered.
    date : str
        Day of the last answer.
    """

    def __init__(self, project: Project, size: int, seed: int, start: int):
        self.project, self.size, self.start = project, size, start
        self._found = project.verdicts()
        self._cells = self._found.audit_sample(size, random_state=seed)
        if not len(self._cells):
            raise InputError("no tag was judged, so there is none to audit")
        self.sha256 = self._cells.sha256
        self._listed = np.flatnonzero(project.listed)
        self.tags: list[int] = self._listed[self._cells.index].tolist()
        self.answers: dict[int, bool | None] = {}
        self.date = ""
        self._members = frozenset(self.tags)
        # The page asks for the state every few seconds.
        self._audited = lru_cache(1)(self._compute)

    def __contains__(self, tag: object) -> bool:
        return tag in self._members

    @property
    def done(self) -> bool:
        """Whether all tags of the sample were answered."""
        return len(self.answers) == len(self.tags)

    def next(self) -> int | None:
        """Return the first tag without an answer."""
        return next((tag for tag in self.tags if tag not in self.answers), None)

    @property
    def certificate(self) -> Certificate | None:
        """What the complete sample certifies; None before that."""
        return self._now().certificate if self.done else None

    def kept(self) -> Array:
        """Return whether each tag of the project is kept by the audited verdicts."""
        kept = np.zeros(len(self.project.listed), dtype=bool)
        kept[self._listed] = ~self._now().removed
        return kept

    def view(self) -> dict[str, Any]:
        """Return what the page shows about the audit."""
        certificate: Any = self._now().certificate
        words = f"{len(self.answers)} of {len(self.tags)} checked"
        if certificate.n_answers:
            words += f"; at least {certificate.precision_at_least:.0%} of the removals are right"
        return {
            "size": len(self.tags),
            "answered": len(self.answers),
            "done": self.done,
            "at_least": certificate.precision_at_least if certificate.n_answers else None,
            "more_answers_needed": certificate.more_answers_needed,
            "words": words,
            "certificate": str(certificate) if self.done and certificate.n_answers else None,
        }

    def _now(self) -> NoisyLabels:
        return self._audited(tuple(self.answers.get(tag) for tag in self.tags), self.date)

    def _compute(self, right: tuple[bool | None, ...], date: str) -> NoisyLabels:
        precision = self.project.precision
        return self._found.audited(self._cells, right, precision=precision, date=date or None)

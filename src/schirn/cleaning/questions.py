"""Tags in the order in which they are worth a person's time, and which of them to ask about.

A `Worklist` ranks tags by the evidence of a ranker, and again by each answer. Of listed tags it
looks for wrong ones, of missing tags for correct ones; both are called hits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from schirn._input import Array
from schirn.cleaning._correction import corrected_normal_scores, describe_tags
from schirn.cleaning.posterior import RankPosterior, normal_scores

LISTED, MISSING = "listed", "missing"
SPREAD, LIMIT, SUSPICIOUS, CLOSE = ORDERS = ("spread", "limit", "suspicious", "close")
UNSURE = 0.5
"""Value of an answer "unsure"; "right" is 1, "wrong" 0, and NaN means that nobody has answered."""
LIKELY = 0.5
"""Probability from which on a tag looks right to the model."""
_FIRST_STEP = 25
# The second step asks down to somewhat beyond the largest limit that has this probability, which is
# at least this share of the ranking.
_PLAUSIBLE, _LEAST_LIMIT = 0.25, 0.03
# Answers that a limit needs above it: without them it is a guess about ranks nobody asked about.
_FEWEST_ABOVE = 5
# Missing tags are added if the target is reached with this probability: a wrong one is a new
# mistake, while a wrong removal takes one of several tags away.
_PROBABILITY_TO_ADD = 0.67


@dataclass(frozen=True, eq=False, repr=False)
class Questions:
    """Tags to ask a person about.

    Attributes
    ----------
    row, column : (k,) int arrays
    label : (k,) object array
        Name of each tag.
    confidence : (k,) float array
        Probability that the tag is correct.
    kind : {"listed", "missing"}
        Whether the tags are in the table, or might be missing from it.
    draw : int or None
        Number of the certificate's draw that asks; None for other questions.
    """

    row: Array
    column: Array
    label: Array
    confidence: Array
    kind: str = LISTED
    draw: int | None = None

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        return f"Questions({len(self)} {self.kind} tags)"

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield row, label and confidence of each tag."""
        columns = (self.row.tolist(), self.label.tolist(), self.confidence.tolist())
        for row, label, confidence in zip(*columns, strict=True):
            yield {"row": row, "label": label, "confidence": confidence}


def cells_of(tags: Any, index: Any = slice(None)) -> list[tuple[int, str]]:
    """Return row and name of all or some tags."""
    return list(zip(tags.row[index].tolist(), tags.label[index].tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Worklist:
    """Tags, the answers about some of them, and what these say about the others.

    Parameters
    ----------
    row, column : (m,) int arrays
    confidence : (m,) float array
        Probability that each tag is correct, by the ranker.
    usable : (m,) bool array
        Tags that were judged and are not known already.
    answer : (m,) float array
        1 for "right", 0 for "wrong", 0.5 for "unsure", NaN without an answer.
    hit : {0, 1}
        The answer that the ranking looks for: 0 for listed tags, 1 for missing ones.
    """

    row: Array
    column: Array
    confidence: Array
    usable: Array
    answer: Array
    hit: int

    @cached_property
    def answered(self) -> Array:
        """Usable tags answered "right" or "wrong"."""
        return np.flatnonzero(self.usable & ((self.answer == 0) | (self.answer == 1)))

    @cached_property
    def normal_score(self) -> Array:
        """Normal score of the rank of every usable tag, the likeliest hits lowest; 0 elsewhere."""
        usable = np.flatnonzero(self.usable)
        score = normal_scores(self.confidence[usable])
        if len(self.answered):
            column, index = self.column[usable], np.searchsorted(usable, self.answered)
            X = describe_tags(score, self.row[usable], column)
            score = corrected_normal_scores(X, column, index, self.answer[self.answered] == 1)
        out = np.zeros(len(self.row))
        out[usable] = -score if self.hit else score
        return out

    @cached_property
    def order(self) -> Array:
        """Usable tags that nobody was asked about, the likeliest hits first."""
        unasked = np.flatnonzero(self.usable & np.isnan(self.answer))
        return unasked[np.argsort(self.normal_score[unasked], kind="stable")]

    @cached_property
    def posterior(self) -> RankPosterior:
        """What the answers say about tags without one."""
        score, is_hit = self.normal_score, self.answer[self.answered] == self.hit
        return RankPosterior(score[self.answered], is_hit, score[self.order])

    @cached_property
    def probability(self) -> Array:
        """Probability that each tag is right: by the answers, or by the ranker without any."""
        p = np.array(self.confidence, dtype=np.float64)
        if len(self.answered):
            hit = self.posterior.hit_probability(self.normal_score[self.order])
            p[self.order] = hit if self.hit else 1 - hit
        is_told = np.isin(self.answer, (0, 1))
        return np.where(is_told, self.answer, p)

    def limit(self, target: float) -> int:
        """How many of `order` can be acted on at this precision, by the answers; 0 without any.

        A limit that is not below five answers is extrapolated, and does not count.
        """
        if not len(self.answered):
            return 0
        k = self.posterior.limit(target, _PROBABILITY_TO_ADD if self.hit else None)
        score = self.normal_score
        n_above = int((score[self.answered] <= score[self.order[k - 1]]).sum()) if k else 0
        return k if n_above >= _FEWEST_ABOVE else 0

    def draw(self, n: int, order: str | None, target: float, rng: np.random.Generator) -> Array:
        """Choose tags to ask about; see `NoisyLabels.questions`."""
        size = len(self.order)
        if order is None:
            # Someone who is unsure about a tag has been asked about it all the same.
            n_asked = int((self.usable & ~np.isnan(self.answer)).sum())
            order = LIMIT if n_asked >= min(n, _FIRST_STEP) else SPREAD
        high = size
        if order == LIMIT and len(self.answered):
            k = max(self.posterior.limit(target, _PLAUSIBLE), int(_LEAST_LIMIT * size))
            high = min(max(k + k // 2, n), size)
        elif order == SUSPICIOUS:
            high = min(n, size)
        elif order == CLOSE:
            close = np.argsort(np.abs(self.probability[self.order] - 0.5), kind="stable")
            return np.asarray(self.order[np.sort(close[:n])])
        n = min(n, high)
        # One tag from each of n equal parts, which are at least one tag wide.
        position = (np.arange(n) + rng.random(n)) * high / max(n, 1)
        position = np.unique(np.minimum(position.astype(int), size - 1))
        spare = np.setdiff1d(np.arange(high), position)
        extra = rng.choice(spare, n - len(position), replace=False)
        return np.asarray(self.order[np.sort(np.r_[position, extra].astype(int))])

"""Tags ranked for people to check, and the choice of tags to ask about.

A `Worklist` ranks tags by the ranker's evidence, and again after every answer. Among listed tags it
looks for wrong ones, among missing tags for correct ones; both are called hits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from schirn._input import Array
from schirn._optional import optional
from schirn.cleaning._correction import corrected_normal_scores, describe_tags
from schirn.cleaning._departed import Departed
from schirn.cleaning._opinions import agrees_with_answers, weight_without_answers
from schirn.cleaning._rounds import (
    SPREAD_EVERY,
    Answers,
    Round,
    even_positions,
    mixed,
    round_name,
)
from schirn.cleaning.posterior import RankPosterior, normal_scores
from schirn.exceptions import InputError

LISTED = "listed"
MISSING = "missing"
SPREAD = "spread"
LIMIT = "limit"
SUSPICIOUS = "suspicious"
CLOSE = "close"
SWAPS = "swaps"
ORDERS = (SPREAD, LIMIT, SUSPICIOUS, CLOSE, SWAPS)
UNSURE = 0.5
"""Value of the answer "unsure"; "right" is 1, "wrong" is 0, and no answer is NaN."""
LIKELY = 0.5
"""Minimum probability of a tag that looks right to the model."""
FIRST_STEP = 25
"""Number of questions in the first step, which are spread over all ranks."""
# Without answers, the second step asks about this share of the ranking, the most suspicious tags.
_SUSPICIOUS_SHARE = 0.1
# The second step asks somewhat beyond the largest limit that has this probability, and at least
# about this share of the ranking.
_PLAUSIBLE = 0.25
_LEAST_LIMIT = 0.03
# Minimum number of answers above a limit: with fewer, the limit is extrapolated.
_FEWEST_ABOVE = 8
# Missing tags are added if the target is reached with this probability: a wrong addition is a new
# mistake, while a wrong removal only loses one of several tags.
_PROBABILITY_TO_ADD = 0.67
# Words per kind of question: the tags looked for, the action, and where to look.
_REASON_WORDS = {
    LISTED: ("wrong", "removed", "most suspicious tags"),
    MISSING: ("right", "added", "likeliest missing tags"),
}


@dataclass(frozen=True, eq=False, repr=False)
class Questions:
    """Tags to ask a person about.

    Attributes
    ----------
    row, column : (k,) int arrays
        Row and label of each tag.
    label : (k,) object array
        Name of each tag.
    confidence : (k,) float array
        Probability that the tag is correct.
    kind : {"listed", "missing"}
        Whether the tags are in the table, or might be missing from it.
    draw : int or None
        Number of the certificate's draw; None for questions of a ranking.
    round : Round
        The round that asks, and how it chose the tags.
    inclusion : (k,) float array or None
        Probability that the round asks about each tag; None if no tag was drawn at random.
    """

    row: Array
    column: Array
    label: Array
    confidence: Array
    kind: str = LISTED
    draw: int | None = None
    round: Round = field(default_factory=lambda: Round(1))
    inclusion: Array | None = None

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        return f"Questions({len(self)} {self.kind} tags)"

    @property
    def reason(self) -> str:
        """Reason for asking about these tags, in words; "" if none was drawn at random."""
        n_spread = self.round.n_spread
        if not n_spread or not len(self):
            return ""
        wrong, removed, suspicious = _REASON_WORDS[self.kind]
        n_others = len(self) - n_spread
        spread = f"{n_spread:,} of the {len(self):,} questions are"
        if not n_others:
            spread = "the questions are"
        spread += f" spread over all tags, to measure the share of {wrong} ones"
        if not n_others:
            return spread
        if not self.round.n_even:
            return f"{spread}; the others were chosen"
        return (
            f"{spread}; {n_others:,} are about the {suspicious}, to find how many can be {removed}"
        )

    def part(self, mask: Any) -> "Questions":
        """Return some of the questions; they keep their round.

        Parameters
        ----------
        mask : (k,) bool array, or sequence of int
            Mask or positions of the questions.

        Returns
        -------
        Questions
        """
        mask = np.asarray(mask, dtype=None if len(mask) else int)
        inclusion = None if self.inclusion is None else self.inclusion[mask]
        return replace(
            self,
            row=self.row[mask],
            column=self.column[mask],
            label=self.label[mask],
            confidence=self.confidence[mask],
            inclusion=inclusion,
        )

    def joined(self, others: "Questions") -> "Questions":
        """Return these questions together with others, in the round of the others.

        Parameters
        ----------
        others : Questions
            Questions about tags of the same kind.

        Returns
        -------
        Questions
        """
        return replace(
            others,
            row=np.concatenate([self.row, others.row]),
            column=np.concatenate([self.column, others.column]),
            label=np.concatenate([self.label, others.label]),
            confidence=np.concatenate([self.confidence, others.confidence]),
            kind=self.kind,
            inclusion=np.concatenate([checked_inclusion(self), checked_inclusion(others)]),
        )

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the row, label and confidence of each tag.

        Yields
        ------
        dict
            With the keys "row", "label" and "confidence".
        """
        confidences = self.confidence.tolist()
        for (row, label), confidence in zip(cells_of(self), confidences, strict=True):
            yield {"row": row, "label": label, "confidence": confidence}

    def to_pandas(self) -> Any:
        """Return a DataFrame with the columns row, label and confidence.

        Returns
        -------
        pandas.DataFrame
        """
        return frame_of(self)


def checked_inclusion(questions: Questions) -> Array:
    """Return the probability that the round asks about each tag; 1 if none was drawn at random.

    Parameters
    ----------
    questions : Questions
        Questions of one round.

    Returns
    -------
    (k,) float array

    Raises
    ------
    InputError
        If a value is not a probability above 0: the answer would count for any number of tags.
    """
    if questions.inclusion is None:
        return np.ones(len(questions))
    inclusion = np.asarray(questions.inclusion, dtype=np.float64)
    is_probability = (inclusion > 0) & (inclusion <= 1)
    if not is_probability.all():
        k = int(is_probability.argmin())
        raise InputError(
            f"question {k} has the inclusion probability {inclusion[k]:g}, which must be above 0 "
            f"and at most 1; pass the questions as they were asked",
            parameter="questions",
        )
    return inclusion


def frame_of(tags: Any) -> Any:
    """Return the row, label and confidence of tags as a DataFrame."""
    pandas = optional("pandas", "table", "Making a table")
    names = ("row", "label", "confidence")
    return pandas.DataFrame({name: getattr(tags, name) for name in names})


def cells_of(tags: Any, index: Any = slice(None)) -> list[tuple[int, str]]:
    """Return the row and name of all or some tags."""
    return list(zip(tags.row[index].tolist(), tags.label[index].tolist(), strict=True))


class Draw(NamedTuple):
    """Tags to ask about.

    Attributes
    ----------
    tags : (k,) int array
        Positions of the tags.
    inclusion : (k,) float array
        Probability that the round asks about each tag; 1 for chosen tags.
    round : Round
        The round that asks.
    """

    tags: Array
    inclusion: Array
    round: Round


@dataclass(frozen=True, eq=False)
class Worklist:
    """Tags, the answers about some of them, and estimates for the others.

    Parameters
    ----------
    row, column : (m,) int arrays
        Row and label of each tag.
    confidence : (m,) float array
        Probability that each tag is correct, according to the ranker.
    usable : (m,) bool array
        Tags that may be asked about: judged, and not decided otherwise.
    answers : Answers
        The answers so far.
    hit : {0, 1}
        The answer that the ranking looks for: 0 for listed tags, 1 for missing ones.
    voices : (m, v) float array, optional
        Standardised log-odds of each voice (source of opinions); 0 without an opinion.
    departed : Departed, optional
        Tags that have left the table. Ranks, curve and limits are those of all tags together.
    """

    row: Array
    column: Array
    confidence: Array
    usable: Array
    answers: Answers
    hit: int
    voices: Array | None = None
    departed: Departed | None = None

    @cached_property
    def whole(self) -> "Worklist":
        """These tags, followed by those that have left the table."""
        departed = self.departed
        if departed is None or not len(departed):
            return self
        size = len(self.row)
        answers = self.answers.placed(np.arange(size), size + len(departed))
        answers.value[size:] = departed.answer
        voices = self.voices
        if voices is not None:
            voices = np.concatenate([voices, np.zeros((len(departed), voices.shape[1]))])
        return Worklist(
            np.r_[self.row, departed.row],
            np.r_[self.column, departed.column],
            np.r_[self.confidence, departed.confidence],
            np.r_[self.usable, departed.judged],
            answers,
            self.hit,
            voices,
        )

    @property
    def answer(self) -> Array:
        """1 for "right", 0 for "wrong", 0.5 for "unsure", NaN without an answer."""
        return self.answers.value

    @cached_property
    def answered(self) -> Array:
        """Usable tags answered "right" or "wrong"."""
        return np.flatnonzero(self.usable & ((self.answer == 0) | (self.answer == 1)))

    @cached_property
    def normal_score(self) -> Array:
        """Normal score of the rank of each usable tag, lowest for likely hits; 0 for the others."""
        if self.whole is not self:
            return self.whole.normal_score[: len(self.row)]
        usable = np.flatnonzero(self.usable)
        score = normal_scores(self.confidence[usable])
        voices = None if self.voices is None else self.voices[usable]
        weights = self.voice_weights
        if len(self.answered):
            column = self.column[usable]
            index = np.searchsorted(usable, self.answered)
            right = self.answer[self.answered] == 1
            if voices is not None:
                voices = voices[:, self.heard_voices]
                weights = weights[self.heard_voices]
            X = describe_tags(score, self.row[usable], column, voices)
            score = corrected_normal_scores(X, column, index, right, weights)
        elif voices is not None:
            score = normal_scores(score + voices @ weights)
        scores = np.zeros(len(self.row))
        scores[usable] = -score if self.hit else score
        return scores

    @cached_property
    def voice_weights(self) -> Array:
        """Weight of each voice before any answers; see `_opinions`."""
        if self.whole is not self:
            return self.whole.voice_weights
        if self.voices is None:
            return np.zeros(0)
        score = normal_scores(self.confidence[self.usable])
        column = self.column[self.usable]
        voices = self.voices[self.usable].T
        return np.array([weight_without_answers(voice, score, column) for voice in voices])

    @cached_property
    def heard_voices(self) -> Array:
        """Mask of voices that agree with the ranking or the answers more than by chance."""
        if self.whole is not self:
            return self.whole.heard_voices
        heard = np.asarray(self.voice_weights > 0)
        if self.voices is None or not len(self.answered):
            return heard
        right = self.answer[self.answered] == 1
        return heard | agrees_with_answers(self.voices[self.answered], right)

    @cached_property
    def order(self) -> Array:
        """Usable tags without an answer, the likeliest hits first."""
        unasked = np.flatnonzero(self.usable & np.isnan(self.answer))
        return unasked[np.argsort(self.normal_score[unasked], kind="stable")]

    @cached_property
    def posterior(self) -> RankPosterior:
        """Posterior of the tags without an answer, given the answers."""
        if self.whole is not self:
            return self.whole.posterior
        score = self.normal_score
        is_hit = self.answer[self.answered] == self.hit
        return RankPosterior(score[self.answered], is_hit, score[self.order])

    @cached_property
    def probability(self) -> Array:
        """Probability that each tag is right, from the answers or, without any, the ranker."""
        p = np.array(self.confidence, dtype=np.float64)
        if len(self.whole.answered):
            hit = self.posterior.hit_probability(self.normal_score[self.order])
            p[self.order] = hit if self.hit else 1 - hit
        elif self.voices is not None:
            # The same probabilities, reordered by ranker and opinions together.
            p[self.order] = np.sort(p[self.order])[:: -1 if self.hit else 1]
        has_verdict = np.isin(self.answer, (0, 1))
        return np.where(has_verdict, self.answer, p)

    def limit(self, target: float) -> int:
        """Return how many tags of `order` the answers allow changing at this precision.

        0 without answers. A limit with fewer than eight answers above it is extrapolated, and does
        not count. Tags that have left the table count in the precision.
        """
        if self.whole is not self:
            return self._n_of_these(self.whole.limit(target))
        if not len(self.answered):
            return 0
        k = self.posterior.limit(target, _PROBABILITY_TO_ADD if self.hit else None)
        score = self.normal_score
        n_above = int((score[self.answered] <= score[self.order[k - 1]]).sum()) if k else 0
        return k if n_above >= _FEWEST_ABOVE else 0

    def _n_of_these(self, n: int) -> int:
        """Return how many of the first n tags of the whole order are in the table."""
        return int(np.count_nonzero(self.whole.order[:n] < len(self.row)))

    def draw(
        self,
        n: int,
        order: str | None,
        target: float,
        rng: np.random.Generator,
        chosen: Array | None = None,
    ) -> Draw:
        """Choose tags to ask about; see `NoisyLabels.questions`.

        Parameters
        ----------
        n : int
            Number of tags.
        order : str or None
            Strategy of `NoisyLabels.questions`.
        target : float
            Target precision of the changes.
        rng : Generator
            Source of randomness.
        chosen : int array, optional
            Tags without an answer to ask about, best first, instead of a strategy.

        Returns
        -------
        Draw
        """
        size = len(self.order)
        n = min(n, size)
        # Tags answered "unsure" count as asked.
        n_asked = int((self.whole.usable & ~np.isnan(self.whole.answer)).sum())
        is_first = order is None and chosen is None and n_asked < min(n, FIRST_STEP)
        if order is None:
            order = SPREAD if is_first and n <= FIRST_STEP else LIMIT
        if chosen is None and order in (SUSPICIOUS, CLOSE):
            chosen = self.order if order == SUSPICIOUS else self._closest()
        if n == size:
            return self._everything()
        n_spread = n // SPREAD_EVERY
        if chosen is None and order == SPREAD:
            n_spread = n
        elif is_first:
            n_spread = max(n // 2, min(n, FIRST_STEP))
        spread = self.order[even_positions(n_spread, size, rng)]
        if chosen is not None:
            chosen = chosen[~np.isin(chosen, spread)][: n - n_spread]
            return self._chosen(chosen, rng.permutation(spread))
        high = self._ranks_to_ask(n, target)
        pool = self.order[:high]
        pool = pool[~np.isin(pool, spread)]
        even = pool[even_positions(n - n_spread, len(pool), rng)]
        index = rng.permutation(np.r_[spread, even])
        cells = self._cells(index)
        number = self.answers.next_number
        design = Round(number, round_name(cells), n_spread, size, len(even), high)
        inclusion = design.inclusion(np.isin(index, self.order[:high]))
        return Draw(index, inclusion, design)

    def _everything(self) -> Draw:
        """Return a round with all tags without an answer, the likeliest hits first."""
        size = len(self.order)
        name = round_name(self._cells(self.order))
        return Draw(self.order, np.ones(size), Round(self.answers.next_number, name, size, size))

    def _chosen(self, chosen: Array, spread: Array) -> Draw:
        """Return a round of chosen tags mixed with a spot check."""
        index = mixed(chosen, spread)
        number = self.answers.next_number
        size = len(self.order)
        design = Round(number, round_name(self._cells(index)), len(spread), size)
        inclusion = design.inclusion(np.zeros(len(index), dtype=bool))
        inclusion[np.isin(index, chosen)] = 1
        return Draw(index, inclusion, design)

    def _ranks_to_ask(self, n: int, target: float) -> int:
        """Return the number of top ranks to which the second step is limited."""
        size = len(self.order)
        if not len(self.whole.answered):
            return min(max(int(_SUSPICIOUS_SHARE * size), n), size)
        k = self._n_of_these(self.posterior.limit(target, _PLAUSIBLE))
        k = max(k, int(_LEAST_LIMIT * size))
        return min(max(k + k // 2, n), size)

    def _closest(self) -> Array:
        """Return the tags without an answer, the most uncertain first."""
        distance = np.abs(self.probability[self.order] - 0.5)
        return np.asarray(self.order[np.argsort(distance, kind="stable")])

    def _cells(self, index: Array) -> list[tuple[int, int]]:
        return list(zip(self.row[index].tolist(), self.column[index].tolist(), strict=True))

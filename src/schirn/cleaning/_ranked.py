"""Results of a ranker before any answers: listed tags, and tags that may be missing."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from schirn._input import Array
from schirn.cleaning._departed import Departed
from schirn.cleaning._opinions import Opinions, standardised
from schirn.cleaning._rounds import Answers
from schirn.cleaning._share import Interval, forecast_of_hits, is_vague, number_of_hits
from schirn.cleaning._storage import Storage
from schirn.cleaning.questions import LIKELY, UNSURE, Worklist, frame_of
from schirn.cleaning.ranker import Annotator

# Planted tags are counted among this share of the most suspicious tags.
SUSPICIOUS_SHARE = 0.1


def voices_of(tags: "RankedTags | MissingTags", n_labels: int) -> Array | None:
    """Return the standardised log-odds (m, v) of each voice; None without opinions."""
    if not tags.opinions:
        return None
    cells = tags.row.astype(np.int64) * n_labels + tags.column
    return np.column_stack([standardised(opinion.of(cells)) for opinion in tags.opinions])


def _no_rows() -> Array:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class RankedTags:
    """Listed tags with a ranker's estimates, as parallel arrays sorted by row.

    Attributes
    ----------
    n_rows : int
        Number of rows of the table.
    label_names : list of str
        Name of each label.
    row, column : (m,) int arrays
        Row and label of each tag.
    model_confidence : (m,) float array
        Probability that each tag is correct, according to the ranker.
    judged : (m,) bool array
        False for tags that are too rare to judge.
    method : str
        Name of the method that ranked the tags.
    known : (m,) int array
        1 for tags known to be right, -1 for tags known to be wrong, 0 for the others.
    planted_confidence : (k,) float array
        Confidence of tags planted where they do not belong.
    annotators : list of Annotator or None
        Quality of each annotator, if votes were given.
    storage : Storage or None
        Where features and intermediate results were stored.
    index : pandas.Index or None
        Index of the rows, if the tags came as a pandas object.
    opinions : tuple of Opinions
        Opinions about some cells, one element per voice.
    departed : Departed or None
        Tags that have left the table since they were removed, if any are known.
    """

    n_rows: int
    label_names: list[str]
    row: Array
    column: Array
    model_confidence: Array
    judged: Array
    method: str
    known: Array
    planted_confidence: Array = field(default_factory=lambda: np.zeros(0))
    annotators: list[Annotator] | None = None
    storage: Storage | None = None
    index: Any = None
    opinions: tuple[Opinions, ...] = ()
    departed: Departed | None = None

    @property
    def label(self) -> Array:
        """Name of each tag."""
        return np.array(self.label_names, dtype=object)[self.column]

    @property
    def voices(self) -> Array | None:
        """Standardised log-odds (m, v) of each voice (source of opinions); None without any."""
        return voices_of(self, len(self.label_names))

    @property
    def usable(self) -> Array:
        """Mask of the tags to ask about: judged, and not known to be right or wrong."""
        return np.asarray(self.judged & (self.known == 0))

    def planted_among_suspects(self) -> float:
        """Return the share of planted wrong tags that rank among the 10% most suspicious tags.

        Returns
        -------
        float
            NaN if no wrong tags were planted.
        """
        confidences = np.sort(self.model_confidence[self.usable])
        if not len(self.planted_confidence) or not len(confidences):
            return np.nan
        limit = confidences[max(int(SUSPICIOUS_SHARE * len(confidences)) - 1, 0)]
        return float((self.planted_confidence <= limit).mean())


@dataclass(frozen=True, eq=False)
class MissingTags:
    """Tags that are not listed, ranked by how likely they are to be correct.

    Attributes
    ----------
    row, column : (k,) int arrays
        Row and label of each tag, sorted by row.
    label : (k,) object array
        Name of each tag.
    confidence : (k,) float array
        Probability that the tag is correct, from the answers or, without any, the ranker.
    model_confidence : (k,) float array
        Probability that the tag is correct, according to the ranker.
    label_names : list of str
        Name of each label.
    answers : Answers or None
        People's answers; None before the first answer.
    excluded : int array or None
        Columns of labels that a rule excludes from suggestions.
    opinions : tuple of Opinions
        Second opinions about the tags; see `NoisyLabels.with_opinions`.
    right_share : float
        Share of correct tags, estimated from the answers; NaN if they do not allow an estimate.
    right_share_interval : tuple of two floats
        90% interval of this share.
    """

    row: Array = field(default_factory=_no_rows)
    column: Array = field(default_factory=_no_rows)
    model_confidence: Array = field(default_factory=lambda: np.zeros(0))
    label_names: list[str] = field(default_factory=list)
    answers: Answers | None = None
    excluded: Array | None = None
    opinions: tuple[Opinions, ...] = ()

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        return f"MissingTags({len(self)} ranked)"

    @property
    def label(self) -> Array:
        """Name of each tag."""
        return np.array(self.label_names, dtype=object)[self.column]

    @cached_property
    def worklist(self) -> Worklist:
        """The tags, most likely missing first, and the answers about them."""
        answers = Answers.none(len(self)) if self.answers is None else self.answers
        usable = np.ones(len(self), dtype=bool)
        if self.excluded is not None:
            usable = ~np.isin(self.column, self.excluded)
        return Worklist(
            row=self.row,
            column=self.column,
            confidence=self.model_confidence,
            usable=usable,
            answers=answers,
            hit=1,
            voices=voices_of(self, len(self.label_names)),
        )

    @property
    def answer(self) -> Array:
        """1 for "right", 0 for "wrong", 0.5 for "unsure", NaN without an answer."""
        return self.worklist.answer

    @property
    def confidence(self) -> Array:
        """Probability that each tag is correct."""
        return self.worklist.probability

    @cached_property
    def _number_right(self) -> Interval:
        return number_of_hits(self.worklist)

    @property
    def right_share(self) -> float:
        """Estimated share of correct tags; NaN if the answers do not allow an estimate."""
        return self._number_right.mean / max(int(self.worklist.usable.sum()), 1)

    @property
    def right_share_interval(self) -> tuple[float, float]:
        """90% interval of `right_share`; every possible share if there are no answers."""
        total = max(int(self.worklist.usable.sum()), 1)
        return self._number_right.low / total, self._number_right.high / total

    @property
    def sentence(self) -> str:
        """Sentence about the number of correct tags among these; "" if too little is known."""
        n_answers = len(self.worklist.answered)
        if not n_answers or np.isnan(self.right_share):
            return ""
        low, high = self.right_share_interval
        if is_vague(n_answers, (low, high)):
            return ""
        answers = "1 answer" if n_answers == 1 else f"{n_answers:,} answers"
        return (
            f"Based on {answers}, about {self.right_share:.0%} of the "
            f"{int(self.worklist.usable.sum()):,} tags ranked as missing are right "
            f"(90% interval: {low:.0%} to {high:.0%})."
        )

    def to_pandas(self) -> Any:
        """Return a DataFrame with the columns row, label and confidence.

        Returns
        -------
        pandas.DataFrame
        """
        return frame_of(self)

    def expected_right(self, k: int) -> float:
        """Return the expected number of correct tags among the next k.

        Parameters
        ----------
        k : int
            Number of tags.

        Returns
        -------
        float
            NaN if there are too few answers about such tags, or if they contradict the forecast.
        """
        return forecast_of_hits(self.worklist, k)

    def above(self, confidence: float = LIKELY) -> "MissingTags":
        """Return the tags with at least this confidence.

        Parameters
        ----------
        confidence : float, default=0.5
            Minimum probability that a tag is correct.

        Returns
        -------
        MissingTags
        """
        likely = np.flatnonzero(self.worklist.usable & (self.confidence >= confidence))
        p = self.confidence[likely]
        return MissingTags(self.row[likely], self.column[likely], p, self.label_names)

    def joined(self, cells: Iterable[tuple[int, int]], label_names: list[str]) -> "MissingTags":
        """Return these tags and others, about which the ranker says nothing.

        Parameters
        ----------
        cells : iterable of (row, column)
            Tags to add.
        label_names : list of str
            Names of all labels, the present ones first.

        Returns
        -------
        MissingTags
        """
        new = np.array(list(cells), dtype=np.int64).reshape(-1, 2)
        row = np.r_[self.row, new[:, 0]]
        column = np.r_[self.column, new[:, 1]]
        p = np.r_[self.model_confidence, np.full(len(new), UNSURE)]
        order = np.lexsort((column, row))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        answers = self.worklist.answers.placed(place[: len(self)], len(order))
        longer = MissingTags(row[order], column[order], p[order], label_names, answers)
        opinions = tuple(
            opinion.widened(len(self.label_names), len(label_names)) for opinion in self.opinions
        )
        return replace(longer, excluded=self.excluded, opinions=opinions)

"""The result of `find_noisy_labels`: tags ranked by suspicion, and the answers about them.

Rank, ask, act: nothing is removed and nothing is claimed until a person answers some questions, or
requests removals with `remove`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._entry_points import tool
from schirn._files import brief
from schirn._input import Array, Number, OneOf, as_plain, suggest
from schirn._optional import optional
from schirn.cleaning._arguments import check_same_order
from schirn.cleaning._departed import Departed
from schirn.cleaning._draws import DrawLedger
from schirn.cleaning._opinions import Voice, agreement, read_opinions
from schirn.cleaning._ranked import MissingTags, RankedTags
from schirn.cleaning._rounds import Answers, Round, Sample
from schirn.cleaning._share import Interval, forecast_of_hits, is_vague, number_of_hits
from schirn.cleaning._storage import Storage
from schirn.cleaning._trade_off import TARGETS, TradeOff, first_target, trade_offs
from schirn.cleaning.certificate import (
    KINDS,
    MAX_DRAW,
    REMOVED,
    SUSPECTS,
    Certificate,
    as_answers,
    begin,
)
from schirn.cleaning.changes import ChangeList, apply_changes, changes_of
from schirn.cleaning.policy import DROP, KEEP, Policy
from schirn.cleaning.questions import (
    LISTED,
    MISSING,
    ORDERS,
    SWAPS,
    UNSURE,
    Questions,
    Worklist,
    checked_inclusion,
)
from schirn.cleaning.ranker import Annotator
from schirn.cleaning.swaps import Swaps, best_pairs, confusion, pair_by_row
from schirn.cleaning.why import Reasons
from schirn.exceptions import InputError

NOT_CHECKED = "not checked"
WAYS_ON = "answer more, decide frequent tags by rule, or learn from more columns"
"""What helps if the answers allow no removals, whatever the target."""


def _check_choice(k: int | None, limit: float | None, name: str) -> None:
    """Raise InputError unless exactly one of a number of tags and a confidence limit is given."""
    Number(0, integer=True, none=True).check("k", k)
    Number(0, high=1, none=True).check(name, limit)
    if (k is None) == (limit is None):
        raise InputError(f"give either a number of tags or {name}", parameter="k")


@dataclass(frozen=True, eq=False, repr=False)
class NoisyLabels:
    """All tags of a table, ranked by suspicion, as parallel arrays sorted by row.

    The ranker's results are in `ranked` and `missing`, people's answers in `answers`, and their
    other decisions in `policy`.

    Attributes
    ----------
    ranked : RankedTags
        The listed tags with the ranker's estimates.
    answers : Answers
        People's answers about the listed tags.
    policy : Policy
        Target precision, limits, rules, and requested removals and additions.
    n_rows : int
        Number of rows of the table.
    label_names : list of str
        Name of each label.
    row, column : (m,) int arrays
        Row and label of each tag.
    label, verdict : (m,) object arrays
        Name of the label; "kept", "removed" or "unjudged".
    confidence : (m,) float array
        Probability that each tag is correct; lower means more suspicious. Without answers it is
        the ranker's unchecked estimate, otherwise it is estimated from the answers.
    answer : (m,) float array
        1 for tags answered "right", 0 for "wrong", 0.5 for "unsure", NaN without an answer.
    removed : (m,) bool array
        Tags that were answered "wrong" or are known to be wrong, and as many of the most
        suspicious tags as the answers allow at the target precision, or those requested with
        `remove`.
    added : (k,) bool array
        Tags of `missing` to add, chosen in the same way.
    judged : (m,) bool array
        False for tags that are too rare to judge, and in rows without features, such as texts
        without any known word.
    missing : MissingTags
        Tags that are not listed, ranked.
    wrong_share : float
        Share of wrong tags, estimated from the answers, among the judged tags that no rule
        decides, listed or departed; NaN if the answers do not allow an estimate.
    wrong_share_interval : tuple of two floats
        90% interval of this share. It depends only on how the questions were drawn, not on a model
        of the ranking. Without answers it is (0, 1): a wrong tag may look like a right one, so
        features give no upper bound. Tags known to be right or wrong narrow it.
    n_answers : int
        Number of listed and departed tags that were answered "right" or "wrong".
    method : str
        Name of the method that ranked the tags.
    precision : float
        Target precision of removals and additions.
    keep_one : bool
        True if a row keeps its likeliest tag unless a person called it wrong.
    rules : dict from label name to {"keep", "drop"}
        Labels whose tags are all kept or all removed.
    annotators : list of Annotator or None
        Quality of every annotator, if `Votes` were given.
    is_checked : bool
        True if removals and additions follow from answers, not from `remove` or `add`.
    storage : Storage or None
        Where the features and intermediate results were stored, and why.
    departed : Departed
        Tags that have left the table since they were removed. They count in ranks, limits and the
        share of wrong tags, but nobody is asked about them, and no change is listed.
    index : pandas.Index or None
        Index of the rows, if the tags came as a pandas object.
    draws : int
        Number of draws for certificates whose answers are among these.
    ledger : DrawLedger
        Draws of all certificates that have answers, shared by all rankings made from one call of
        `find_noisy_labels`: `Certificate.answered` changes it.
    """

    ranked: RankedTags
    answers: Answers
    missing: MissingTags = field(default_factory=MissingTags)
    policy: Policy = field(default_factory=Policy)
    ledger: DrawLedger = field(default_factory=DrawLedger)

    @classmethod
    def from_arrays(
        cls,
        n_rows: int,
        label_names: list[str],
        row: Array,
        column: Array,
        confidence: Array,
        judged: Array,
        method: str,
        *,
        known: Array | None = None,
        missing: MissingTags | None = None,
        precision: float | None = None,
        keep_one: bool | None = None,
    ) -> "NoisyLabels":
        """Build a ranking without answers.

        Parameters
        ----------
        n_rows : int
            Number of rows of the table.
        label_names : list of str
            Name of each label.
        row, column : (m,) int arrays
            Row and label of each tag, sorted by row.
        confidence : (m,) float array
            Probability that each tag is correct.
        judged : (m,) bool array
            Tags to ask about; the others are kept.
        method : str
            Name of the method that ranked the tags.
        known : (m,) int array, optional
            1 for tags known to be right, -1 for tags known to be wrong, 0 for the others.
        missing : MissingTags, optional
            Ranked tags that are not listed; none by default.
        precision, keep_one : float and bool, optional
            As in `find_noisy_labels`.

        Returns
        -------
        NoisyLabels
        """
        known = np.zeros(len(row), dtype=np.int8) if known is None else known
        ranked = RankedTags(n_rows, label_names, row, column, confidence, judged, method, known)
        missing = MissingTags(label_names=label_names) if missing is None else missing
        policy = Policy().at(precision, keep_one)
        return cls(ranked, Answers.none(len(row)), missing, policy)

    def __repr__(self) -> str:
        unchecked = "" if self.is_checked else f", {NOT_CHECKED}"
        return (
            f"NoisyLabels({self.n_rows} rows, {len(self.label_names)} labels, "
            f"{len(self.row)} tags, {self.n_answers} answers, {int(self.removed.sum())} removed"
            f"{unchecked})"
        )

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.ranked.n_rows

    @property
    def label_names(self) -> list[str]:
        """Name of each label."""
        return self.ranked.label_names

    @property
    def row(self) -> Array:
        """Row of each tag."""
        return self.ranked.row

    @property
    def column(self) -> Array:
        """Label of each tag."""
        return self.ranked.column

    @property
    def label(self) -> Array:
        """Label name of each tag."""
        return self.ranked.label

    @property
    def model_confidence(self) -> Array:
        """Probability that each tag is correct, according to the ranker."""
        return self.ranked.model_confidence

    @property
    def judged(self) -> Array:
        """Mask of the tags that are not too rare to judge."""
        return self.ranked.judged

    @property
    def known(self) -> Array:
        """1 for tags known to be right, -1 for tags known to be wrong, 0 for the others."""
        return self.ranked.known

    @property
    def method(self) -> str:
        """Name of the method that ranked the tags."""
        return self.ranked.method

    @property
    def annotators(self) -> list[Annotator] | None:
        """Quality of every annotator, if votes were given."""
        return self.ranked.annotators

    @property
    def storage(self) -> Storage | None:
        """Where features and intermediate results were stored."""
        return self.ranked.storage

    @property
    def departed(self) -> Departed:
        """Tags that have left the table since they were removed; they count as evidence."""
        return Departed() if self.ranked.departed is None else self.ranked.departed

    @property
    def index(self) -> Any:
        """Index of the rows, if the tags came as a pandas object."""
        return self.ranked.index

    @property
    def answer(self) -> Array:
        """1 for "right", 0 for "wrong", 0.5 for "unsure", NaN without an answer."""
        return self.answers.value

    @property
    def precision(self) -> float:
        """Target precision of removals and additions."""
        return self.policy.precision

    @property
    def keep_one(self) -> bool:
        """True if a row keeps its likeliest tag unless a person called it wrong."""
        return self.policy.keep_one

    @property
    def rules(self) -> dict[str, str]:
        """Labels whose tags are all kept or all removed."""
        return dict(self.policy.rules)

    @property
    def draws(self) -> int:
        """Number of draws for certificates whose answers are among these."""
        return self.ledger.n_earlier

    @property
    def is_checked(self) -> bool:
        """True if removals and additions follow from answers."""
        return self.policy.is_checked

    @property
    def verdict(self) -> Array:
        """Verdict on each tag: "kept", "removed" or "unjudged"."""
        names = np.where(self.removed, "removed", np.where(self.judged, "kept", "unjudged"))
        return names.astype(object)

    @cached_property
    def worklist(self) -> Worklist:
        """The judged tags, most suspicious first, and the answers about them."""
        usable = self.ranked.usable & (self._by_rule == 0)
        return Worklist(
            row=self.row,
            column=self.column,
            confidence=self.model_confidence,
            usable=usable,
            answers=self.answers,
            hit=0,
            voices=self.ranked.voices,
            departed=replace(self.departed, judged=self._departed_in_share),
        )

    @property
    def _departed_in_share(self) -> Array:
        """Mask of the judged tags that have left the table and that no rule decides."""
        ruled = [self.policy.columns(rule, self.label_names) for rule in (KEEP, DROP)]
        return self.departed.judged & ~np.isin(self.departed.column, np.concatenate(ruled))

    @cached_property
    def _by_rule(self) -> Array:
        """1 for tags that a rule keeps, -1 for tags that a rule drops, 0 for the others."""
        verdict = np.zeros(len(self.row), dtype=np.int8)
        for rule, value in ((KEEP, 1), (DROP, -1)):
            columns = self.policy.columns(rule, self.label_names)
            verdict[np.isin(self.column, columns)] = value
        return verdict

    @cached_property
    def _called_wrong(self) -> Array:
        """Mask of the tags called wrong: by an answer, by `known`, or else by a rule."""
        is_open = np.isnan(self.answer)
        dropped = is_open & (self._by_rule < 0) & (self.known <= 0)
        return np.asarray((self.answer == 0) | (self.known < 0) | dropped)

    @cached_property
    def confidence(self) -> Array:
        """Probability that each tag is correct; lower means more suspicious."""
        return np.where(self.known == 0, self.worklist.probability, self.known > 0)

    @property
    def n_answers(self) -> int:
        """Number of listed and departed tags that were answered "right" or "wrong"."""
        return int(np.isin(self.answer, (0, 1)).sum()) + self.departed.n_answers

    def suspects(self, k: int = 20) -> Questions:
        """Return the k most suspicious tags without an answer, the most suspicious first.

        Parameters
        ----------
        k : int, default=20
            Number of tags.

        Returns
        -------
        Questions
        """
        Number(0, integer=True).check("k", k)
        return self._questions(self.worklist.order[:k], LISTED)

    def swaps(self, k: int | None = None) -> Swaps:
        """Return listed tags that look wrong, each with a missing tag to list instead.

        Both tags belong to one row. The listed tag is more suspicious than the average tag, the
        missing tag is more likely correct than not, and the same two labels ("coat" listed,
        "jacket" missing) form such pairs in more rows than chance explains. A tag is in at most one
        swap. Answers change the probabilities; pairs of two answered tags are left out.

        Parameters
        ----------
        k : int, optional
            Number of swaps, the most certain first; all by default.

        Returns
        -------
        Swaps
        """
        Number(0, integer=True, none=True).check("k", k)
        tags = np.flatnonzero(self.judged)
        p = self.confidence
        q = self.missing.confidence
        index, missing = pair_by_row(self.row[tags], p[tags], self.missing.row, q)
        index = tags[index]
        wrong = self.column[index]
        right = self.missing.column[missing]
        score = (1 - p[index]) * q[missing]
        # Only the likeliest pair of each tag counts: a wrong tag replaces only one missing tag.
        counted = best_pairs(score, index, missing)
        score = score * confusion(wrong, right, counted, len(self.label_names))
        best = best_pairs(score, index, missing)
        is_open = np.isnan(self.worklist.answer[index])
        is_open |= np.isnan(self.missing.worklist.answer[missing])
        best = best[is_open[best] & (score[best] > 0)][:k]
        return Swaps(
            row=self.row[index[best]],
            wrong_column=wrong[best],
            right_column=right[best],
            score=score[best],
            label_names=self.label_names,
        )

    def planted_among_suspects(self) -> float:
        """Return the share of planted wrong tags that rank among the 10% most suspicious tags.

        Returns
        -------
        float
            NaN if no wrong tags were planted.
        """
        return self.ranked.planted_among_suspects()

    @cached_property
    def wrong_share_interval(self) -> tuple[float, float]:
        """90% interval of the share of wrong tags; every possible share if there are no answers."""
        total = self.n_in_share
        return self._number_wrong.low / total, self._number_wrong.high / total

    @property
    def wrong_share(self) -> float:
        """Estimated share of wrong tags; NaN if the answers do not allow an estimate."""
        return self._number_wrong.mean / self.n_in_share

    @property
    def is_share_vague(self) -> bool:
        """Whether the share is too vague to report: fewer than ten answers, and a wide interval."""
        return is_vague(self.n_answers, self.wrong_share_interval)

    @property
    def n_in_share(self) -> int:
        """Number of judged tags that no rule decides, listed or departed, at least 1."""
        n_listed = int((self.judged & (self._by_rule == 0)).sum())
        return max(1, n_listed + int(self._departed_in_share.sum()))

    @property
    def removed_by_rule(self) -> int:
        """Number of tags that only a rule removes."""
        is_open = np.isnan(self.answer)
        return int((is_open & (self._by_rule < 0) & (self.known == 0)).sum())

    @cached_property
    def _number_wrong(self) -> Interval:
        """Number of wrong tags among the judged tags that no rule decides."""
        known_wrong = self.judged & (self.known < 0) & (self._by_rule == 0)
        n_known = int(known_wrong.sum())
        if n_known and not self.worklist.usable.any():
            return Interval(n_known, n_known, n_known)
        mean, low, high = number_of_hits(self.worklist)
        return Interval(n_known + mean, n_known + low, n_known + high)

    def expected_wrong(self, k: int) -> float:
        """Return the expected number of wrong tags among the next k suspects.

        Parameters
        ----------
        k : int
            Number of suspects.

        Returns
        -------
        float
            NaN if there are too few answers about such suspects, or if they contradict the
            forecast.
        """
        return forecast_of_hits(self.worklist, k)

    @property
    def sentence(self) -> str:
        """Sentence about the share of wrong tags."""
        low, high = self.wrong_share_interval
        if not self.judged.any():
            return "Every tag is too rare or in all rows, so none is ranked."
        if not self.n_answers and np.isnan(self.wrong_share):
            return "Without answers, the number of wrong tags cannot be known."
        answers = "1 answer" if self.n_answers == 1 else f"{self.n_answers:,} answers"
        if np.isnan(self.wrong_share):
            number = answers.removeprefix("1 ") if self.n_answers == 1 else answers
            verb = "is" if self.n_answers == 1 else "are"
            return (
                f"The {number} {verb} not about a random sample of these tags, so the share of "
                f"wrong tags may be anything from {low:.0%} to {high:.0%}."
            )
        if self.is_share_vague:
            verb = "says" if self.n_answers == 1 else "say"
            return f"{answers} {verb} too little about the share of wrong tags."
        return (
            f"Based on {answers}, about {self.wrong_share:.0%} of {self.tags_in_share} are wrong "
            f"(90% interval: {low:.0%} to {high:.0%})."
        )

    @property
    def tags_in_share(self) -> str:
        """Name of the tags that `wrong_share` is about: "the tags" if it is about all."""
        if n_departed := int(self._departed_in_share.sum()):
            number = f"{self.n_in_share - n_departed:,} ranked tags"
            return f"the {number} and the {n_departed:,} removed earlier"
        if self.n_in_share == len(self.row):
            return "the tags"
        is_ruled = bool((self.judged & (self._by_rule != 0)).any())
        without_rule = " without a rule" if is_ruled else ""
        return f"the {self.n_in_share:,} ranked tags{without_rule}"

    def questions(
        self,
        n: int = 25,
        *,
        kind: str = LISTED,
        order: str | None = None,
        tag: str | None = None,
        random_state: int | None = 0,
    ) -> Questions:
        """Choose tags to ask a person about; answered tags are never asked about again.

        Fifty answers are best spent in two steps of 25: the first covers all ranks, the second
        runs from the most suspicious tags to somewhat beyond the last tag that may turn out to be
        removable. In every later round, one question in five is a spot check drawn from all tags
        without an answer, so the estimated share of wrong tags stays valid whatever else is asked.

        Parameters
        ----------
        n : int, default=25
            Number of questions. If the first round has more than 25, half of them (at least 25)
            cover all ranks, and the others are about the most suspicious tags.
        kind : {"listed", "missing"}, default="listed"
            Ask about listed tags, or about tags in `missing`.
        order : {"spread", "limit", "suspicious", "close", "swaps"}, optional
            "spread" covers all ranks, "limit" the ranks of possible removals, "suspicious" asks
            about the most suspicious tags (or the likeliest missing ones), "close" about the tags
            that the answers leave most uncertain, and "swaps" about the tags of `swaps`. None is
            "spread" for the first 25 answers, then "limit".
        tag : str, optional
            Ask about tags of this name, the most suspicious first.
        random_state : int, default=0
            Seed of the draw.

        Returns
        -------
        Questions
            In random order; with "suspicious", "close", "swaps" or `tag`, the best tags first.
        """
        Number(1, integer=True).check("n", n)
        OneOf((LISTED, MISSING)).check("kind", kind)
        if order is not None:
            OneOf(ORDERS).check("order", order)
        work = self._tags_of(kind).worklist
        chosen = None
        if tag is not None:
            column = self._column(tag)
            chosen = work.order[work.column[work.order] == column]
        elif order == SWAPS:
            chosen = self._swapped(kind)
            chosen = chosen[np.isin(chosen, work.order)]
        if chosen is not None and not len(chosen):
            return self._questions(chosen, kind)
        rng = np.random.default_rng(random_state)
        index, inclusion, design = work.draw(n, order, self.precision, rng, chosen)
        questions = self._questions(index, kind)
        return replace(questions, round=design, inclusion=inclusion)

    def questions_about(self, tags: Iterable[tuple[int, str]], kind: str = LISTED) -> Questions:
        """Return questions about tags given as (row, label name).

        These tags are not drawn at random, so the answers decide about them, but say nothing about
        the share of wrong tags among the others.

        Parameters
        ----------
        tags : iterable of (row, label name)
            The tags to ask about.
        kind : {"listed", "missing"}, default="listed"
            Whether the tags are listed or in `missing`.

        Returns
        -------
        Questions

        Raises
        ------
        InputError
            If there is no such tag.
        """
        place = {name: j for j, name in enumerate(self.label_names)}
        cells = []
        for row, label in tags:
            if label not in place:
                raise InputError(f"there is no label {brief(label)}", parameter="tags")
            cells.append((row, place[label]))
        rows, columns = np.array(cells, dtype=np.int64).reshape(-1, 2).T
        return self._questions(self._index(rows, columns, kind), kind)

    def _column(self, label: str) -> int:
        if label not in self.label_names:
            hint = suggest(str(label), self.label_names)
            raise InputError(f"there is no label {brief(str(label))}; {hint}", parameter="tag")
        return self.label_names.index(label)

    def _swapped(self, kind: str) -> Array:
        """Return the positions of the listed or missing tags of all swaps, most certain first."""
        swaps = self.swaps()
        column = swaps.wrong_column if kind == LISTED else swaps.right_column
        return self._index(swaps.row, column, kind)

    def _tags_of(self, kind: str) -> "NoisyLabels | MissingTags":
        """Return the listed or the missing tags."""
        return self if kind == LISTED else self.missing

    def _questions(self, index: Array, kind: str) -> Questions:
        """Return questions about chosen tags."""
        tags = self._tags_of(kind)
        return Questions(
            row=tags.row[index],
            column=tags.column[index],
            label=tags.label[index],
            confidence=tags.confidence[index],
            kind=kind,
            round=Round(tags.worklist.answers.next_number),
        )

    def answered(self, questions: Questions, right: Any) -> "NoisyLabels":
        """Return the ranking with more answers; all answers add up, in any order.

        Parameters
        ----------
        questions : Questions
            Questions from `questions`, `suspects` or `Certificate.questions`.
        right : sequence of bool, None or str
            True or "yes" for tags that are right, False or "no" for wrong tags, None or "?" if
            unsure. An unsure tag is kept, and says nothing about other tags.

        Returns
        -------
        NoisyLabels

        Raises
        ------
        InputError
            If an answer contradicts an earlier answer about the same tag. Repeating an answer
            changes nothing, and a definite answer replaces None.
        """
        if not isinstance(questions, Questions):
            raise InputError(
                "questions must be what questions() or suspects() returned", parameter="questions"
            )
        tags = self._tags_of(questions.kind)
        answers = tags.worklist.answers
        value = answers.value.copy()
        index = self._index(questions.row, questions.column, questions.kind)
        for k, is_right in zip(index.tolist(), as_answers(right, len(questions)), strict=True):
            new = UNSURE if is_right is None else float(is_right)
            earlier = value[k]
            if new != UNSURE and earlier == 1 - new:
                raise InputError(
                    f"the tag {brief(tags.label[k])} of row {tags.row[k]} was answered both right "
                    f"and wrong",
                    parameter="right",
                )
            value[k] = earlier if new == UNSURE and not np.isnan(earlier) else new
        ledger = self.ledger if questions.draw is None else self.ledger.after(questions.draw + 1)
        # A question that is repeated counts once.
        asked, first = np.unique(index, return_index=True)
        sample = Sample(questions.round, asked, checked_inclusion(questions)[first])
        answers = answers.joined(value, sample) if len(index) else answers
        if questions.kind == LISTED:
            return replace(self, answers=answers, ledger=ledger)
        return replace(self, missing=replace(self.missing, answers=answers), ledger=ledger)

    def _index(self, row: Array, column: Array, kind: str) -> Array:
        """Return the positions of cells among the listed or missing tags."""
        tags = self._tags_of(kind)
        width = len(self.label_names)
        cells = tags.row.astype(np.int64) * width + tags.column
        targets = row * width + column
        order = np.argsort(cells)
        index = np.r_[order, -1][np.searchsorted(cells, targets, sorter=order)].astype(int)
        is_absent = (np.r_[cells, -1][index] != targets) | (column < 0) | (column >= width)
        if is_absent.any():
            k = int(is_absent.argmax())
            raise InputError(
                f"row {row[k]} has no {kind} tag in column {column[k]}, so there is nothing to "
                f"answer",
                parameter="questions",
            )
        return np.asarray(index)

    def at(self, *, precision: float | None = None, keep_one: bool | None = None) -> "NoisyLabels":
        """Return the same ranking and answers with another target, without requested changes.

        Parameters
        ----------
        precision : float, optional
            Share of the removals and additions that should be right.
        keep_one : bool, optional
            True if each row keeps at least one tag that nobody called wrong.

        Returns
        -------
        NoisyLabels
            Nothing is ranked again, and all answers stay.
        """
        ranking = replace(self, policy=self.policy.at(precision, keep_one))
        # The worklist does not depend on the target, so it is not computed again.
        ranking.__dict__["worklist"] = self.worklist
        return ranking

    def trade_off(self, targets: Sequence[float] = TARGETS) -> list[TradeOff]:
        """Compare the removals that the answers allow at several targets.

        Removals by a rule are the same at every target, and are only counted in `by_rule`.

        Parameters
        ----------
        targets : sequence of float, default=(0.95, 0.9, 0.8, 0.7, 0.6, 0.5)
            Target precisions.

        Returns
        -------
        list of TradeOff
            One for each target.
        """
        for target in targets:
            Number(0, high=1, open_low=True).check("targets", target)
        return trade_offs(self, targets)

    @property
    def _has_orders(self) -> bool:
        """True if removals were requested for tags without an answer."""
        removals = self.policy.removals
        return removals is not None and bool((removals & np.isnan(self.answer)).any())

    @property
    def next_target(self) -> float | None:
        """Highest lower target at which the answers allow removals; None if there is none."""
        return first_target(self.worklist, self.precision)

    @property
    def trade_off_sentence(self) -> str:
        """Reason why only tags answered "wrong" are removed, and at which target more would be.

        An empty string if the answers allow removals, if removals were requested, or if there are
        no answers.
        """
        work = self.worklist
        is_idle = not self._has_orders and not work.whole.limit(self.precision)
        has_answers = len(work.whole.answered) > 0
        if not is_idle or not has_answers or not len(work.order) or self.is_share_vague:
            return ""
        fewer = f"fewer than {self.precision:.0%} of the others are wrong"
        reason = f"probably {fewer}"
        if work.posterior.expects(self.precision):
            reason = f"the answers do not rule out that far {fewer}"
        dropped = " or that a rule drops" if self.removed_by_rule else ""
        removals = (
            f"At a target of {self.precision:.0%}, only tags that you called wrong{dropped} are "
            f"removed, because {reason}"
        )
        target = self.next_target
        if target is None:
            return f"{removals}; no target down to 50% would remove others: {WAYS_ON}."
        n_tags = int(self.removals_at(target).sum())
        return (
            f"{removals}; at {target:.0%}, {n_tags:,} more would be "
            f"(precision={target:g} in Python, --precision {target:g} in the program)."
        )

    def with_rule(self, label: str, rule: str) -> "NoisyLabels":
        """Return the ranking with a rule about all tags of a label.

        Tags that a rule decides are not asked about, and do not count towards the share of wrong
        tags. An answer about a single tag overrides the rule.

        Parameters
        ----------
        label : str
            Name of the label.
        rule : {"keep", "drop", "ask"}
            Keep all tags of this name, remove all of them (and suggest none), or remove the rule.

        Returns
        -------
        NoisyLabels
        """
        policy = self.policy.with_rule(label, rule, self.label_names)
        excluded = policy.columns(DROP, self.label_names)
        return replace(self, policy=policy, missing=replace(self.missing, excluded=excluded))

    def with_departed(self, departed: Departed) -> "NoisyLabels":
        """Return the ranking with tags that have left the table since they were removed.

        Parameters
        ----------
        departed : Departed
            These tags, with the answers about them.

        Returns
        -------
        NoisyLabels
        """
        return replace(self, ranked=replace(self.ranked, departed=departed))

    def with_opinions(self, opinions: Any, *, who: str = "opinion") -> "NoisyLabels":
        """Return the ranking with second opinions, which change ranks but decide nothing.

        A *voice* is one source of opinions, such as a person or another model. Each voice is one
        more expert; `voices` reports how good it was. Opinions never count as answers.

        Parameters
        ----------
        opinions : (n, l) array, dict, DataFrame, or iterable of (row, tag, opinion, who)
            Probabilities that tags are correct, or True and False; NaN or None means no opinion.
            Pass an array of all cells, a dict from the name of each voice to such an array, or a
            table with the columns "row" (from 0), "tag", "opinion" and optionally "who".
        who : str, default="opinion"
            Name of the voice of an array.

        Returns
        -------
        NoisyLabels

        Examples
        --------
        >>> from schirn import find_noisy_labels
        >>> from schirn.datasets import load_digits_attributes
        >>> digits = load_digits_attributes(r=2).subset(range(300))
        >>> ranking = find_noisy_labels(digits.X, digits.candidates)
        >>> heard = ranking.with_opinions({"Ada": digits.y_true})
        >>> voice = heard.voices()[0]
        >>> voice.who, voice.n_answered, round(voice.weight, 1)
        ('Ada', 0, 1.0)
        """
        new = read_opinions(opinions, self.n_rows, self.label_names, who)
        voices = {voice.who: voice for voice in (*self.ranked.opinions, *new)}
        all_opinions = tuple(voices.values())
        ranked = replace(self.ranked, opinions=all_opinions)
        return replace(self, ranked=ranked, missing=replace(self.missing, opinions=all_opinions))

    def voices(self) -> list[Voice]:
        """Return how well each voice of `with_opinions` agreed with the answers.

        Returns
        -------
        list of Voice
        """
        width = len(self.label_names)
        result = []
        for k, opinions in enumerate(self.ranked.opinions):
            n_opinions = 0
            n_answered = 0
            n_agree = 0
            for tags, work in ((self, self.worklist), (self.missing, self.missing.worklist)):
                log_odds = opinions.of(tags.row.astype(np.int64) * width + tags.column)
                n_opinions += int(np.count_nonzero(~np.isnan(log_odds)))
                counts = ~np.isnan(log_odds) & np.isin(work.answer, (0, 1)) & (log_odds != 0)
                n_answered += int(np.count_nonzero(counts))
                agrees = (log_odds[counts] > 0) == (work.answer[counts] == 1)
                n_agree += int(np.count_nonzero(agrees))
            share, interval = agreement(n_agree, n_answered)
            voice = Voice(
                who=opinions.who,
                n_opinions=n_opinions,
                weight=float(self.worklist.voice_weights[k]),
                n_answered=n_answered,
                n_agree=n_agree,
                agreement=share,
                agreement_interval=interval,
                is_heard=bool(self.worklist.heard_voices[k]),
            )
            result.append(voice)
        return result

    def with_orders(
        self, removals: Array | None = None, additions: Array | None = None
    ) -> "NoisyLabels":
        """Return the ranking with fixed removals and additions, in addition to the answers.

        Parameters
        ----------
        removals : (m,) bool array, optional
            Listed tags to remove; None leaves the removals unchanged.
        additions : (k,) bool array, optional
            Missing tags to add; None leaves the additions unchanged.

        Returns
        -------
        NoisyLabels
        """
        policy = self.policy
        if removals is not None:
            policy = replace(policy, removals=removals)
        if additions is not None:
            policy = replace(policy, additions=additions)
        return replace(self, policy=policy)

    def with_suggestions(self, cells: Iterable[tuple[int, str]]) -> "NoisyLabels":
        """Return the ranking with more tags in `missing`, about which the ranker says nothing.

        Parameters
        ----------
        cells : iterable of (row, label name)
            Tags that are neither listed nor in `missing`; the names may be new.

        Returns
        -------
        NoisyLabels
        """
        new = list(cells)
        names = list(dict.fromkeys([*self.label_names, *(label for _, label in new)]))
        place = {name: j for j, name in enumerate(names)}
        missing = self.missing.joined([(row, place[label]) for row, label in new], names)
        opinions = missing.opinions
        ranked = replace(self.ranked, label_names=names, opinions=opinions)
        return replace(self, ranked=ranked, missing=missing)

    def remove(self, k: int | None = None, *, below: float | None = None) -> "NoisyLabels":
        """Request removals that no answers support; every output then says "not checked".

        Parameters
        ----------
        k : int, optional
            Remove the k most suspicious tags, except those that `keep_one` protects.
        below : float, optional
            Remove all tags whose `confidence` is below this value.

        Returns
        -------
        NoisyLabels
        """
        _check_choice(k, below, "below")
        order = self.worklist.order
        allowed = order[self.within_limits(order)[order]]
        chosen = allowed[:k] if below is None else allowed[self.confidence[allowed] < below]
        mask = np.zeros(len(self.row), dtype=bool)
        mask[chosen] = True
        return replace(self, policy=replace(self.policy, removals=mask, is_checked=False))

    def add(self, k: int | None = None, *, above: float | None = None) -> "NoisyLabels":
        """Request additions that no answers support; every output then says "not checked".

        Parameters
        ----------
        k : int, optional
            Add the k tags of `missing` that are most likely to be correct.
        above : float, optional
            Add all tags of `missing` whose `confidence` is at least this value.

        Returns
        -------
        NoisyLabels
        """
        _check_choice(k, above, "above")
        order = self.missing.worklist.order
        chosen = order[:k] if above is None else order[self.missing.confidence[order] >= above]
        mask = np.zeros(len(self.missing), dtype=bool)
        mask[chosen] = True
        return replace(self, policy=replace(self.policy, additions=mask, is_checked=False))

    @cached_property
    def removed(self) -> Array:
        """Mask of the tags to remove."""
        chosen = self.policy.removals
        if chosen is None:
            chosen = self.removals_at(self.precision)
        is_open = np.isnan(self.answer) & (self._by_rule <= 0)
        return np.asarray((chosen & is_open) | self._called_wrong)

    def removals_at(self, precision: float) -> Array:
        """Return a mask of the suspicious tags that the answers allow removing at a target.

        Parameters
        ----------
        precision : float
            Share of the removed tags that should be wrong.

        Returns
        -------
        (m,) bool array
        """
        work = self.worklist
        return self.within_limits(work.order[: work.limit(precision)])

    @cached_property
    def added(self) -> Array:
        """Mask of the tags of `missing` to add."""
        work = self.missing.worklist
        chosen = self.policy.additions
        if chosen is None:
            chosen = np.zeros(len(self.missing), dtype=bool)
            chosen[work.order[: work.limit(self.precision)]] = True
        return (chosen & np.isnan(work.answer)) | (work.answer == 1)

    def within_limits(self, chosen: Array) -> Array:
        """Return a mask of the chosen tags that may be removed: with `keep_one`, not all of a row.

        Parameters
        ----------
        chosen : int array
            Positions of tags, the most suspicious first.

        Returns
        -------
        (m,) bool array
        """
        removed = np.zeros(len(self.row), dtype=bool)
        if not self.keep_one:
            removed[chosen] = True
            return removed
        n_left = np.bincount(self.row[~self._called_wrong], minlength=self.n_rows)
        by_row = chosen[np.argsort(self.row[chosen], kind="stable")]
        rows = self.row[by_row]
        turn = np.arange(len(rows)) - np.searchsorted(rows, rows)
        removed[by_row[turn < n_left[rows] - 1]] = True
        return removed

    def certify(
        self,
        target: float | None = None,
        *,
        of: str = REMOVED,
        k: int | None = None,
        random_state: int = 0,
    ) -> Certificate:
        """Begin a certificate, which is valid whenever you stop answering its questions.

        Parameters
        ----------
        target : float, optional
            Share of the tags to certify; the target precision by default.
        of : {"removed", "suspects", "remaining", "added"}, default="removed"
            Certify that the removed tags or the next k suspects are wrong, or that the remaining
            or the added tags are right. Tags that already have an answer do not count.
        k : int, optional
            Number of suspects.
        random_state : int, default=0
            Number of the draw. Leave it at 0: another draw needs more evidence than the first.

        Returns
        -------
        Certificate
        """
        OneOf(KINDS).check("of", of)
        Number(0, high=MAX_DRAW, integer=True).check("random_state", random_state)
        if (of == SUSPECTS) != (k is not None):
            raise InputError('k is the number of suspects; give it with of="suspects"')
        target = self.precision if target is None else target
        return begin(self, of=of, k=k, target=target, random_state=random_state)

    def matrix(self, values: Any = None) -> Array:
        """Return one value per tag as an (n, l) array that is 0 elsewhere.

        Parameters
        ----------
        values : (m,) array, optional
            The values; the confidences by default.

        Returns
        -------
        (n, l) array
        """
        values = self.confidence if values is None else np.asarray(values)
        array = np.zeros((self.n_rows, len(self.label_names)), dtype=values.dtype)
        array[self.row, self.column] = values
        return array

    @property
    def clean(self) -> Array:
        """Tags after all removals and additions, as an (n, l) 0/1 array."""
        return self.clean_sparse.toarray()

    @property
    def clean_sparse(self) -> sp.csr_array:
        """Tags after all removals and additions, as a CSR array, for very many labels."""
        added = self.added
        remaining = ~self.removed
        row = np.r_[self.row[remaining], self.missing.row[added]]
        column = np.r_[self.column[remaining], self.missing.column[added]]
        ones = np.ones(len(row), dtype=np.uint8)
        shape = (self.n_rows, len(self.label_names))
        return sp.csr_array((ones, (row, column)), shape=shape)

    def apply(self, tags: Any, *, separator: str = ";") -> Any:
        """Return the tags after all removals and additions, in the same container as the input.

        Parameters
        ----------
        tags : array, sparse matrix, DataFrame, or sequence of lists or strings
            The tags that were ranked; they are not modified.
        separator : str, default=";"
            Text between the tags of a cell.

        Returns
        -------
        array, sparse matrix, DataFrame or list
            Same type as `tags`.
        """
        check_same_order(("ranking", self), ("tags", tags))
        if sp.issparse(tags):
            return type(tags)(self.clean_sparse.astype(tags.dtype))
        if len(getattr(tags, "shape", ())) != 2:
            return apply_changes(tags, self.changes(as_plain(tags), separator=separator))
        column = dict(zip(self.label_names, self.clean.T, strict=True))
        names = getattr(tags, "column_names", getattr(tags, "columns", ()))
        # Columns without a name hold no tags.
        column |= {str(n): np.asarray(tags[n]) for n in names if not str(n).strip()}
        if hasattr(tags, "iloc"):
            clean = {name: column[str(name)] for name in tags.columns}
            return type(tags)(clean, index=tags.index).astype(tags.dtypes)
        if hasattr(tags, "schema"):
            make = getattr(tags, "from_pydict", type(tags))
            clean = {name: column[name].astype(tags[name].to_numpy().dtype) for name in names}
            return make(clean, schema=tags.schema)
        return self.clean.astype(np.asarray(tags).dtype)

    def changes(
        self,
        cells: Iterable[Any] | None = None,
        *,
        column: str = "tags",
        separator: str = ";",
    ) -> ChangeList:
        """List every removal and addition as a change to review, apply or undo.

        Parameters
        ----------
        cells : sequence, optional
            The column of tags that was ranked, such as strings "beach;dog"; by default lists of
            the names in `label_names`.
        column : str, default="tags"
            Name of the column.
        separator : str, default=";"
            Text between the tags of a cell.

        Returns
        -------
        ChangeList
        """
        check_same_order(("ranking", self), ("cells", cells))
        return changes_of(self, cells, column=column, separator=separator)

    def labels(self) -> list[dict[str, Any]]:
        """Return tag counts per label, the label with the most removals first.

        Returns
        -------
        list of dict
            With the keys "name", "candidates" (listed tags), "judged" and "removed".
        """
        size = len(self.label_names)
        n_candidates = np.bincount(self.column, minlength=size).tolist()
        n_judged = np.bincount(self.column[self.judged], minlength=size).tolist()
        n_removed = np.bincount(self.column[self.removed], minlength=size).tolist()
        labels = [
            {
                "name": name,
                "candidates": n_candidates[j],
                "judged": n_judged[j],
                "removed": n_removed[j],
            }
            for j, name in enumerate(self.label_names)
        ]
        return sorted(labels, key=lambda x: (-x["removed"], -x["candidates"], x["name"]))

    def summary(self) -> dict[str, Any]:
        """Return summary figures of the whole table.

        Returns
        -------
        dict from str to object
            "checked" is True if all removals and additions follow from answers. If a rule removes
            tags, it is False, and "removed_by_rule" is the number of these tags.
        """
        removed = int(self.removed.sum())
        low, high = self.wrong_share_interval
        caught = self.planted_among_suspects()
        return {
            "rows": self.n_rows,
            "labels": len(self.label_names),
            "tags": len(self.row),
            "answers": self.n_answers,
            "removed": removed,
            "removed_share": removed / max(1, len(self.row)),
            "added": int(self.added.sum()),
            "removed_by_rule": self.removed_by_rule,
            "checked": self.is_checked and not self.removed_by_rule,
            "wrong_share": None if np.isnan(self.wrong_share) else self.wrong_share,
            "wrong_share_interval": [low, high],
            "planted_among_suspects": None if np.isnan(caught) else caught,
            "unjudged": int((~self.judged).sum()),
            "rows_changed": len(np.unique(self.row[self.removed])),
            "rows_without_tags": self.n_rows - len(np.unique(self.row)),
            "rows_left_without_tags": len(np.unique(self.row))
            - len(np.unique(self.row[~self.removed])),
            "target_precision": self.precision,
            "method": self.method,
        }

    def to_pandas(self) -> Any:
        """Return a DataFrame with the columns row, label, confidence and verdict.

        Each tag has the index of its row if the tags were passed as a Series or DataFrame.

        Returns
        -------
        pandas.DataFrame
        """
        pandas = optional("pandas", "table", "Making a table")
        index = None if self.index is None else self.index[self.row]
        return pandas.DataFrame(self._columns(), index=index)

    def to_polars(self) -> Any:
        """Return a polars DataFrame with the columns row, label, confidence and verdict.

        Returns
        -------
        polars.DataFrame
        """
        # No extra installs polars: a user who asks for a polars table already has it.
        import polars

        return polars.DataFrame({name: values.tolist() for name, values in self._columns().items()})

    def _columns(self) -> dict[str, Array]:
        return {name: getattr(self, name) for name in ("row", "label", "confidence", "verdict")}

    def reasons(
        self,
        X: Any,
        *,
        feature_names: Sequence[str] | None = None,
        scaled: bool | None = None,
    ) -> Reasons:
        """Return an object that explains single verdicts.

        Parameters
        ----------
        X : (n, d) array, CSR matrix or DataFrame of numbers, or sequence of n texts
            The features that the tags were judged by.
        feature_names : sequence of str, optional
            Names of the columns of X.
        scaled : bool, optional
            True if the tags were judged by unscaled X, as with ``Sieve(features="none")``. By
            default only texts and sparse rows of unit length are left unscaled.

        Returns
        -------
        Reasons
        """
        return Reasons(X, self, feature_names=feature_names, scaled=scaled)

    def report(self, **options: Any) -> Any:
        """Return a report for people to read.

        Parameters
        ----------
        **options
            Options of `schirn.app.report.CleanReport`, such as `texts`.

        Returns
        -------
        CleanReport
        """
        # The library does not import the app, which may not be installed.
        make_report = tool("report")
        if make_report is None:
            raise InputError("schirn.app, which makes reports, is not installed")
        return make_report(self, **options)

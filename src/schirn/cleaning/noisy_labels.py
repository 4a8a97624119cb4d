"""The result of `find_noisy_labels`: tags ranked by suspicion, and what answers say about them.

Rank, ask, act: nothing is removed and nothing is claimed until a person answers some questions, or
orders removals with `remove`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._entry_points import tool
from schirn._files import brief
from schirn._input import Array, Number, OneOf, as_plain
from schirn._optional import optional
from schirn.cleaning._storage import Storage
from schirn.cleaning.certificate import (
    KINDS,
    REMOVED,
    SUSPECTS,
    Certificate,
    begin,
    read_answers,
)
from schirn.cleaning.changes import ChangeList, apply_changes, changes_of
from schirn.cleaning.questions import (
    LIKELY,
    LISTED,
    MISSING,
    ORDERS,
    UNSURE,
    Questions,
    Worklist,
)
from schirn.cleaning.ranker import Annotator
from schirn.cleaning.swaps import Swaps, best_pairs, confusion, pair_by_row
from schirn.cleaning.why import Reasons
from schirn.exceptions import InputError

PRECISION = 0.9
NOT_CHECKED = "not checked"
# Planted tags are counted among this share of the most suspicious tags.
_SUSPICIOUS_SHARE = 0.1


def _no_rows() -> Array:
    return np.zeros(0, dtype=np.int64)


def _check_choice(k: int | None, limit: float | None, name: str) -> None:
    """Tags are chosen by their number or by a limit of their confidence."""
    Number(0, integer=True, none=True).check("k", k)
    Number(0, high=1, none=True).check(name, limit)
    if (k is None) == (limit is None):
        raise InputError(f"give either a number of tags or {name}", parameter="k")


@dataclass(frozen=True, eq=False)
class MissingTags:
    """Tags that are not listed, ranked by how likely they are to be correct.

    Attributes
    ----------
    row, column : (k,) int arrays
        Sorted by row.
    label : (k,) object array
        Name of each tag.
    confidence : (k,) float array
        Probability that the tag is correct: by the answers, or by the ranker without any.
    label_names : list of str
    """

    row: Array = field(default_factory=_no_rows)
    column: Array = field(default_factory=_no_rows)
    model_confidence: Array = field(default_factory=lambda: np.zeros(0))
    label_names: list[str] = field(default_factory=list)
    answer: Array | None = None

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
        """The tags in the order in which they are asked."""
        answer = np.full(len(self), np.nan) if self.answer is None else self.answer
        everything = np.ones(len(self), dtype=bool)
        columns = (self.row, self.column, self.model_confidence)
        return Worklist(*columns, everything, answer, 1)

    @property
    def confidence(self) -> Array:
        """Probability that each tag is correct."""
        return self.worklist.probability

    def above(self, confidence: float = LIKELY) -> "MissingTags":
        """Return the tags with at least this confidence."""
        likely = np.flatnonzero(self.confidence >= confidence)
        answer = None if self.answer is None else self.answer[likely]
        row, column, p = (x[likely] for x in (self.row, self.column, self.confidence))
        return MissingTags(row, column, p, self.label_names, answer)


@dataclass(frozen=True, eq=False, repr=False)
class NoisyLabels:
    """All tags of a table, ranked by suspicion, as parallel arrays sorted by row.

    Attributes
    ----------
    n_rows : int
    label_names : list of str
    row, column : (m,) int arrays
        Row and label of each tag.
    label, verdict : (m,) object arrays
        Name of the label; "kept", "removed" or "unjudged".
    confidence : (m,) float array
        Lower means more suspicious. Without answers, the probability of being correct by the
        ranker, which no one has checked; with answers, the probability that follows from these.
    removed : (m,) bool array
        Tags that were answered "wrong" or are known to be wrong, and, as far as the answers allow
        it at the target precision, the most suspicious ones; or what `remove` ordered.
    added : (k,) bool array
        The same for the tags in `missing`.
    judged : (m,) bool array
        Tags that are too rare are not judged.
    missing : MissingTags
        Tags that are not listed, ranked.
    wrong_share : float
        Share of wrong tags among those judged, by the answers; NaN without any.
    wrong_share_interval : tuple of two floats
        90% interval of this share. Without answers it is (0, 1): a wrong tag may look like a right
        one, so features give no upper bound. Tags known to be right or wrong narrow it.
    n_answers : int
        Number of listed tags that were answered "right" or "wrong".
    method : str
        Name of the method that ranked the tags.
    precision : float
        Target precision of removals and additions.
    keep_one : bool
        Whether a row keeps its likeliest tag unless a person called it wrong.
    annotators : list of Annotator or None
        Quality of every annotator, if `Votes` were given.
    is_checked : bool
        Whether removals and additions follow from answers, not from `remove` or `add`.
    storage : Storage or None
        Where the features and what was computed from them were stored, and why.
    index : pandas.Index or None
        Index of the rows, if the tags came as a pandas object.
    """

    n_rows: int
    label_names: list[str]
    row: Array
    column: Array
    model_confidence: Array
    judged: Array
    method: str
    known: Array | None = None
    planted_confidence: Array = field(default_factory=lambda: np.zeros(0))
    missing: MissingTags = field(default_factory=MissingTags)
    answer: Array | None = None
    drawn: Array | None = None
    precision: float = PRECISION
    keep_one: bool = True
    ordered: Array | None = None
    ordered_additions: Array | None = None
    is_checked: bool = True
    draws: int = 0
    annotators: list[Annotator] | None = None
    storage: Storage | None = None
    index: Any = None

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
    def label(self) -> Array:
        """Label name of each tag."""
        return np.array(self.label_names, dtype=object)[self.column]

    @property
    def verdict(self) -> Array:
        """What happens to each tag: "kept", "removed" or "unjudged"."""
        names = np.where(self.removed, "removed", np.where(self.judged, "kept", "unjudged"))
        return names.astype(object)

    @cached_property
    def worklist(self) -> Worklist:
        """The judged tags in the order of suspicion, and the answers about them."""
        answer = np.full(len(self.row), np.nan) if self.answer is None else self.answer
        usable = self.judged & (self._known == 0)
        columns = (self.row, self.column, self.model_confidence)
        return Worklist(*columns, usable, answer, 0)

    @property
    def _known(self) -> Array:
        return np.zeros(len(self.row), dtype=np.int8) if self.known is None else self.known

    @cached_property
    def confidence(self) -> Array:
        """Probability that each tag is correct; lower means more suspicious."""
        return np.where(self._known == 0, self.worklist.probability, self._known > 0)

    @property
    def n_answers(self) -> int:
        """Number of listed tags that were answered "right" or "wrong"."""
        return int(np.isin(self.worklist.answer, (0, 1)).sum())

    # Rank.

    def suspects(self, k: int = 20) -> Questions:
        """Return the k most suspicious tags without an answer, the most suspicious first."""
        Number(0, integer=True).check("k", k)
        return self._questions(self.worklist.order[:k], LISTED)

    def swaps(self, k: int | None = None) -> Swaps:
        """Return listed tags that look wrong, each with a missing tag to list instead.

        Both tags belong to one row. The listed one is more suspicious than the average tag, the
        missing one is more likely correct than not, and more rows than chance explains have such a
        pair of the same two labels ("coat" listed, "jacket" missing). A tag is in one swap at most.
        Answers count, and pairs with two answers are left out.

        Parameters
        ----------
        k : int, optional
            Number of swaps, the surest first; all of them by default.
        """
        Number(0, integer=True, none=True).check("k", k)
        tags = np.flatnonzero(self.judged)
        p, q = self.confidence, self.missing.confidence
        index, missing = pair_by_row(self.row[tags], p[tags], self.missing.row, q)
        index = tags[index]
        wrong, right = self.column[index], self.missing.column[missing]
        score = (1 - p[index]) * q[missing]
        # Only the likeliest pairs count: a wrong tag says nothing about the other missing ones.
        counted = best_pairs(score, index, missing)
        score = score * confusion(wrong, right, counted, len(self.label_names))
        best = best_pairs(score, index, missing)
        is_open = np.isnan(self.worklist.answer[index])
        is_open |= np.isnan(self.missing.worklist.answer[missing])
        best = best[is_open[best] & (score[best] > 0)][:k]
        columns = wrong[best], right[best]
        return Swaps(self.row[index[best]], *columns, score[best], self.label_names)

    def planted_among_suspects(self) -> float:
        """Share of planted wrong tags that would be among the 10% most suspicious listed ones."""
        confidences = np.sort(self.model_confidence[self.worklist.usable])
        if not len(self.planted_confidence) or not len(confidences):
            return np.nan
        limit = confidences[max(int(_SUSPICIOUS_SHARE * len(confidences)) - 1, 0)]
        return float((self.planted_confidence <= limit).mean())

    @cached_property
    def wrong_share_interval(self) -> tuple[float, float]:
        """90% interval of the share of wrong tags; all shares that are possible without answers."""
        low, high = self._wrong_numbers[1:]
        total = max(1, int(self.judged.sum()))
        return low / total, high / total

    @property
    def wrong_share(self) -> float:
        """Share of wrong tags among those judged, by the answers; NaN without any."""
        return self._wrong_numbers[0] / max(1, int(self.judged.sum()))

    @cached_property
    def _wrong_numbers(self) -> tuple[float, float, float]:
        """Mean and interval of the number of wrong tags among those judged.

        Answers for a certificate are about the tags of one end of the ranking only. The curve that
        fits them there says too little about all others, so they do not count here.
        """
        work = self.worklist
        if self.drawn is not None and self.drawn.any():
            work = replace(work, answer=np.where(self.drawn, np.nan, work.answer))
        wrong = int((self.judged & (self._known < 0)).sum())
        if not len(work.answered):
            return np.nan, wrong, wrong + int(work.usable.sum())
        wrong += int((work.answer[work.answered] == 0).sum())
        # Nobody can say whether the tags answered "unsure" are wrong.
        unsure = int((work.usable & (work.answer == UNSURE)).sum())
        mean, low, high = work.posterior.hits_interval()
        return wrong + mean, wrong + np.floor(low), wrong + np.ceil(high) + unsure

    def expected_wrong(self, k: int) -> float:
        """Expected number of wrong tags among the next k suspects, by the answers."""
        if not len(self.worklist.answered):
            return np.nan
        return self.worklist.posterior.expected_hits(k)

    @property
    def sentence(self) -> str:
        """What is known about the number of wrong tags, in words."""
        low, high = self.wrong_share_interval
        if not self.judged.any():
            return "Every tag is too rare or in all rows, so none is ranked."
        if np.isnan(self.wrong_share):
            return "Nobody can know the number of wrong tags without answers."
        answers = "1 answer" if self.n_answers == 1 else f"{self.n_answers:,} answers"
        return (
            f"Based on {answers}, about {self.wrong_share:.0%} of the tags are wrong ({low:.0%} to "
            f"{high:.0%})."
        )

    # Ask.

    def questions(
        self,
        n: int = 25,
        *,
        kind: str = LISTED,
        order: str | None = None,
        random_state: int | None = 0,
    ) -> Questions:
        """Choose tags to ask a person about; tags that were answered are never asked again.

        Fifty answers do most in two steps of 25: the first along all ranks, the second from the
        most suspicious tags to somewhat beyond the last one that may turn out to be removable.

        Parameters
        ----------
        n : int, default=25
        kind : {"listed", "missing"}, default="listed"
            Ask about listed tags, or about those in `missing`.
        order : {"spread", "limit", "suspicious", "close"}, optional
            "spread" asks along all ranks, "limit" along those of possible removals, "suspicious"
            about the most suspicious tags (the likeliest missing ones), and "close" about those
            that the answers leave most uncertain. None is "spread" for the first n answers, at most
            25, then "limit".
        random_state : int, default=0
        """
        Number(1, integer=True).check("n", n)
        OneOf((LISTED, MISSING)).check("kind", kind)
        if order is not None:
            OneOf(ORDERS).check("order", order)
        work = self.worklist if kind == LISTED else self.missing.worklist
        rng = np.random.default_rng(random_state)
        return self._questions(work.draw(n, order, self.precision, rng), kind)

    def questions_about(self, tags: Iterable[tuple[int, str]], kind: str = LISTED) -> Questions:
        """Return questions about tags given as (row, label name)."""
        place = {name: j for j, name in enumerate(self.label_names)}
        cells = []
        for row, label in tags:
            if label not in place:
                raise InputError(f"there is no label {brief(label)}", parameter="tags")
            cells.append((row, place[label]))
        rows, columns = np.array(cells, dtype=np.int64).reshape(-1, 2).T
        return self._questions(self._index(rows, columns, kind), kind)

    def _questions(self, index: Array, kind: str) -> Questions:
        tags: Any = self if kind == LISTED else self.missing
        row, column = tags.row[index], tags.column[index]
        return Questions(row, column, tags.label[index], tags.confidence[index], kind)

    def answered(self, questions: Questions, right: Any) -> "NoisyLabels":
        """Return the ranking with more answers; all answers add up, in any order.

        Parameters
        ----------
        questions : Questions
            What `questions`, `suspects` or `Certificate.questions` returned.
        right : sequence of bool or None
            Whether each of these tags is right; None if a person cannot tell. Such a tag is kept,
            and says nothing about others.

        Raises
        ------
        InputError
            If an answer contradicts an earlier one about the same tag. The same answer again
            changes nothing, and a definite answer takes the place of None.
        """
        if not isinstance(questions, Questions):
            raise InputError(
                "questions must be what questions() or suspects() returned", parameter="questions"
            )
        tags: Any = self if questions.kind == LISTED else self.missing
        answers = np.array(tags.worklist.answer)
        drawn = np.zeros(len(self.row), dtype=bool) if self.drawn is None else self.drawn.copy()
        index = self._index(questions.row, questions.column, questions.kind)
        for k, is_right in zip(index.tolist(), read_answers(right, len(questions)), strict=True):
            value, earlier = UNSURE if is_right is None else float(is_right), answers[k]
            if value != UNSURE and earlier == 1 - value:
                raise InputError(
                    f"the tag {brief(tags.label[k])} of row {tags.row[k]} was answered both right "
                    f"and wrong",
                    parameter="right",
                )
            answers[k] = earlier if value == UNSURE and earlier == earlier else value
        draws = self.draws if questions.draw is None else max(self.draws, questions.draw + 1)
        if questions.kind == LISTED:
            drawn[index] = (questions.draw is not None) & np.isnan(self.worklist.answer[index])
            return replace(self, answer=answers, drawn=drawn, draws=draws)
        return replace(self, missing=replace(self.missing, answer=answers), draws=draws)

    def _index(self, row: Array, column: Array, kind: str) -> Array:
        """Positions of cells among the listed or missing tags."""
        tags: Any = self if kind == LISTED else self.missing
        width = len(self.label_names)
        cells, targets = tags.row.astype(np.int64) * width + tags.column, row * width + column
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

    # Act.

    def remove(self, k: int | None = None, *, below: float | None = None) -> "NoisyLabels":
        """Order removals that no answers support; every output then says "not checked".

        Parameters
        ----------
        k : int, optional
            Remove the k most suspicious tags that the limits allow to remove.
        below : float, optional
            Remove all tags whose `confidence` is below this value.
        """
        _check_choice(k, below, "below")
        order = self.worklist.order
        allowed = order[self.within_limits(order)[order]]
        chosen = allowed[:k] if below is None else allowed[self.confidence[allowed] < below]
        mask = np.zeros(len(self.row), dtype=bool)
        mask[chosen] = True
        return replace(self, ordered=mask, is_checked=False)

    def add(self, k: int | None = None, *, above: float | None = None) -> "NoisyLabels":
        """Order additions that no answers support; every output then says "not checked".

        Parameters
        ----------
        k : int, optional
            Add the k tags of `missing` that are most likely to be correct.
        above : float, optional
            Add all tags of `missing` whose `confidence` is at least this value.
        """
        _check_choice(k, above, "above")
        order = self.missing.worklist.order
        chosen = order[:k] if above is None else order[self.missing.confidence[order] >= above]
        mask = np.zeros(len(self.missing), dtype=bool)
        mask[chosen] = True
        return replace(self, ordered_additions=mask, is_checked=False)

    @cached_property
    def removed(self) -> Array:
        """Tags to remove."""
        work = self.worklist
        chosen = self.ordered
        if chosen is None:
            chosen = self.within_limits(work.order[: work.limit(self.precision)])
        return (chosen & np.isnan(work.answer)) | (work.answer == 0) | (self._known < 0)

    @cached_property
    def added(self) -> Array:
        """Tags of `missing` to add."""
        work, chosen = self.missing.worklist, self.ordered_additions
        if chosen is None:
            chosen = np.zeros(len(self.missing), dtype=bool)
            chosen[work.order[: work.limit(self.precision)]] = True
        return (chosen & np.isnan(work.answer)) | (work.answer == 1)

    def within_limits(self, chosen: Array) -> Array:
        """Mask of tags to remove, the most suspicious first; with `keep_one` not all of a row."""
        removed = np.zeros(len(self.row), dtype=bool)
        if not self.keep_one:
            removed[chosen] = True
            return removed
        wrong = (self.worklist.answer == 0) | (self._known < 0)
        n_left = np.bincount(self.row[~wrong], minlength=self.n_rows)
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
        """Begin a certificate, which holds whenever you stop answering its questions.

        Parameters
        ----------
        target : float, optional
            Share of the tags that should be certified; the target precision by default.
        of : {"removed", "suspects", "remaining", "added"}, default="removed"
            Certify that removed tags are wrong, that the next k suspects are, that the remaining
            tags are right, or that added tags are. Tags that were answered already do not count.
        k : int, optional
            Number of suspects.
        random_state : int, default=0
            Number of the draw. Leave it at 0: another draw needs more evidence than the first.
        """
        OneOf(KINDS).check("of", of)
        Number(0, high=10**6, integer=True).check("random_state", random_state)
        if (of == SUSPECTS) != (k is not None):
            raise InputError('k is the number of suspects; give it with of="suspects"')
        target = self.precision if target is None else target
        draw = self.draws + random_state
        return begin(self, of=of, k=k, target=target, draw=draw)

    def matrix(self, values: Any = None) -> Array:
        """Return one value per tag as an (n, l) array that is 0 elsewhere.

        The values are the confidences by default.
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
        """Tags after all removals and additions, as a CSR array: for very many labels."""
        added, remaining = self.added, ~self.removed
        row = np.r_[self.row[remaining], self.missing.row[added]]
        column = np.r_[self.column[remaining], self.missing.column[added]]
        ones, shape = np.ones(len(row), dtype=np.uint8), (self.n_rows, len(self.label_names))
        return sp.csr_array((ones, (row, column)), shape=shape)

    def apply(self, tags: Any, *, separator: str = ";") -> Any:
        """Return the tags after all removals and additions, in the container that came in.

        Parameters
        ----------
        tags : array, sparse matrix, DataFrame, or sequence of lists or texts
            The tags that were ranked; they stay as they are.
        separator : str, default=";"
            Text between the tags of a cell.
        """
        if sp.issparse(tags):
            return type(tags)(self.clean_sparse.astype(tags.dtype))
        if len(getattr(tags, "shape", ())) != 2:
            return apply_changes(tags, self.changes(as_plain(tags), separator=separator))
        column = dict(zip(self.label_names, self.clean.T, strict=True))
        if hasattr(tags, "iloc"):
            clean = {name: column[str(name)] for name in tags.columns}
            return type(tags)(clean, index=tags.index).astype(tags.dtypes)
        if hasattr(tags, "schema"):
            names = getattr(tags, "column_names", None) or tags.columns
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
        """List every removal and addition as a change that can be looked at, applied and undone.

        Parameters
        ----------
        cells : sequence, optional
            The column of tags that was ranked, such as texts "beach;dog"; by default lists of the
            names in `label_names`.
        column : str, default="tags"
            Name of the column.
        separator : str, default=";"
            Text between the tags of a cell.
        """
        return changes_of(self, cells, column=column, separator=separator)

    # Tell.

    def labels(self) -> list[dict[str, Any]]:
        """Return name and numbers of tags of each label, the label with the most removals first.

        The keys are "name", "candidates" (listed tags), "judged" and "removed".
        """
        columns = (self.column, self.column[self.judged], self.column[self.removed])
        size = len(self.label_names)
        counts = [np.bincount(column, minlength=size).tolist() for column in columns]
        names = ("name", "candidates", "judged", "removed")
        lines = zip(self.label_names, *counts, strict=True)
        labels = [dict(zip(names, line, strict=True)) for line in lines]
        return sorted(labels, key=lambda x: (-x["removed"], -x["candidates"], x["name"]))

    def summary(self) -> dict[str, Any]:
        """Return the figures of the whole table."""
        removed, (low, high) = int(self.removed.sum()), self.wrong_share_interval
        caught = self.planted_among_suspects()
        return {
            "rows": self.n_rows,
            "labels": len(self.label_names),
            "tags": len(self.row),
            "answers": self.n_answers,
            "removed": removed,
            "removed_share": removed / max(1, len(self.row)),
            "added": int(self.added.sum()),
            "checked": self.is_checked,
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

        Each tag has the index of its row, if the tags came as a Series or DataFrame.
        """
        pandas = optional("pandas", "table", "Making a table")
        index = None if self.index is None else self.index[self.row]
        return pandas.DataFrame(self._columns(), index=index)

    def to_polars(self) -> Any:
        """Return a polars DataFrame with the columns row, label, confidence and verdict."""
        # No extra installs polars: those who ask for its tables have it.
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
            Whether the tags were judged by X as it is, as with ``Sieve(features="none")``; by
            default only texts and sparse rows of unit length are taken as they are.
        """
        return Reasons(X, self, feature_names=feature_names, scaled=scaled)

    def report(self, **options: Any) -> Any:
        """Return a report to look at.

        Parameters
        ----------
        **options
            Options of `schirn.app.report.CleanReport`, such as `texts`.

        Returns
        -------
        CleanReport
        """
        # The library does not import the app, which may be absent.
        make_report = tool("report")
        if make_report is None:
            raise InputError("schirn.app, which makes reports, is not installed")
        return make_report(self, **options)

"""Judge tags by the other tags of their rows as well: implications and exclusions as evidence.

A ranker judges a tag by the features of its row. The other tags of the row are evidence too: a tag
listed in most rows with "poodle", such as "dog", is more likely correct next to it, and more likely
missing where "poodle" stands alone; two tags that hardly ever occur together make each other
suspicious.

How strongly two tags are related is counted in rows other than the judged ones. Of the rows with
one tag, a share has the other; the bound of its 95% interval that is closer to chance counts, so
few rows give weak evidence. The evidence of one tag is the log-odds of this share minus the
log-odds of chance, times the probability that the other tag is correct. The strongest evidence for
a tag is added to its log-odds with weight 0.5, the strongest evidence against it with weight 0.3,
because the features express part of both already. Vocabulary lines that a person accepted count in
full, rejected lines not at all.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import expit, logit

from schirn._input import Array, location
from schirn.cleaning._relation_proposals import share_interval
from schirn.cleaning._storage import Needs
from schirn.cleaning._tag_use import countable_rows, incidence
from schirn.cleaning._text_ranker import shift_to_mean
from schirn.cleaning.ranker import Evidence, Ranker, RankingTask, UnlistedCells, check_evidence
from schirn.cleaning.vocabulary import Vocabulary
from schirn.scale.copies import equal_rows

_FOLDS = 10
# Weights of relations that were counted but not accepted by a person. Exclusions weigh less: people
# who give few tags to a row rarely give any two of them together, whatever the tags mean.
_WEIGHT_FOR = 0.5
_WEIGHT_AGAINST = 0.3
# Minimum number of rows with both tags for one to be evidence for the other.
_MIN_BOTH = 3
# Minimum share for an accepted implication, and maximum share, relative to chance, for an accepted
# exclusion.
_IMPLIED = 0.95
_EXCLUDED = 0.1
# Minimum distance of all shares from 0 and 1.
_LEAST = 1e-4
# Number of the ranker's suggestions per returned suggestion: relations change their order.
_MORE_UNLISTED = 2
# Maximum number of pairs (a cell and another tag of its row) compared at once.
_MOST_PAIRS = 1_000_000


@dataclass(eq=False)
class RelationRanker(Ranker):
    """Add the evidence of the other tags of a row to another ranker.

    `find_noisy_labels` uses it if it gets a vocabulary.

    Parameters
    ----------
    ranker : Ranker
        Judges the tags by features.
    vocabulary : Vocabulary, optional
        Its accepted implications and exclusions count in full, rejected ones not at all.

    Examples
    --------
    >>> from schirn import find_noisy_labels
    >>> from schirn.cleaning import CentroidRanker, RelationRanker
    >>> texts = ["old poodle", "young poodle", "red sofa", "blue sofa"] * 10
    >>> tags = [["poodle", "dog"], ["poodle", "dog"], ["sofa"], ["sofa", "home"]] * 10
    >>> ranker = RelationRanker(CentroidRanker())
    >>> find_noisy_labels(texts, tags, method=ranker).method
    'label centroids'
    """

    ranker: Ranker
    vocabulary: Vocabulary = field(default_factory=Vocabulary)

    @property
    def takes_votes(self) -> bool:  # type: ignore[override]
        """True if the other ranker uses votes."""
        return self.ranker.takes_votes

    @property
    def checkpoint(self) -> Any:
        """Checkpoint folder of the other ranker."""
        return self.ranker.checkpoint

    @property
    def name(self) -> str:
        """Name of the other ranker."""
        return self.ranker.name

    def settings(self) -> dict[str, Any]:
        """Return the settings of the other ranker, and the lines of the vocabulary.

        Returns
        -------
        dict from str to object
        """
        return {**self.ranker.settings(), "vocabulary": self.vocabulary.to_records()}

    def needs(self, task: RankingTask) -> Needs:
        """Return the needs of the other ranker.

        Parameters
        ----------
        task : RankingTask
            The tags to judge.

        Returns
        -------
        Needs
        """
        return self.ranker.needs(task)

    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Judge by the other ranker, and then by the other tags of each row.

        Parameters
        ----------
        X : (n, d) array or CSR matrix
            Features, or rows in a location that `needs` names.
        task : RankingTask
            The tags to judge.

        Returns
        -------
        Evidence
        """
        count = task.n_unlisted
        longer_task = task
        if count is not None:
            longer_task = replace(task, n_unlisted=_MORE_UNLISTED * count)
        evidence = check_evidence(self.ranker.rank(X, longer_task), longer_task, self.name)
        if not evidence.judged.any():
            return evidence
        groups = task.groups
        if location(X) == "memory":
            groups = task.groups_with_copies(equal_rows(X))
        groups = np.arange(task.tags.n_rows) if groups is None else groups
        relations = Relations(task, evidence, self.vocabulary, groups % _FOLDS)
        return relations.added(evidence, count)


class Relations:
    """Co-occurrence of the tags of a table, as evidence for each tag.

    Parameters
    ----------
    task : RankingTask
        The tags to judge.
    evidence : Evidence
        Evidence from the features.
    vocabulary : Vocabulary
        Accepted and rejected lines override the counts.
    fold : (n,) int array
        Fold of each row. Tags are judged by co-occurrence in the rows of other folds.
    """

    def __init__(
        self, task: RankingTask, evidence: Evidence, vocabulary: Vocabulary, fold: Array
    ) -> None:
        tags = task.tags
        self._task = task
        self._fold = fold
        confidence = expit(evidence.log_odds)
        # Tags that could not be judged get the mean confidence.
        typical = confidence[evidence.judged].mean()
        self._confidence = np.where(evidence.judged, confidence, typical)
        self._first = np.searchsorted(tags.row, np.arange(tags.n_rows + 1))
        listed = incidence(tags)
        rows = countable_rows(listed)
        self._counted = listed[rows]
        self._counted_fold = fold[rows]
        self._common = self._counted.T @ self._counted
        self._counts = self._counted.sum(axis=0)
        implied, excluded, rejected = _answered_pairs(vocabulary, tags.names)
        self._implied = implied
        self._excluded = excluded
        self._rejected = rejected

    def added(self, evidence: Evidence, n_unlisted: int | None) -> Evidence:
        """Add the evidence of relations; mean probabilities stay unchanged.

        Parameters
        ----------
        evidence : Evidence
            Evidence from the features.
        n_unlisted : int or None
            Number of unlisted cells to keep.

        Returns
        -------
        Evidence
        """
        tags = self._task.tags
        judged = evidence.judged
        log_odds = evidence.log_odds + self.of(tags.row, tags.column)
        mean = float(expit(evidence.log_odds[judged]).mean())
        shift = shift_to_mean(log_odds[judged], mean)
        planted = evidence.planted + self.of(*self._task.planted) + shift
        unlisted = evidence.unlisted
        if unlisted is not None and len(unlisted.row):
            z = unlisted.log_odds + self.of(unlisted.row, unlisted.column)
            z = z + shift_to_mean(z, float(expit(unlisted.log_odds).mean()))
            unlisted = UnlistedCells.first([unlisted._replace(log_odds=z)], n_unlisted)
        log_odds = np.where(judged, log_odds + shift, 0.0)
        return evidence._replace(log_odds=log_odds, planted=planted, unlisted=unlisted)

    def of(self, row: Array, column: Array) -> Array:
        """Return the evidence of the other tags of their rows about some cells, in log-odds.

        Parameters
        ----------
        row, column : (k,) int arrays
            Row and label of each cell.

        Returns
        -------
        (k,) float array
        """
        result = np.zeros(len(row))
        for fold in np.unique(self._fold[row]).tolist():
            in_fold = self._counted[self._counted_fold == fold]
            # Number of rows of the other folds in which tags occur together.
            common = self._common - in_fold.T @ in_fold
            counts = self._counts - in_fold.sum(axis=0)
            n_rows = max(self._counted.shape[0] - in_fold.shape[0], 1)
            cells = np.flatnonzero(self._fold[row] == fold)
            for part in self._parts(row[cells]):
                chosen = cells[part]
                result[chosen] = self._strongest(
                    row[chosen], column[chosen], common, counts, n_rows
                )
        return result

    def _parts(self, row: Array) -> Iterator[slice]:
        """Yield slices of cells, so that each has a limited number of pairs."""
        total = np.cumsum(self._first[row + 1] - self._first[row])
        first = 0
        while first < len(row):
            n_before = total[first - 1] if first else 0
            last = int(np.searchsorted(total, n_before + _MOST_PAIRS, side="right"))
            last = max(first + 1, last)
            yield slice(first, last)
            first = last

    def _strongest(
        self, row: Array, column: Array, common: Any, counts: Array, n_rows: int
    ) -> Array:
        """Return the strongest evidence for each cell, plus the strongest against it."""
        tags = self._task.tags
        sizes = self._first[row + 1] - self._first[row]
        cell = np.repeat(np.arange(len(row)), sizes)
        offset = np.arange(len(cell)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        position = self._first[row][cell] + offset
        is_other = tags.column[position] != column[cell]
        cell = cell[is_other]
        position = position[is_other]
        tag = tags.column[position]
        target = column[cell]
        n_both = np.asarray(common[tag, target]).ravel() if len(cell) else np.zeros(0)
        change = self._change(tag, target, n_both, counts, n_rows)
        change *= self._confidence[position]
        strongest = np.zeros((2, len(row)))
        np.maximum.at(strongest[0], cell, change)
        np.minimum.at(strongest[1], cell, change)
        return np.asarray(strongest.sum(axis=0))

    def _change(
        self, tag: Array, target: Array, n_both: Array, counts: Array, n_rows: int
    ) -> Array:
        """Return the change that each tag makes to the log-odds of its target."""
        low, high = share_interval(n_both, counts[tag])
        chance = _inner(counts[target] / n_rows)
        speaks_for = (low > chance) & (n_both >= _MIN_BOTH)
        share = np.where(speaks_for, low, np.where(high < chance, high, chance))
        weight = np.where(share > chance, _WEIGHT_FOR, _WEIGHT_AGAINST)
        change = weight * (logit(_inner(share)) - logit(chance))
        pair = tag * len(self._task.tags.names) + target
        change[np.isin(pair, self._rejected)] = 0
        is_implied = np.isin(pair, self._implied)
        at_least = logit(np.maximum(low, _IMPLIED)) - logit(chance)
        change = np.where(is_implied, np.maximum(at_least, 0), change)
        is_excluded = np.isin(pair, self._excluded)
        at_most = logit(_inner(np.minimum(high, _EXCLUDED * chance))) - logit(chance)
        return np.where(is_excluded, at_most, change)


def _inner(share: Array) -> Array:
    return np.clip(share, _LEAST, 1 - _LEAST)


def _answered_pairs(vocabulary: Vocabulary, names: list[str]) -> tuple[Array, Array, Array]:
    """Return the implied, excluded and rejected pairs, each pair encoded as one number."""
    place = {name: j for j, name in enumerate(names)}

    def numbers(pairs: Iterable[tuple[str, str]]) -> Array:
        known = [
            place[tag] * len(names) + place[target]
            for tag, target in pairs
            if tag in place and target in place
        ]
        return np.array(sorted(known), dtype=np.int64)

    implied = [(tag, parent) for tag, parents in vocabulary.parents.items() for parent in parents]
    rejected = [
        (line.tag, line.target)
        for line in vocabulary
        if line.accept == "no" and line.action in ("imply", "exclude")
    ]
    excluded = _both_ways(vocabulary.exclusions)
    return numbers(implied), numbers(excluded), numbers(_both_ways(rejected))


def _both_ways(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [*pairs, *((target, tag) for tag, target in pairs)]

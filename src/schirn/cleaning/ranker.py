"""What cleaning needs of a method: the contract `Ranker`.

A ranker gets the features of a table and a `RankingTask`, and returns `Evidence`: the log-odds that
each listed tag is correct, that of tags planted where they do not belong, and that of the likeliest
tags that are not listed. The one rule is that no row takes part in its own verdict: leave it out of
a fit, or put it into another fold. `find_noisy_labels` does the rest, and takes any ranker as
`method`:

- `SieveRanker`: one fit of `Sieve`, with each row left out in closed form (the default for dense
  features);
- `FoldRanker`: a method of this library or a scikit-learn classifier, in folds;
- `CentroidRanker`: for very many labels (the default above 3,000);
- `TextRanker`: for texts and other sparse rows (their default), in folds.

If a ranker has log-odds of all cells, `Evidence.from_matrix` picks those that the task asks for.
Here, the ten nearest rows vote for each label:

>>> import numpy as np
>>> from scipy.special import logit
>>> from sklearn.neighbors import NearestNeighbors
>>> from schirn.cleaning import Evidence, Ranker, find_noisy_labels
>>> from schirn.datasets import load_digits_attributes
>>> class NearestRows(Ranker):
...     def rank(self, X, task):
...         rows = NearestNeighbors(n_neighbors=10).fit(X).kneighbors(return_distance=False)
...         share = task.tags.dense()[rows].mean(axis=1)
...         return Evidence.from_matrix(task, logit(np.clip(share, 0.01, 0.99)))
>>> digits = load_digits_attributes(r=2).subset(range(400))
>>> found = find_noisy_labels(digits.X, digits.candidates, method=NearestRows())
>>> suspects = np.argsort(found.confidence)[:100]
>>> wrong = digits.y_true[found.row[suspects], found.column[suspects]] == 0
>>> found.method, int(wrong.sum())
('NearestRows', 100)
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from schirn._input import Array, canonical
from schirn.cleaning._storage import Needs
from schirn.exceptions import InputError
from schirn.labels.tags import Tags
from schirn.scale.copies import equal_rows

MIN_COUNT = 5
# Planted tags, and cells among which each of them is sought.
_MAX_PLANTED = 5000
_TRIES = 20


class Annotator(NamedTuple):
    """Quality of one annotator, as far as votes and features tell.

    Attributes
    ----------
    name : object
    ballots : int
        Number of rows that the annotator looked at.
    sensitivity : float
        Probability that a correct tag gets their vote.
    false_factor : float
        How much more often than average they vote for wrong tags.
    """

    name: Any
    ballots: int
    sensitivity: float
    false_factor: float


class UnlistedCells(NamedTuple):
    """Cells that are not listed, and the log-odds that the label is correct.

    Attributes
    ----------
    row, column : (k,) int arrays
    log_odds : (k,) float array
    """

    row: Array
    column: Array
    log_odds: Array

    @classmethod
    def first(cls, parts: "Sequence[UnlistedCells]", count: int | None) -> "UnlistedCells":
        """Return the likeliest of several lists of cells.

        Parameters
        ----------
        parts : sequence of UnlistedCells
        count : int or None
            Number of cells; None returns all of them, sorted.

        Returns
        -------
        UnlistedCells
            The likeliest first.
        """
        cells = cls(*map(np.concatenate, zip(*parts, strict=True)))
        best = np.argsort(-cells.log_odds, kind="stable")[:count]
        return cls(*(values[best] for values in cells))


@dataclass(frozen=True, eq=False)
class RankingTask:
    """What a ranker is to judge, besides the features.

    Attributes
    ----------
    tags : Tags
        The listed tags as parallel arrays `row` and `column`, sorted by row; `names` and `n_rows`.
    columns : int array
        Labels to rank: those that some rows list, but not all.
    known : (m,) int array
        Answers about the listed tags: 1 correct, -1 wrong, 0 not known.
    votes : Votes or (counts, voters), optional
        As in `find_noisy_labels`; only for rankers that have `takes_votes`.
    groups : (n,) int array, optional
        Rows of one group must not judge each other.
    min_count : int
        Rows other than its own in which a tag must be listed to be judged, plus one.
    n_unlisted : int, optional
        How many of the likeliest unlisted cells to return; None returns none.
    random_state : int, optional
    """

    tags: Tags
    columns: Array
    known: Array
    votes: Any = None
    groups: Array | None = None
    min_count: int = MIN_COUNT
    n_unlisted: int | None = None
    random_state: int | None = 0

    @property
    def judged_columns(self) -> Array:
        """Labels with enough tags. Listed tags of others are not judged, whatever a ranker says."""
        return self.columns[self.tags.counts[self.columns] >= self.min_count]

    @property
    def is_informed(self) -> bool:
        """Whether anything but features and tags is given."""
        return bool(self.known.any()) or self.votes is not None

    def groups_with_copies(self, copy_group: Array) -> Array | None:
        """Return groups of rows that must not judge each other: `groups`, merged with copies.

        Features that repeat in most rows although the tags differ are categories, not copies.

        Parameters
        ----------
        copy_group : (n,) int array
            Rows with the same features have the same number, from 0.

        Returns
        -------
        (n,) int array, or None without groups
        """
        groups = self.groups
        tags = self.tags
        n = tags.n_rows
        distinct = int(copy_group.max(initial=-1)) + 1
        if distinct == n:
            return groups
        if 2 * distinct < n:
            ones = np.ones(len(tags.row), dtype=np.uint8)
            Y = canonical(sp.csr_array((ones, (tags.row, tags.column)), shape=tags.shape))
            Y.data[:] = 1
            if len(np.unique(np.c_[copy_group, equal_rows(Y)], axis=0)) > 1.5 * distinct:
                return groups
        if groups is None:
            return copy_group
        size = distinct + int(groups.max()) + 1
        links = sp.coo_array((np.ones(n), (copy_group, distinct + groups)), shape=(size, size))
        return np.asarray(connected_components(links, directed=False)[1][copy_group])

    @cached_property
    def planted(self) -> tuple[Array, Array]:
        """Row and column of wrong tags to judge as if they were listed: random unlisted cells.

        There is at most one in a row, and none in rows without a tag that is judged.
        """
        tags = self.tags
        columns = self.judged_columns
        rng = np.random.default_rng(self.random_state)
        row = rng.permutation(np.unique(tags.row[np.isin(tags.column, columns)]))
        row = np.sort(row[:_MAX_PLANTED])
        draws = rng.choice(columns, (len(row), _TRIES))
        is_listed = tags.lists(row[:, None], draws)
        column = draws[np.arange(len(row)), is_listed.argmin(axis=1)]
        is_wrong = ~is_listed.all(axis=1)
        return row[is_wrong], column[is_wrong]

    def replaced(self, log_odds: Array) -> Array:
        """Return the listed tag whose place each planted one takes: the least likely of its row.

        Parameters
        ----------
        log_odds : (m,) float array
            Log-odds that each listed tag is correct.

        Returns
        -------
        (k,) int array
            Position of a listed tag for each planted one.
        """
        order = np.lexsort((log_odds, self.tags.row))
        return order[np.searchsorted(self.tags.row, self.planted[0])]


class Evidence(NamedTuple):
    """What a ranker says about a table. No row takes part in its own verdicts.

    Attributes
    ----------
    log_odds : (m,) float array
        Log-odds that each listed tag is correct.
    judged : (m,) bool array
        Which tags could be judged.
    planted : (k,) float array
        Log-odds of the wrong tags that the task plants; NaN for those that could not be judged.
    unlisted : UnlistedCells or None
        The likeliest unlisted cells; None if the ranker looks for none.
    annotators : list of Annotator or None
        Quality of every annotator, if the votes name them.
    """

    log_odds: Array
    judged: Array
    planted: Array = np.zeros(0)
    unlisted: UnlistedCells | None = None
    annotators: list[Annotator] | None = None

    @classmethod
    def from_matrix(cls, task: RankingTask, log_odds: Array) -> "Evidence":
        """Pick what a task asks for from the log-odds (n, l) of all cells.

        Parameters
        ----------
        task : RankingTask
        log_odds : (n, l) float array
            Log-odds that each label of each row is correct.

        Returns
        -------
        Evidence
        """
        tags = task.tags
        is_judged = np.isin(tags.column, task.judged_columns)
        z = log_odds[tags.row, tags.column]
        unlisted = None
        if task.n_unlisted is not None:
            Z = log_odds[:, task.columns]
            Y = tags.dense(task.columns)
            unlisted = likeliest_unlisted(Z, Y, task.columns, task.n_unlisted)
        return cls(z, is_judged, log_odds[task.planted], unlisted)

    @classmethod
    def empty(cls, task: RankingTask) -> "Evidence":
        """Return evidence without a single tag that could be judged.

        Parameters
        ----------
        task : RankingTask

        Returns
        -------
        Evidence
        """
        nothing = np.zeros(len(task.tags.row))
        return cls(nothing, nothing > 0, np.full(len(task.planted[0]), np.nan))

    @classmethod
    def restore(cls, values: Sequence[Any]) -> "Evidence":
        """Return the evidence that a checkpoint has kept.

        Parameters
        ----------
        values : sequence
            The fields of `Evidence`, as plain arrays.

        Returns
        -------
        Evidence
        """
        evidence = cls(*values)
        unlisted = None if evidence.unlisted is None else UnlistedCells(*evidence.unlisted)
        return evidence._replace(unlisted=unlisted)

    @classmethod
    def merge(cls, parts: "Sequence[Evidence]", n_unlisted: int | None = None) -> "Evidence":
        """Join evidence about several folds.

        Parameters
        ----------
        parts : sequence of Evidence
            Each judges the tags of its own fold.
        n_unlisted : int, optional
            Number of unlisted cells to keep, the likeliest first; all of them by default.

        Returns
        -------
        Evidence
        """
        unlisted = [part.unlisted for part in parts if part.unlisted is not None]
        return cls(
            np.sum([np.where(part.judged, part.log_odds, 0) for part in parts], axis=0),
            np.any([part.judged for part in parts], axis=0),
            np.fmax.reduce([part.planted for part in parts]),
            UnlistedCells.first(unlisted, n_unlisted) if unlisted else None,
            parts[0].annotators,
        )


def likeliest_unlisted(log_odds: Array, Y: Array, columns: Array, count: int) -> UnlistedCells:
    """Return the likeliest unlisted cells, the likeliest first.

    Parameters
    ----------
    log_odds : (n, k) float array
    Y : (n, k) 0/1 array
    columns : (k,) int array
        The labels in question.
    count : int
        How many cells to return at most.
    """
    z = np.where(Y, -np.inf, log_odds).ravel()
    cells = np.argpartition(-z, max(min(count, len(z)) - 1, 0))[:count]
    cells = cells[np.argsort(-z[cells], kind="stable")]
    cells = cells[z[cells] > -np.inf]
    row, column = np.divmod(cells, len(columns))
    return UnlistedCells(row, columns[column], z[cells])


class Ranker(ABC):
    """Base class of everything that can judge tags for `find_noisy_labels`.

    A subclass implements `rank`; the opening of `schirn.cleaning.ranker` has an example. The other
    members have defaults.
    """

    takes_votes: bool = False
    """Whether `rank` uses votes."""
    checkpoint: Any = None
    """Folder for the state of a long run, if the call names none."""

    @abstractmethod
    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Judge the cells of a task by features.

        Parameters
        ----------
        X : (n, d) array or CSR matrix
            In main memory, unless `needs` names other places.
        task : RankingTask

        Returns
        -------
        Evidence
        """

    @property
    def name(self) -> str:
        """What results and reports call the ranker."""
        return type(self).__name__

    def settings(self) -> dict[str, Any]:
        """Return what the evidence depends on besides the data: a checkpoint must agree in it.

        Returns
        -------
        dict from str to object
        """
        return {"ranker": self.name}

    def needs(self, task: RankingTask) -> Needs:
        """Return where rows may live, and how much memory `rank` takes.

        Parameters
        ----------
        task : RankingTask

        Returns
        -------
        Needs
        """
        return Needs()


def check_evidence(evidence: Evidence, task: RankingTask, name: str) -> Evidence:
    """Return evidence with log-odds of 0 for tags that were not judged; raise if it is unusable."""
    size = (len(task.tags.row),)
    values = (evidence.log_odds, evidence.judged)
    if any(np.shape(value) != size for value in values) or np.isnan(evidence.log_odds).any():
        raise InputError(
            f"{name} must return log_odds and judged of {size[0]:,} tags without NaN",
            parameter="method",
        )
    is_judged = np.isin(task.tags.column, task.judged_columns)
    is_judged &= np.asarray(evidence.judged, dtype=bool)
    log_odds = np.where(is_judged, np.asarray(evidence.log_odds, dtype=np.float64), 0.0)
    # A ranker of somebody's own need not judge planted tags.
    planted = evidence.planted if len(evidence.planted) else Evidence.empty(task).planted
    return evidence._replace(log_odds=log_odds, judged=is_judged, planted=planted)

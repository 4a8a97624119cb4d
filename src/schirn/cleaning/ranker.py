"""The contract between cleaning and its methods: `Ranker`.

A ranker gets the features of a table and a `RankingTask`. It returns `Evidence`: the log-odds that
tags are correct, for each listed tag, for tags planted where they do not belong, and for the
likeliest tags that are not listed. The one rule is that no row influences its own verdict: leave it
out of the fit, or put it into another fold. `find_noisy_labels` does the rest, and takes any ranker
as `method`:

- `SieveRanker`: one fit of `Sieve`, with each row left out in closed form (default for dense
  features);
- `FoldRanker`: a method of this library or a scikit-learn classifier, in folds;
- `CentroidRanker`: for very many labels (default above 3,000);
- `TextRanker`: for texts and other sparse rows (default for these), in folds.

If a ranker has log-odds of all cells, `Evidence.from_matrix` picks the cells of the task. In this
example, the ten nearest rows vote for each label:

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
# Maximum number of planted tags, and number of cells drawn to find an unlisted one for each.
_MAX_PLANTED = 5000
_TRIES = 20


class Annotator(NamedTuple):
    """Quality of one annotator, estimated from votes and features.

    Attributes
    ----------
    name : object
        Name of the annotator.
    ballots : int
        Number of rows that the annotator looked at.
    sensitivity : float
        Probability that a correct tag gets their vote.
    false_factor : float
        Rate of votes for wrong tags, relative to the average annotator.
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
        Row and label of each cell.
    log_odds : (k,) float array
        Log-odds that the label is correct.
    """

    row: Array
    column: Array
    log_odds: Array

    @classmethod
    def first(cls, parts: "Sequence[UnlistedCells]", count: int | None) -> "UnlistedCells":
        """Return the likeliest cells of several lists.

        Parameters
        ----------
        parts : sequence of UnlistedCells
            The lists.
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
    """Input of a ranker in addition to the features.

    Attributes
    ----------
    tags : Tags
        The listed tags: parallel arrays `row` and `column`, sorted by row, with `names` and
        `n_rows`.
    columns : int array
        Labels to rank: labels listed in some rows but not all.
    known : (m,) int array
        1 for listed tags known to be correct, -1 for wrong ones, 0 for the others.
    votes : Votes or (counts, voters), optional
        As in `find_noisy_labels`; only for rankers with `takes_votes`.
    groups : (n,) int array, optional
        Rows of one group must not judge each other.
    min_count : int
        Minimum number of rows that list a tag to be judged, including its own row.
    n_unlisted : int, optional
        Number of unlisted cells to return, the likeliest first; None returns none.
    random_state : int, optional
        Seed of all random choices.
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
        """Labels with enough tags; listed tags of other labels are never judged."""
        return self.columns[self.tags.counts[self.columns] >= self.min_count]

    @property
    def is_informed(self) -> bool:
        """True if known tags or votes are given in addition to features and tags."""
        return bool(self.known.any()) or self.votes is not None

    def groups_with_copies(self, copy_group: Array) -> Array | None:
        """Return groups of rows that must not judge each other: `groups`, merged with copies.

        Features that repeat in most rows, with different tags, are categories rather than copies.

        Parameters
        ----------
        copy_group : (n,) int array
            Number of each row, from 0; the same for rows with the same features.

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
        """Row and column of random unlisted cells, to be judged as if they were listed.

        Each row has at most one; rows without a judged tag have none.
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
        """Return the listed tag that each planted tag replaces: the least likely of its row.

        Parameters
        ----------
        log_odds : (m,) float array
            Log-odds that each listed tag is correct.

        Returns
        -------
        (k,) int array
            Position of a listed tag for each planted tag.
        """
        order = np.lexsort((log_odds, self.tags.row))
        return order[np.searchsorted(self.tags.row, self.planted[0])]


class Evidence(NamedTuple):
    """Output of a ranker. No row influences its own verdicts.

    Attributes
    ----------
    log_odds : (m,) float array
        Log-odds that each listed tag is correct.
    judged : (m,) bool array
        True for tags that could be judged.
    planted : (k,) float array
        Log-odds of the wrong tags planted by the task; NaN if a tag could not be judged.
    unlisted : UnlistedCells or None
        The likeliest unlisted cells; None if the ranker returns none.
    annotators : list of Annotator or None
        Quality of each annotator, if the votes name them.
    """

    log_odds: Array
    judged: Array
    planted: Array = np.zeros(0)
    unlisted: UnlistedCells | None = None
    annotators: list[Annotator] | None = None

    @classmethod
    def from_matrix(cls, task: RankingTask, log_odds: Array) -> "Evidence":
        """Select the evidence for a task from the log-odds (n, l) of all cells.

        Parameters
        ----------
        task : RankingTask
            The tags to judge.
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
        """Return evidence in which no tag could be judged.

        Parameters
        ----------
        task : RankingTask
            The tags to judge.

        Returns
        -------
        Evidence
        """
        nothing = np.zeros(len(task.tags.row))
        return cls(nothing, nothing > 0, np.full(len(task.planted[0]), np.nan))

    @classmethod
    def restore(cls, values: Sequence[Any]) -> "Evidence":
        """Rebuild evidence from a checkpoint.

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
        """Merge the evidence of several folds.

        Parameters
        ----------
        parts : sequence of Evidence
            Each judges the tags of its own fold.
        n_unlisted : int, optional
            Number of unlisted cells to keep, the likeliest first; all by default.

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
        Log-odds that each label of each row is correct.
    Y : (n, k) 0/1 array
        Listed tags.
    columns : (k,) int array
        The labels of these columns.
    count : int
        Maximum number of cells.

    Returns
    -------
    UnlistedCells
    """
    z = np.where(Y, -np.inf, log_odds).ravel()
    cells = np.argpartition(-z, max(min(count, len(z)) - 1, 0))[:count]
    cells = cells[np.argsort(-z[cells], kind="stable")]
    cells = cells[z[cells] > -np.inf]
    row, column = np.divmod(cells, len(columns))
    return UnlistedCells(row, columns[column], z[cells])


class Ranker(ABC):
    """Base class of the methods that judge tags for `find_noisy_labels`.

    A subclass implements `rank`; the module docstring of `schirn.cleaning.ranker` has an example.
    The other members have defaults.
    """

    takes_votes: bool = False
    """True if `rank` uses votes."""
    checkpoint: Any = None
    """Default folder for the state of a long run."""

    @abstractmethod
    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Judge the tags of a task by the features.

        Parameters
        ----------
        X : (n, d) array or CSR matrix
            Features in main memory, unless `needs` names other locations.
        task : RankingTask
            The tags to judge.

        Returns
        -------
        Evidence
        """

    @property
    def name(self) -> str:
        """Name of the ranker in results and reports."""
        return type(self).__name__

    def settings(self) -> dict[str, Any]:
        """Return the settings that affect the evidence; a checkpoint must have the same.

        Returns
        -------
        dict from str to object
        """
        return {"ranker": self.name}

    def needs(self, task: RankingTask) -> Needs:
        """Return where rows may be stored, and how much memory `rank` takes.

        Parameters
        ----------
        task : RankingTask
            The tags to judge.

        Returns
        -------
        Needs
        """
        return Needs()


def rows_without_features(X: Any) -> Array:
    """Return a mask of the rows without features, such as empty texts.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
        Features; in dense rows, zeros are values.

    Returns
    -------
    (n,) bool array
    """
    if not sp.issparse(X):
        return np.zeros(X.shape[0], dtype=bool)
    return np.asarray(abs(X).sum(axis=1)).ravel() == 0


def check_evidence(evidence: Evidence, task: RankingTask, name: str) -> Evidence:
    """Return the evidence with log-odds 0 for tags not judged; raise if it is unusable."""
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
    # A user-defined ranker need not judge planted tags.
    planted = evidence.planted if len(evidence.planted) else Evidence.empty(task).planted
    return evidence._replace(log_odds=log_odds, judged=is_judged, planted=planted)

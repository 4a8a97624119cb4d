"""Judge all tags by one fit of `Sieve`, in which each row is left out in closed form."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logit
from sklearn.base import clone

from schirn._checkpoint import load, save
from schirn._progress import stage
from schirn.cleaning.groups import with_copies
from schirn.cleaning.ranker import (
    Annotator,
    Evidence,
    PlantedTags,
    Ranker,
    RankingTask,
    UnlistedCells,
    likeliest_unlisted,
)
from schirn.cleaning.storage import Needs
from schirn.exceptions import EmptyCandidatesWarning, InputError
from schirn.labels.known import read_cells
from schirn.labels.tags import Tags
from schirn.labels.votes import Votes
from schirn.linalg.arrays import to_numpy
from schirn.methods import Sieve, fit_settings
from schirn.noise.votes import anchored
from schirn.scale.input import location

Array = np.ndarray

# Peak memory of a fit per row and label, and per row and landmark, besides the features.
_BYTES_PER_CELL = 75
_BYTES_PER_LANDMARK = 4
# Log-odds beyond this are clipped before votes are added to them.
_LARGEST = 11


@dataclass(eq=False)
class SieveRanker(Ranker):
    """Judge all tags by one fit of `Sieve`.

    Up to `max_kernel_rows` rows, groups and rows with equal features are left out together. With
    more, copies are not searched for, and groups need a `FoldRanker`.

    Parameters
    ----------
    model : Sieve
    """

    model: Sieve
    takes_votes = True

    @property
    def name(self) -> str:
        """Name of the method."""
        return type(self.model).__name__

    @property
    def checkpoint(self) -> Any:
        """That of the method."""
        return self.model.checkpoint

    def settings(self) -> dict[str, Any]:
        """Return name and parameters of the method."""
        return fit_settings(self.model)

    def needs(self, task: RankingTask) -> Needs:
        """Many rows may also live elsewhere, on workers or without known tags and votes."""
        n_rows, model = task.tags.n_rows, self.model
        cells = _BYTES_PER_CELL * n_rows * len(task.columns)
        if n_rows <= model.max_kernel_rows:
            return Needs(cells=cells)
        # A linear kernel has no landmark features.
        landmarks = model.n_landmarks if model.kernel == "rbf" else 0
        return Needs(
            tuple(
                place for place in model.row_locations if place == "dask" or not task.is_informed
            ),
            False,
            cells,
            _BYTES_PER_LANDMARK * n_rows * landmarks,
        )

    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Judge by one fit, or return what an earlier run that was killed found."""
        columns = task.columns
        if not len(columns):
            nothing = np.zeros(len(task.tags.row))
            return Evidence(nothing, nothing > 0)
        name = f"labels-{columns[0]}-{len(columns)}"
        stored = load(name)
        if stored is not None:
            return Evidence.restore(stored)
        evidence = self._rank(X, task)
        if task.votes is None:
            save(name, evidence)
        return evidence

    def _rank(self, X: Any, task: RankingTask) -> Evidence:
        tags, columns, groups = task.tags, task.columns, task.groups
        is_elsewhere = location(X) in ("dask", "files")
        if not is_elsewhere and tags.n_rows <= self.model.max_kernel_rows:
            stage("looking for copies")
            groups = with_copies(X, tags, groups)
        Y = tags.dense(columns)
        fitted: Any = clone(self.model)
        fitted.keeps_log_odds = is_elsewhere
        with warnings.catch_warnings():
            # A row whose tags are all too rare has no candidates here.
            warnings.simplefilter("ignore", EmptyCandidatesWarning)
            fitted.fit(
                X,
                Y,
                label_names=[tags.names[j] for j in columns],
                known=tags.dense(columns, task.known) if task.known.any() else None,
                votes=_votes_for(task),
                groups=groups,
            )
        confidence, Z = fitted.label_confidence_, to_numpy(fitted.training_log_odds_)
        confidence = confidence if sp.issparse(confidence) else to_numpy(confidence)
        confidence = tags.pick(confidence, columns, 0.5).astype(np.float64)
        # A tag that only its own group lists, or hardly any other row, cannot be judged.
        others = tags.counts[tags.column] - _count_in_group(tags, groups)
        judged = np.isin(tags.column, columns) & (others >= max(task.min_count - 1, 1))
        stage("judging planted tags")
        propensity = fitted.noise_model_.propensity
        planted = task.plant(
            confidence, judged, weights=None if propensity is None else np.exp(propensity)
        )
        # Left-out scores do not depend on what a row lists, so dropping its tags changes no score.
        is_suggested = fitted.probability_unlisted(tags.pick(Z, columns, 0)) >= 0.5
        likely = np.where(judged, confidence, 0)
        return Evidence(
            logit(confidence),
            judged,
            planted._replace(log_odds=_log_odds_of_planted(fitted, Z, Y, task, planted)),
            _unlisted(fitted, Z, Y, task),
            {
                "wrong_share": fitted.wrong_share_,
                "largest_wrong_share": fitted.largest_wrong_share_,
                "missing_rate": fitted.missing_rate_,
            },
            float(fitted.caution_.strict_share),
            float(likely @ is_suggested / max(likely.sum(), 1e-9)),
            _annotators(task.votes, fitted.vote_model_),
        )


def _count_in_group(tags: Tags, groups: Array | None) -> Array:
    """Number of rows in the group of each tag that list it."""
    if groups is None:
        return np.ones(len(tags.row), dtype=np.int64)
    cells = groups[tags.row] * len(tags.names) + tags.column
    _, inverse, counts = np.unique(cells, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse])


def _votes_for(task: RankingTask) -> Any:
    """Votes for the labels of a task; those of `Votes` are found by name."""
    votes, tags = task.votes, task.tags
    if isinstance(votes, Votes) or not (isinstance(votes, tuple) and len(votes) == 2):
        return votes
    counts = read_cells(votes[0], tags.names, "votes")
    if counts.shape != tags.shape:
        raise InputError(
            f"votes has counts of shape {counts.shape}, but the tags have {tags.shape}",
            parameter="votes",
        )
    return counts[:, task.columns], votes[1]


def _log_odds_of_planted(
    fitted: Any, Z: Array, Y: Array, task: RankingTask, planted: PlantedTags
) -> Array:
    """Log-odds of planted tags, from the left-out log-odds Z of all cells."""
    row, votes, k = planted.row, fitted.vote_model_, np.arange(len(planted.row))
    before, after = (
        np.searchsorted(task.columns, column)
        for column in (task.tags.column[planted.replaced], planted.column)
    )
    if votes is None:
        candidates = Y[row]
        candidates[k, before], candidates[k, after] = 0, 1
        return np.asarray(logit(fitted.posterior_of_candidates(Z[row], candidates)[k, after]))
    # A planted tag has the votes of the tag that it replaces.
    z = anchored(np.clip(Z, -_LARGEST, _LARGEST), votes.frequency)
    confidence = fitted.label_confidence_[row, before].astype(np.float64)
    return np.asarray(logit(np.clip(confidence, 1e-9, 1 - 1e-9)) - z[row, before] + z[row, after])


def _unlisted(fitted: Any, Z: Array, Y: Array, task: RankingTask) -> UnlistedCells:
    """Cells that are more likely correct than not, or as many as the task asks for."""
    if task.n_unlisted is None:
        missing = fitted.missing_.tocoo()
        return UnlistedCells(missing.row, task.columns[missing.col], logit(missing.data))
    row, column, z = likeliest_unlisted(Z, Y, task.n_unlisted)
    return UnlistedCells(row, task.columns[column], logit(fitted.probability_unlisted(z)))


def _annotators(votes: Any, model: Any) -> list[Annotator] | None:
    """Quality of every annotator, if the votes tell who voted for what."""
    if not isinstance(votes, Votes):
        return None
    ballots = np.bincount(votes.ballots.annotator, minlength=len(votes.workers))
    quality = (model.annotator_sensitivity, model.annotator_false_factor)
    columns = (votes.workers, ballots.tolist(), *(values.tolist() for values in quality))
    return [Annotator(*annotator) for annotator in zip(*columns, strict=True)]

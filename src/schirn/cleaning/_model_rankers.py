"""Rankers built on a model: one fit of `Sieve` that leaves each row out, or folds of any model."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logit
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from schirn._checkpoint import fit_settings, remembered
from schirn._input import Array, location
from schirn._progress import stage, track
from schirn.cleaning._storage import Needs
from schirn.cleaning.ranker import (
    Annotator,
    Evidence,
    Ranker,
    RankingTask,
    likeliest_unlisted,
)
from schirn.estimators import PartialMultiLabelClassifier
from schirn.exceptions import EmptyCandidatesWarning, InputError
from schirn.labels.tags import Tags
from schirn.labels.votes import Votes, votes_for_columns
from schirn.linalg.arrays import to_numpy
from schirn.noise.scored_tags import unclaimed_shares
from schirn.noise.votes import frequency_shift
from schirn.scale.copies import equal_rows

_FOLDS = 5
# Peak bytes of a fit of Sieve per row and label, and per row and landmark, without the features.
_BYTES_PER_CELL = 75
_BYTES_PER_LANDMARK = 4
# Bytes per cell that stay in memory if rows are processed in blocks: log-odds and candidates.
_BYTES_IN_BLOCKS = 9
# Log-odds beyond this are clipped before votes are added to them.
_LARGEST = 11
# Minimum distance of a probability from 0 and 1.
_LEAST = 1e-7


@dataclass(eq=False)
class ModelRanker(Ranker):
    """Base class of rankers that train copies of a model.

    Parameters
    ----------
    model : estimator
        The model; it is cloned before it is fitted.
    """

    model: Any

    @property
    def name(self) -> str:
        """Name of the model's class."""
        return type(self.model).__name__

    @property
    def checkpoint(self) -> Any:
        """Checkpoint folder of the model."""
        return getattr(self.model, "checkpoint", None)

    def settings(self) -> dict[str, Any]:
        """Return the class and parameters of the model."""
        return fit_settings(self.model)


@dataclass(eq=False)
class SieveRanker(ModelRanker):
    """Judge all tags by one fit of `Sieve`.

    With up to `max_kernel_rows` rows, or any number of sparse rows and a linear kernel, groups and
    rows with equal features are left out together. With more rows, copies are not searched for, and
    groups need a `FoldRanker`.

    If wrong tags fall on rare labels as often as on frequent ones, Sieve trusts too many tags of
    rare labels. The order of the scores shows how much it understates the share of wrong tags among
    labels of similar frequency (`schirn.noise.scored_tags`). Log-odds are lowered by twice this
    amount, in units of their spread.

    Parameters
    ----------
    model : Sieve
        The model to fit.
    """

    takes_votes = True

    def needs(self, task: RankingTask) -> Needs:
        """Return the needs: many rows may also be on Dask workers, in files or on a device.

        With known tags or votes, rows may only be in main memory or on Dask workers.

        Parameters
        ----------
        task : RankingTask
            The tags to judge.

        Returns
        -------
        Needs
        """
        n_rows = task.tags.n_rows
        model = self.model
        cells = n_rows * len(task.columns)
        if n_rows <= model.max_kernel_rows:
            return Needs(memory=_BYTES_PER_CELL * cells)
        # A linear kernel has no landmark features.
        landmarks = _BYTES_PER_LANDMARK * n_rows * model.n_landmarks * (model.kernel == "rbf")
        return Needs(
            ("dask",) if task.is_informed else model.row_locations,
            are_few=False,
            memory=_BYTES_PER_CELL * cells + landmarks,
            blocks=_BYTES_IN_BLOCKS * cells,
        )

    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Judge by one fit, or return the evidence in the checkpoint of a killed run.

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
        if not len(task.judged_columns):
            return Evidence.empty(task)
        if task.votes is not None:
            return self._rank(X, task)
        return Evidence.restore(remembered("labels", lambda: self._rank(X, task)))

    def _rank(self, X: Any, task: RankingTask) -> Evidence:
        tags = task.tags
        columns = task.columns
        groups = task.groups
        is_elsewhere = location(X) in ("dask", "files")
        if not is_elsewhere and self.model.leaves_groups_out(tags.n_rows, sp.issparse(X)):
            stage("looking for copies")
            groups = task.groups_with_copies(equal_rows(X))
        Y = tags.dense(columns)
        model = clone(self.model).set_params(keep_log_odds=is_elsewhere)
        options = {
            "label_names": [tags.names[j] for j in columns],
            "known": tags.dense(columns, task.known) if task.known.any() else None,
            "votes": votes_for_columns(task.votes, tags, columns),
            "groups": groups,
        }
        fitted = _fit(model, X, Y, options)
        Z = to_numpy(fitted.training_log_odds_)
        confidence = _confidence_of_tags(fitted, task)
        # A tag cannot be judged if too few rows outside its own group list it.
        support = tags.counts[tags.column] - _count_in_group(tags, groups)
        is_judged = np.isin(tags.column, task.judged_columns)
        is_judged &= support >= max(task.min_count - 1, 1)
        row, column = task.planted
        log_odds = logit(confidence)
        planted = _log_odds_of_planted(fitted, Z, Y, row, np.searchsorted(columns, column))
        # If the noise is given, or votes are counted, the shares need no correction.
        if self.model.estimate_noise and task.votes is None and is_judged.any():
            shifts = _shifts_of_labels(Z, Y, task, confidence, is_judged)
            log_odds = log_odds - shifts[tags.column]
            planted = planted - shifts[column]
        annotators = _annotators(task.votes, fitted.vote_model_)
        unlisted = None
        if task.n_unlisted is not None:
            unlisted = likeliest_unlisted(Z, Y, columns, task.n_unlisted)
        return Evidence(log_odds, is_judged, planted, unlisted, annotators=annotators)


def _confidence_of_tags(fitted: Any, task: RankingTask) -> Array:
    """Return the confidence of each listed tag, inside (0, 1); 0.5 for unranked labels."""
    confidence = fitted.label_confidence_
    confidence = confidence if sp.issparse(confidence) else to_numpy(confidence)
    confidence = task.tags.pick(confidence, task.columns, 0.5).astype(np.float64)
    return np.clip(confidence, _LEAST, 1 - _LEAST)


def _shifts_of_labels(
    Z: Array, Y: Array, task: RankingTask, confidence: Array, is_judged: Array
) -> Array:
    """Return how much to lower the log-odds of each label with an understated share of errors."""
    tags = task.tags
    labels = tags.column[is_judged]
    place = np.searchsorted(task.columns, labels)
    p = confidence[is_judged]
    shares = np.zeros(len(tags.names))
    shares[task.columns] = 2 * unclaimed_shares(Z, Y, tags.row[is_judged], place, p)
    # The mean is unchanged, so confidences stay as high as Sieve's.
    return (shares - shares[labels].mean()) * logit(p).std()


@dataclass(eq=False)
class FoldRanker(ModelRanker):
    """Judge tags in folds, by any method of this library or classifier with `predict_proba`.

    A classifier for a single label, such as `LogisticRegression`, is trained for each label. Its
    probabilities are used unchanged. A label that is too rare in the training rows of a fold is not
    judged in that fold.

    Parameters
    ----------
    model : estimator
        A method of this library, or a scikit-learn classifier.
    cv : int, splitter or iterable of (train, test) row indices, optional
        As in `find_noisy_labels`; None is five folds.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from schirn import find_noisy_labels
    >>> from schirn.cleaning import FoldRanker
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> ranker = FoldRanker(LogisticRegression(), cv=3)
    >>> find_noisy_labels(data.X, data.candidates, method=ranker).method
    'LogisticRegression'
    """

    cv: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.cv, Iterator):
            self.cv = list(self.cv)

    def settings(self) -> dict[str, Any]:
        """Return the folds, and the class and parameters of the model.

        Returns
        -------
        dict from str to object
        """
        return {"cv": self.cv, **super().settings()}

    def needs(self, task: RankingTask) -> Needs:
        """Return the needs: all rows in main memory; only few rows are fetched from workers.

        Parameters
        ----------
        task : RankingTask
            The tags to judge.

        Returns
        -------
        Needs
        """
        return Needs(are_few=task.tags.n_rows <= getattr(self.model, "max_kernel_rows", 0))

    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Judge the tags of each fold by a model trained on the others.

        Parameters
        ----------
        X : (n, d) array or CSR matrix
            Features of the rows.
        task : RankingTask
            The tags to judge.

        Returns
        -------
        Evidence

        Raises
        ------
        InputError
            If `cv` does not put every row into exactly one test fold.
        """
        n_tests = np.zeros(task.tags.n_rows, dtype=int)
        folds = []
        for k, (train, test) in enumerate(self._folds(X, task)):
            n_tests[test] += 1
            judge = partial(self._rank_fold, X, task, train, test)
            folds.append(Evidence.restore(remembered(f"fold-{k}", judge)))
        if (n_tests != 1).any():
            row = int(np.flatnonzero(n_tests != 1)[0])
            raise InputError(
                f"cv must put every row into exactly one test fold, but row {row} is in "
                f"{n_tests[row]}",
                parameter="cv",
            )
        return Evidence.merge(folds, task.n_unlisted)

    def _rank_fold(self, X: Any, task: RankingTask, train: Array, test: Array) -> Evidence:
        """Judge the tags of the test rows by a model trained on the others."""
        tags = task.tags
        columns = task.judged_columns
        Y = tags.dense(columns)
        counts = Y[train].sum(axis=0)
        is_frequent = (counts >= task.min_count) & (counts < len(train))
        columns = columns[is_frequent]
        Y = Y[:, is_frequent]
        if not len(columns):
            return Evidence.empty(task)
        is_ours = isinstance(self.model, PartialMultiLabelClassifier)
        model = clone(self.model) if is_ours else _Classifier(self.model)
        options = {}
        if task.known.any() and has_fit_parameter(model, "known"):
            options["known"] = tags.dense(columns, task.known)[train]
        fitted = _fit(model, X[train], Y[train], options)
        place = np.full(tags.n_rows, -1)
        place[test] = np.arange(len(test))
        is_judged = (place[tags.row] >= 0) & np.isin(tags.column, columns)
        at = place[tags.row[is_judged]], np.searchsorted(columns, tags.column[is_judged])
        confidence = np.full(len(tags.row), 0.5)
        P = to_numpy(fitted.disambiguate(X[test], Y[test]))
        confidence[is_judged] = P[at]
        planted = np.full(len(task.planted[0]), np.nan)
        row, column = task.planted
        cells = np.flatnonzero((place[row] >= 0) & np.isin(column, columns))
        if len(cells):
            row = row[cells]
            new = np.searchsorted(columns, column[cells])
            P = to_numpy(fitted.disambiguate(X[row], _swap(Y[row], P[place[row]], new)[0]))
            planted[cells] = logit(P[np.arange(len(row)), new].astype(np.float64))
        unlisted = None
        if task.n_unlisted is not None:
            z = logit(to_numpy(fitted.predict_proba(X[test])).astype(np.float64))
            unlisted = likeliest_unlisted(z, Y[test], columns, task.n_unlisted)
            unlisted = unlisted._replace(row=test[unlisted.row])
        return Evidence(logit(confidence), is_judged, planted, unlisted)

    def _folds(self, X: Any, task: RankingTask) -> Iterable[tuple[Array, Array]]:
        """Return training and test rows of each fold; called inside a display that counts them."""
        # Imported here because most programs that import the library judge by one fit.
        from sklearn.model_selection import GroupKFold, KFold, check_cv

        cv = self.cv
        groups = task.groups
        n = task.tags.n_rows
        if cv is None or isinstance(cv, int | np.integer):
            # Copies share a fold unless this leaves too few folds.
            merged = task.groups_with_copies(equal_rows(X))
            if merged is not None and len(np.unique(merged)) >= (cv or _FOLDS):
                groups = merged
            largest = n if groups is None else len(np.unique(groups))
            cv = min(_FOLDS, max(largest, 2)) if cv is None else cv
            if not 2 <= cv <= largest:
                what = "row" if groups is None else "group"
                allowed = f"into 2 to {largest} folds, not {cv}" if largest > 1 else "into folds"
                can = "s can" if largest > 1 else " cannot"
                raise InputError(f"{largest} {what}{can} be split {allowed}", parameter="cv")
            kind = KFold if groups is None else GroupKFold
            cv = kind(int(cv), shuffle=True, random_state=task.random_state)
        if isinstance(cv, str) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
            kinds = "a number of folds, a splitter or (train, test) row indices"
            raise InputError(f"cv must be {kinds}, not {cv!r}", parameter="cv")
        rows = np.zeros((n, 1))
        cv = check_cv(cv)
        total = cv.get_n_splits(rows, groups=groups)
        return track(cv.split(rows, groups=groups), "fold", total)


def _fit(model: Any, X: Any, Y: Array, options: dict[str, Any]) -> Any:
    """Train a model without warnings: a row whose tags are all too rare has no candidates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyCandidatesWarning)
        return model.fit(X, Y, **options)


def _swap(Y: Array, scores: Array, planted: Array) -> tuple[Array, tuple[Array, Array]]:
    """Replace the least likely candidates by planted tags; return also the replaced cells."""
    k = np.arange(len(Y))
    replaced = k, np.where(Y, scores, np.inf).argmin(axis=1)
    Y = Y.copy()
    Y[replaced] = 0
    Y[k, planted] = 1
    return Y, replaced


def _count_in_group(tags: Tags, groups: Array | None) -> Array:
    """Return the number of rows in the group of each tag that list it."""
    if groups is None:
        return np.ones(len(tags.row), dtype=np.int64)
    cells = groups[tags.row] * len(tags.names) + tags.column
    _, inverse, counts = np.unique(cells, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse])


def _log_odds_of_planted(fitted: Any, Z: Array, Y: Array, row: Array, place: Array) -> Array:
    """Return the log-odds of planted tags, from the left-out log-odds Z of all cells."""
    votes = fitted.vote_model_
    k = np.arange(len(row))
    scores = Z[row] if votes is None else fitted.label_confidence_[row]
    candidates, replaced = _swap(Y[row], scores, place)
    if votes is None:
        return np.asarray(logit(fitted.posterior_of_candidates(Z[row], candidates)[k, place]))
    # A planted tag has the votes of the tag that it replaces.
    z = np.clip(Z, -_LARGEST, _LARGEST)
    z = (z + frequency_shift(z, votes.frequency))[row]
    confidence = scores[replaced].astype(np.float64)
    return np.asarray(logit(np.clip(confidence, 1e-9, 1 - 1e-9)) - z[replaced] + z[k, place])


def _annotators(votes: Any, model: Any) -> list[Annotator] | None:
    """Return the quality of each annotator, if the votes name the annotators."""
    if not isinstance(votes, Votes):
        return None
    ballots = np.bincount(votes.ballots.annotator, minlength=len(votes.workers))
    return [
        Annotator(
            name=name,
            ballots=int(ballots[k]),
            sensitivity=float(model.annotator_sensitivity[k]),
            false_factor=float(model.annotator_false_factor[k]),
        )
        for k, name in enumerate(votes.workers)
    ]


class _Classifier(BaseEstimator):
    """Adapter that gives a scikit-learn classifier the methods used in folds."""

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def fit(self, X: Any, Y: Array) -> "_Classifier":
        """Train on all labels at once if the classifier can, otherwise on each label."""
        # Imported here because most programs that import the library train no other classifier.
        from sklearn.multiclass import OneVsRestClassifier

        model = clone(self.classifier)
        tags = get_tags(self.classifier)
        multi_label = getattr(tags.classifier_tags, "multi_label", False)
        takes_many = multi_label or tags.target_tags.multi_output
        self.fitted_ = model if takes_many else OneVsRestClassifier(model)
        # With uint8, scikit-learn mixes up the columns of more than 256 labels.
        Y = Y.astype(np.int64)
        self.fitted_.fit(X, Y.ravel() if Y.shape[1] == 1 and tags.target_tags.single_output else Y)
        self.n_labels_ = Y.shape[1]
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the probability (n, l) of each label."""
        P = self.fitted_.predict_proba(X)
        if isinstance(P, list):
            P = np.stack([classes[:, -1] for classes in P], axis=1)
        # For a single label, there is a column for each of its two classes.
        return np.clip(P[:, -self.n_labels_ :], _LEAST, 1 - _LEAST)

    def disambiguate(self, X: Any, Y: Array) -> Array:
        """Return the probability (n, l) of each candidate; 0 for the other cells."""
        return self.predict_proba(X) * Y

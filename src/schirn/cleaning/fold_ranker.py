"""Judge the tags of each fold of the rows by a model that was trained on the other folds."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from schirn._checkpoint import load, save
from schirn._progress import track
from schirn.cleaning.groups import with_copies
from schirn.cleaning.ranker import (
    Evidence,
    Ranker,
    RankingTask,
    UnlistedCells,
    likeliest_unlisted,
)
from schirn.cleaning.storage import Needs
from schirn.exceptions import EmptyCandidatesWarning, InputError
from schirn.linalg.arrays import to_numpy
from schirn.methods import PartialMultiLabelClassifier, fit_settings

Array = np.ndarray

_FOLDS = 5
# No classifier is quite sure.
_LEAST = 1e-6
# Shares that a fitted method may estimate.
_SHARES = ("wrong_share", "largest_wrong_share", "missing_rate")


@dataclass(eq=False)
class FoldRanker(Ranker):
    """Judge tags in folds, by any method of this library or classifier with `predict_proba`.

    A classifier that takes only one label at a time, such as `LogisticRegression`, is trained for
    each label. Its probabilities are used as they are. A label that is too rare in the training
    rows of a fold is not judged in that fold.

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

    model: Any
    cv: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.cv, Iterator):
            self.cv = list(self.cv)

    @property
    def name(self) -> str:
        """Name of the method or classifier."""
        return type(self.model).__name__

    @property
    def checkpoint(self) -> Any:
        """That of the method."""
        return getattr(self.model, "checkpoint", None)

    def settings(self) -> dict[str, Any]:
        """Return folds, and name and parameters of the method."""
        return {"cv": self.cv, **fit_settings(self.model)}

    def needs(self, task: RankingTask) -> Needs:
        """All rows must be in main memory; only few are brought there from workers."""
        return Needs(are_few=task.tags.n_rows <= getattr(self.model, "max_kernel_rows", 0))

    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Judge the tags of each fold by a model trained on the others."""
        n_tests, folds = np.zeros(task.tags.n_rows, dtype=int), []
        rng = np.random.default_rng(task.random_state)
        for k, (train, test) in enumerate(self._folds(X, task)):
            n_tests[test] += 1
            stored = load(f"fold-{k}")
            if stored is None:
                folds.append(self._judge(X, task, train, test, rng))
                save(f"fold-{k}", {"evidence": folds[-1], "rng": rng.bit_generator.state})
            else:
                folds.append(Evidence.restore(stored["evidence"]))
                rng.bit_generator.state = stored["rng"]
        if (n_tests != 1).any():
            row = int(np.flatnonzero(n_tests != 1)[0])
            raise InputError(
                f"cv must put every row into exactly one test fold, but row {row} is in "
                f"{n_tests[row]}",
                parameter="cv",
            )
        evidence = Evidence.merge([fold for fold in folds if fold.judged.any()] or folds[:1])
        if evidence.unlisted is None:
            return evidence
        best = np.argsort(-evidence.unlisted.log_odds, kind="stable")[: task.n_unlisted]
        unlisted = UnlistedCells(*(values[best] for values in evidence.unlisted))
        return evidence._replace(unlisted=unlisted)

    def _judge(
        self, X: Any, task: RankingTask, train: Array, test: Array, rng: np.random.Generator
    ) -> Evidence:
        """Judge the tags of the test rows by a model trained on the others."""
        tags, Y = task.tags, task.tags.dense(task.columns)
        counts = Y[train].sum(axis=0)
        frequent = np.flatnonzero((counts >= task.min_count) & (counts < len(Y[train])))
        columns, confidence = task.columns[frequent], np.full(Y.shape, np.nan)
        if not len(columns):
            return Evidence(np.zeros(len(tags.row)), np.zeros(len(tags.row), dtype=bool))
        model = self.model
        if not isinstance(model, PartialMultiLabelClassifier):
            model = _Classifier(model)
        options = {}
        if task.known.any() and has_fit_parameter(model, "known"):
            options["known"] = tags.dense(columns, task.known)[train]
        Y = Y[:, frequent]
        with warnings.catch_warnings():
            # A row whose tags are all too rare has no candidates here.
            warnings.simplefilter("ignore", EmptyCandidatesWarning)
            fitted = clone(model).fit(X[train], Y[train], **options)
            confidence[np.ix_(test, frequent)] = to_numpy(fitted.disambiguate(X[test], Y[test]))
        p = tags.pick(confidence, task.columns, np.nan)
        judged = ~np.isnan(p)
        count = None
        if isinstance(task.planted, int):
            count = max(1, task.planted * len(test) // tags.n_rows)
            count = min(count, int((judged & (task.known == 0)).sum()))
        planted = task.plant(p, judged, columns=columns, count=count, rng=rng)
        if len(planted.row):
            k, new = np.arange(len(planted.row)), np.searchsorted(columns, planted.column)
            swapped = Y[planted.row]
            swapped[k, np.searchsorted(columns, tags.column[planted.replaced])] = 0
            swapped[k, new] = 1
            q = to_numpy(fitted.disambiguate(X[planted.row], swapped))[k, new]
            planted = planted._replace(log_odds=logit(q.astype(np.float64)))
        unlisted = None
        if task.n_unlisted is not None:
            z = logit(to_numpy(fitted.predict_proba(X[test])).astype(np.float64))
            row, column, z = likeliest_unlisted(z, Y[test], task.n_unlisted)
            unlisted = UnlistedCells(test[row], columns[column], z)
        shares = {
            name: float(getattr(fitted, f"{name}_"))
            for name in _SHARES
            if hasattr(fitted, f"{name}_")
        }
        caution = getattr(fitted, "caution_", None)
        strict = None if caution is None else float(caution.strict_share)
        return Evidence(logit(np.where(judged, p, 0.5)), judged, planted, unlisted, shares, strict)

    def _folds(self, X: Any, task: RankingTask) -> Iterable[tuple[Array, Array]]:
        """Training and test rows of every fold; only made inside a display, which counts them."""
        cv, groups, n = self.cv, task.groups, task.tags.n_rows
        if cv is None or isinstance(cv, int | np.integer):
            # Copies share a fold unless too few folds would be left.
            merged = with_copies(X, task.tags, groups)
            if merged is not None and len(np.unique(merged)) >= (cv or _FOLDS):
                groups = merged
            largest = n if groups is None else len(np.unique(groups))
            cv = min(_FOLDS, max(largest, 2)) if cv is None else cv
            if not 2 <= cv <= largest:
                what = "row" if groups is None else "group"
                allowed = f"into 2 to {largest} folds, not {cv}" if largest > 1 else "into folds"
                can = "s can" if largest > 1 else " cannot"
                raise InputError(f"{largest} {what}{can} be split {allowed}", parameter="cv")
            from sklearn.model_selection import GroupKFold, KFold

            kind = KFold if groups is None else GroupKFold
            cv = kind(int(cv), shuffle=True, random_state=task.random_state)
        if hasattr(cv, "split") and not isinstance(cv, str):
            rows = np.zeros((n, 1))
            total = cv.get_n_splits(rows, groups=groups) if hasattr(cv, "get_n_splits") else None
            return track(cv.split(rows, groups=groups), "fold", total)
        if isinstance(cv, Iterable) and not isinstance(cv, str):
            return track(cv, "fold")
        raise InputError(
            f"cv must be a number of folds, a splitter or (train, test) row indices, not {cv!r}",
            parameter="cv",
        )


class _Classifier(BaseEstimator):
    """A scikit-learn classifier with the members that a fold needs of a method."""

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def fit(self, X: Any, Y: Array) -> "_Classifier":
        """Train on all labels at once if the classifier can, else on each."""
        # Here, since most programs that import the library train no other classifier.
        from sklearn.multiclass import OneVsRestClassifier

        tags = get_tags(self.classifier)
        takes_many = tags.target_tags.multi_output or tags.classifier_tags.multi_label
        model = clone(self.classifier)
        self.fitted_ = model if takes_many else OneVsRestClassifier(model)
        self.fitted_.fit(X, Y.ravel() if Y.shape[1] == 1 and tags.target_tags.single_output else Y)
        self.n_labels_ = Y.shape[1]
        return self

    def predict_proba(self, X: Any) -> Array:
        """Probability (n, l) of each label."""
        P = self.fitted_.predict_proba(X)
        if isinstance(P, list):
            P = np.stack([classes[:, -1] for classes in P], axis=1)
        # A label alone has a column for each of its two classes.
        return np.clip(P[:, -self.n_labels_ :], _LEAST, 1 - _LEAST)

    def disambiguate(self, X: Any, Y: Array) -> Array:
        """Probability (n, l) of each candidate; 0 elsewhere."""
        return self.predict_proba(X) * Y

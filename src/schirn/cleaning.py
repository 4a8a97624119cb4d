"""From noisy tags to clean ones: judge every tag by a model that has not seen its row."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from schirn._clean_then_fit import CleanThenFit
from schirn._noisy_labels import LabelSummary, NoisyLabels
from schirn._votes import Votes, votes_to_candidates
from schirn.exceptions import EmptyCandidatesWarning, InputError
from schirn.labels import Labels, as_labels
from schirn.methods import OracleRidge, PartialMultiLabelClassifier, Sieve, methods
from schirn.methods._base import _check_finite

__all__ = [
    "CleanThenFit",
    "LabelSummary",
    "NoisyLabels",
    "Votes",
    "find_noisy_labels",
    "votes_to_candidates",
]

Array = np.ndarray

MIN_COUNT = 5
_MOST_WORDS = 50_000


def find_noisy_labels(
    X: Any,
    candidates: Any,
    *,
    method: Any = None,
    cv: Any = 5,
    threshold: float = 0.5,
    max_remove_per_row: int | None = None,
    known_clean: Any = None,
    prior: Any = None,
    groups: Any = None,
    min_count: int = MIN_COUNT,
    label_names: Sequence[str] | None = None,
    separator: str = ";",
    random_state: int | None = 0,
) -> NoisyLabels:
    """Judge every tag of every row, and tell which ones are probably wrong.

    The rows are split into folds; the tags of a fold are judged by a model trained on the other
    folds, so that no row has a say in its own verdict.

    Parameters
    ----------
    X : (n, d) array, CSR matrix or DataFrame of numbers, or one text per row
    candidates : the tags: a 0/1 array, sparse matrix or DataFrame, one list of names per row, or
        one text such as "beach;dog" per row
    method : a method of this library, its name, or None for `Sieve`
    cv : number of folds, a scikit-learn splitter, or (train, test) row indices
    threshold : a tag whose probability of being right is below this is removed
    max_remove_per_row : at most so many tags of a row are removed, the least likely first
    known_clean : rows (n,) or cells (n, l) that somebody has checked, as truth values; their tags
        are kept with confidence 1
    prior : (n, l) probabilities known beforehand, such as those of `votes_to_candidates`; they
        multiply the odds, so 0.5 changes nothing
    groups : one value per row; rows with the same value (copies of a text, images of one scene)
        stay in one fold
    min_count : a tag listed in fewer training rows than this, or in all of them, is not judged:
        it is kept with confidence 0.5 and the verdict "unjudged"
    label_names : names of the columns of `candidates`, where it carries none
    separator : what stands between the tags of a text
    random_state : seed of the folds

    Examples
    --------
    >>> from schirn import find_noisy_labels
    >>> from schirn.datasets import load_digits_attributes
    >>> digits = load_digits_attributes(r=2).subset(range(400))
    >>> found = find_noisy_labels(digits.X, digits.candidates, label_names=digits.label_names)
    >>> found.n_rows, len(found.row)
    (400, 2403)
    >>> found.label[0], found.verdict[0]
    ('even', 'kept')
    """
    labels = _read_candidates(candidates, label_names, separator)
    X, model = _prepare(X, method)
    Y = labels.matrix
    _check_numbers(X, Y, threshold, max_remove_per_row, min_count)
    confidence, judged = _out_of_fold(model, X, Y, _folds(X, cv, groups, random_state), min_count)
    row, column = np.nonzero(Y)
    confidence, judged = confidence[row, column], judged[row, column]
    confidence = _with_prior(confidence, prior, Y, row, column)
    checked = _checked(known_clean, Y)[row, column]
    confidence[checked], judged = 1.0, judged | checked
    removed = judged & (confidence < threshold)
    if max_remove_per_row is not None:
        removed = _least_likely(row, confidence, removed, max_remove_per_row)
    return NoisyLabels(
        n_rows=len(Y),
        label_names=labels.names,
        row=row,
        column=column,
        confidence=confidence,
        removed=removed,
        judged=judged,
        threshold=float(threshold),
        method=type(model).__name__,
    )


def text_features(texts: Iterable[Any]) -> "sp.csr_array":
    """Tf-idf weights of the words and word pairs of each text, rows of length one."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = ["" if text is None or text != text else str(text) for text in texts]
    vectorizer = TfidfVectorizer(
        sublinear_tf=True, ngram_range=(1, 2), max_features=_MOST_WORDS, strip_accents="unicode"
    )
    try:
        return sp.csr_array(vectorizer.fit_transform(words))
    except ValueError:
        raise InputError(
            "the texts hold no words of two letters or more, so there is nothing to learn from"
        ) from None


def make_method(method: Any, *, text: bool = False) -> PartialMultiLabelClassifier:
    """An untrained method from a name, a class, an estimator or None."""
    if isinstance(method, str):
        known = {name.lower(): cls for name, cls in methods().items()}
        if method.lower() not in known:
            raise InputError(f"there is no method {method!r}; there are {', '.join(methods())}")
        method = known[method.lower()]
    if method is None:
        method = Sieve
    if method is Sieve and text:
        # The rows are weighted and scaled to length one already.
        return Sieve(features="none")
    model = method() if isinstance(method, type) else clone(method)
    if not isinstance(model, PartialMultiLabelClassifier):
        raise InputError(f"method must be a method of this library or its name, not {method!r}")
    if isinstance(model, OracleRidge):
        raise InputError("OracleRidge needs the true labels; choose another method")
    return model


def _read_candidates(candidates: Any, names: Sequence[str] | None, separator: str) -> Labels:
    if not hasattr(candidates, "shape") or getattr(candidates, "ndim", 2) == 1:
        rows = list(candidates)
        if any(isinstance(row, str) for row in rows):
            candidates = [_split(row, separator) for row in rows]
        else:
            candidates = rows
    labels = as_labels(candidates, names=names, what="tags")
    if not labels.matrix.any():
        raise InputError("no row carries a tag, so there is nothing to clean")
    return labels


def _split(cell: Any, separator: str) -> Any:
    if cell is None or (isinstance(cell, float) and cell != cell):
        return []
    if not isinstance(cell, str):
        return cell
    return [tag.strip() for tag in cell.split(separator) if tag.strip()]


def _prepare(X: Any, method: Any) -> tuple[Any, PartialMultiLabelClassifier]:
    """Features as an array that rows can be taken from, and the method for them."""
    if not sp.issparse(X) and not hasattr(X, "columns"):
        values = list(X) if not hasattr(X, "shape") else X
        first = next(iter(values), None) if getattr(values, "ndim", 1) == 1 else None
        if isinstance(first, str):
            return text_features(values), make_method(method, text=True)
        X = np.asarray(values)
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if sp.issparse(X):
        return sp.csr_array(X), make_method(method)
    return _numbers(X), make_method(method)


def _numbers(X: Array) -> Array:
    if X.dtype.kind in "biuf":
        return X
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"X must hold numbers, or one text per row ({error})") from None


def _check_numbers(X: Any, Y: Array, threshold: float, most: int | None, min_count: int) -> None:
    if len(X.shape) != 2 or X.shape[0] != len(Y):
        raise InputError(f"X has shape {X.shape} but there are tags for {len(Y)} rows")
    # Here, since a fold would count its rows from its own first one.
    _check_finite(X, None)
    if not 0 <= threshold <= 1:
        raise InputError(f"threshold must be between 0 and 1, not {threshold!r}")
    if most is not None and (most != int(most) or most < 0):
        raise InputError(f"max_remove_per_row must be a whole number or None, not {most!r}")
    if min_count < 1:
        raise InputError(f"min_count must be at least 1, not {min_count!r}")


def _folds(
    X: Any, cv: Any, groups: Any, random_state: int | None
) -> Iterator[tuple[Array, Array]] | Iterable[tuple[Array, Array]]:
    n = X.shape[0]
    if hasattr(cv, "split"):
        return cv.split(np.zeros((n, 1)), groups=groups)
    if not isinstance(cv, int | np.integer):
        return cv
    groups = None if groups is None else np.asarray(groups)
    if groups is not None and len(groups) != n:
        raise InputError(f"groups has {len(groups)} values for {n} rows")
    there = n if groups is None else len(set(groups.tolist()))
    if not 2 <= cv <= there:
        what = "rows" if groups is None else "groups"
        raise InputError(f"cv={cv} folds cannot be made of {there} {what}; give 2 to {there} folds")
    if groups is None:
        return KFold(int(cv), shuffle=True, random_state=random_state).split(np.zeros((n, 1)))
    splitter = GroupKFold(int(cv), shuffle=True, random_state=random_state)
    return splitter.split(np.zeros((n, 1)), groups=groups)


def _out_of_fold(
    model: PartialMultiLabelClassifier,
    X: Any,
    Y: Array,
    folds: Iterable[tuple[Array, Array]],
    min_count: int,
) -> tuple[Array, Array]:
    """Confidence (n, l) of the tags and whether they could be judged."""
    confidence = np.full(Y.shape, 0.5, dtype=np.float32)
    judged = np.zeros(Y.shape, dtype=bool)
    seen = np.zeros(len(Y), dtype=int)
    for train, test in folds:
        seen[test] += 1
        counts = Y[train].sum(axis=0)
        columns = np.flatnonzero((counts >= min_count) & (counts < len(Y[train])))
        if not len(columns):
            continue
        block = np.ix_(test, columns)
        with warnings.catch_warnings():
            # A row whose tags are all too rare is a row without tags here.
            warnings.simplefilter("ignore", EmptyCandidatesWarning)
            fitted = clone(model).fit(X[train], Y[np.ix_(train, columns)])
            confidence[block] = fitted.disambiguate(X[test], Y[block])
        judged[block] = True
    if (seen != 1).any():
        row = int(np.flatnonzero(seen != 1)[0])
        raise InputError(
            f"cv must put every row into one test fold, but row {row} is in {seen[row]}"
        )
    return confidence, judged


def _with_prior(confidence: Array, prior: Any, Y: Array, row: Array, column: Array) -> Array:
    """Multiply the odds of each tag by those of its prior."""
    confidence = confidence.astype(np.float64)
    if prior is None:
        return confidence
    prior = np.asarray(prior, dtype=np.float64)
    if prior.shape != Y.shape:
        raise InputError(f"prior has shape {prior.shape}, but the tags have {Y.shape}")
    p = prior[row, column]
    if not ((p >= 0) & (p <= 1)).all():
        k = int(np.flatnonzero(~((p >= 0) & (p <= 1)))[0])
        raise InputError(
            f"prior must be between 0 and 1, but row {row[k]}, label {column[k]} holds {p[k]}"
        )
    p = np.clip(p, 1e-6, 1 - 1e-6)
    right, wrong = confidence * p, (1 - confidence) * (1 - p)
    return right / np.maximum(right + wrong, 1e-300)


def _checked(known_clean: Any, Y: Array) -> Array:
    """Cells that somebody has checked, (n, l) bool."""
    if known_clean is None:
        return np.zeros(Y.shape, dtype=bool)
    known = np.asarray(known_clean)
    if known.shape not in ((len(Y),), Y.shape) or not np.isin(known, (0, 1)).all():
        raise InputError(
            f"known_clean must hold one truth value per row ({len(Y)}) or per cell {Y.shape}, "
            f"got {known.dtype} of shape {known.shape}"
        )
    known = known.astype(bool)
    return np.broadcast_to(known[:, None], Y.shape) if known.ndim == 1 else known


def _least_likely(row: Array, confidence: Array, removed: Array, most: int) -> Array:
    """Of the removed tags of each row, only the `most` with the lowest confidence."""
    order = np.lexsort((confidence, ~removed, row))
    first = np.searchsorted(row, row)
    rank = np.empty(len(row), dtype=int)
    rank[order] = np.arange(len(row))
    return removed & (rank - first < most)

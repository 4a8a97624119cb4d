"""From noisy tags to clean ones: judge every tag by a model that has not seen its row."""

import warnings
from collections.abc import Iterable, Sequence
from itertools import count
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from schirn._input import Number, canonical, check_finite, is_missing, suggest
from schirn.cleaning.found import NoisyLabels
from schirn.exceptions import EmptyCandidatesWarning, InputError
from schirn.labels.known import as_known, read_cells
from schirn.labels.tags import Tags, read_tags
from schirn.methods import OracleRidge, PartialMultiLabelClassifier, Sieve, methods

Array = np.ndarray

MIN_COUNT = 5
MAX_MEMORY = 8.0
# What Sieve, with the arrays here, holds at its peak per row and kind of tag, and per row and
# column of its factored kernel.
_BYTES_PER_CELL = 150
_BYTES_PER_KERNEL_CELL = 24
_MOST_WORDS = 50_000


def find_noisy_labels(
    X: Any,
    candidates: Any,
    *,
    method: Any = None,
    cv: Any = 5,
    threshold: float = 0.5,
    max_remove_per_row: int | None = None,
    known: Any = None,
    known_clean: Any = None,
    prior: Any = None,
    groups: Any = None,
    min_count: int = MIN_COUNT,
    max_memory: float = MAX_MEMORY,
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
    max_remove_per_row : at most so many tags of a row are removed, the least likely first; those
        that `known` calls wrong are removed in any case
    known : (n, l) array, sparse matrix or DataFrame: 1 where a tag is certainly right, -1 where it
        is certainly wrong, else 0. These verdicts stand, with confidence 1 or 0, and `Sieve`
        learns from them about the other tags; other methods do not.
    known_clean : rows (n,) or cells (n, l) that somebody has checked, as truth values; their tags
        are right, as if `known` said so
    prior : (n, l) probabilities known beforehand, such as those of `votes_to_candidates`; they
        multiply the odds, so 0.5 changes nothing. Columns of a DataFrame are matched by name, here
        and in `known` and `known_clean`; a tag without a column gets 0.5, or 0 there.
    groups : one value per row; rows with the same value (copies of a text, images of one scene)
        stay in one fold, and a row where it is missing stands alone
    min_count : a tag listed in fewer training rows than this, or in all of them, is not judged:
        it is kept with confidence 0.5 and the verdict "unjudged"
    max_memory : gigabytes; a table that needs more, by rows and kinds of tags that are frequent
        enough, is refused with advice
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
    tags = read_tags(candidates, label_names, separator)
    if not len(tags.row):
        raise InputError("no row carries a tag, so there is nothing to clean")
    X, model = _prepare(X, method)
    _check_numbers(X, tags, threshold, max_remove_per_row, min_count)
    told = _told(known, known_clean, tags)
    counts = tags.counts
    columns = np.flatnonzero((counts >= min_count) & (counts < tags.n_rows))
    _check_memory(model, counts, columns, tags.n_rows, max_memory)
    confidence, judged = _out_of_fold(
        model, X, tags, columns, told, _folds(X, cv, groups, random_state), min_count
    )
    confidence = _with_prior(confidence, prior, tags)
    confidence = np.where(told == 0, confidence, told > 0)
    judged = judged | (told != 0)
    row, column = tags.row, tags.column
    removed = judged & (confidence < threshold)
    if max_remove_per_row is not None:
        removed = _least_likely(row, confidence, removed, max_remove_per_row)
    removed = removed | (told < 0)
    return NoisyLabels(
        n_rows=tags.n_rows,
        label_names=tags.names,
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

    words = ["" if is_missing(text) else str(text) for text in texts]
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
            raise InputError(f"there is no method {method!r}; {suggest(method, methods())}")
        method = known[method.lower()]
    if method is None:
        method = Sieve
    if method is Sieve and text:
        # The rows are weighted and scaled to length one already.
        return Sieve(features="none")
    model = method() if isinstance(method, type) else clone(method)
    if not isinstance(model, PartialMultiLabelClassifier):
        raise InputError(
            f"method must be a method of this library or its name, not {method!r}",
            parameter="method",
        )
    if isinstance(model, OracleRidge):
        raise InputError("OracleRidge needs the true labels; choose another method")
    return model


def _prepare(X: Any, method: Any) -> tuple[Any, PartialMultiLabelClassifier]:
    """Features as an array that rows can be taken from, and the method for them."""
    if not sp.issparse(X) and not hasattr(X, "columns"):
        values = list(X) if not hasattr(X, "shape") else X
        flat = values if getattr(values, "ndim", 1) == 1 else ()
        if isinstance(next((value for value in flat if not is_missing(value)), None), str):
            return text_features(values), make_method(method, text=True)
        X = np.asarray(values)
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if sp.issparse(X):
        return canonical(X), make_method(method)
    return _numbers(X), make_method(method)


def _numbers(X: Array) -> Array:
    if X.dtype.kind in "biuf":
        return X
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"X must hold numbers, or one text per row ({error})") from None


def _check_numbers(X: Any, tags: Tags, threshold: float, most: int | None, min_count: int) -> None:
    if len(X.shape) != 2 or X.shape[0] != tags.n_rows:
        raise InputError(f"X has shape {X.shape} but there are tags for {tags.n_rows} rows")
    # Here, since a fold would count its rows from its own first one.
    check_finite(X)
    Number(high=1).check("threshold", threshold)
    Number(integer=True, none=True).check("max_remove_per_row", most)
    Number(1).check("min_count", min_count)


def _folds(X: Any, cv: Any, groups: Any, random_state: int | None) -> Iterable[tuple[Array, Array]]:
    n = X.shape[0]
    groups = None if groups is None else _group_numbers(groups, n)
    if not isinstance(cv, int | np.integer):
        return _splits(cv, n, groups)
    there = n if groups is None else len(np.unique(groups))
    if not 2 <= cv <= there:
        what = "rows" if groups is None else "groups"
        raise InputError(f"cv={cv} folds cannot be made of {there} {what}; give 2 to {there} folds")
    from sklearn.model_selection import GroupKFold, KFold

    if groups is None:
        return KFold(int(cv), shuffle=True, random_state=random_state).split(np.zeros((n, 1)))
    splitter = GroupKFold(int(cv), shuffle=True, random_state=random_state)
    return splitter.split(np.zeros((n, 1)), groups=groups)


def _splits(cv: Any, n: int, groups: Array | None) -> Iterable[tuple[Array, Array]]:
    """Folds of a splitter, or folds as they are."""
    if hasattr(cv, "split") and not isinstance(cv, str):
        folds: Iterable[tuple[Array, Array]] = cv.split(np.zeros((n, 1)), groups=groups)
        return folds
    if isinstance(cv, Iterable) and not isinstance(cv, str):
        return cv
    raise InputError(
        f"cv must be a number of folds, a splitter or (train, test) row indices, not {cv!r}",
        parameter="cv",
    )


def _group_numbers(groups: Iterable[Any], n: int) -> Array:
    """Groups as numbers in their own order; a row without a group stands alone."""
    values = list(groups)
    if len(values) != n:
        raise InputError(f"groups has {len(values)} values for {n} rows; give one per row")
    try:
        kinds = {value for value in values if not is_missing(value)}
        ordered = sorted(kinds, key=lambda value: (isinstance(value, str), value))
    except TypeError:
        raise InputError("groups must hold one text or number per row, not lists") from None
    place = {value: k for k, value in enumerate(ordered)}
    alone = count(len(place))
    return np.array([next(alone) if is_missing(value) else place[value] for value in values])


def _out_of_fold(
    model: PartialMultiLabelClassifier,
    X: Any,
    tags: Tags,
    columns: Array,
    told: Array,
    folds: Iterable[tuple[Array, Array]],
    min_count: int,
) -> tuple[Array, Array]:
    """Confidence of every tag and whether it could be judged."""
    Y, known = tags.dense(columns), _known_block(model, tags, columns, told)
    confidence = np.full(Y.shape, 0.5, dtype=np.float32)
    judged = np.zeros(Y.shape, dtype=bool)
    seen = np.zeros(len(Y), dtype=int)
    for train, test in folds:
        seen[test] += 1
        counts = Y[train].sum(axis=0)
        there = np.flatnonzero((counts >= min_count) & (counts < len(Y[train])))
        if not len(there):
            continue
        block, part = np.ix_(test, there), np.ix_(train, there)
        options = {} if known is None else {"known": known[part]}
        with warnings.catch_warnings():
            # A row whose tags are all too rare is a row without tags here.
            warnings.simplefilter("ignore", EmptyCandidatesWarning)
            fitted = clone(model).fit(X[train], Y[part], **options)
            confidence[block] = fitted.disambiguate(X[test], Y[block])
        judged[block] = True
    if (seen != 1).any():
        row = int(np.flatnonzero(seen != 1)[0])
        raise InputError(
            f"cv must put every row into one test fold, but row {row} is in {seen[row]}"
        )
    return tags.pick(confidence, columns, 0.5), tags.pick(judged, columns, False)


def _known_block(
    model: PartialMultiLabelClassifier, tags: Tags, columns: Array, told: Array
) -> Array | None:
    """What a method that asks for it is told about some columns."""
    if not told.any() or not has_fit_parameter(model, "known"):
        return None
    return tags.dense(columns, told)


def _with_prior(confidence: Array, prior: Any, tags: Tags) -> Array:
    """Multiply the odds of each tag by those of its prior."""
    confidence = confidence.astype(np.float64)
    if prior is None:
        return confidence
    prior = read_cells(prior, tags.names, "prior", default=0.5)
    if prior.shape != tags.shape:
        raise InputError(f"prior has shape {prior.shape}, but the tags have {tags.shape}")
    p = prior[tags.row, tags.column]
    if not ((p >= 0) & (p <= 1)).all():
        k = int(np.flatnonzero(~((p >= 0) & (p <= 1)))[0])
        raise InputError(
            f"prior must be between 0 and 1, but row {tags.row[k]}, label {tags.column[k]} holds "
            f"{p[k]}"
        )
    p = np.clip(p, 1e-6, 1 - 1e-6)
    right, wrong = confidence * p, (1 - confidence) * (1 - p)
    return right / np.maximum(right + wrong, 1e-300)


def _told(known: Any, known_clean: Any, tags: Tags) -> Array:
    """What is known about each tag: 1 right, -1 wrong, 0 nothing."""
    told = np.zeros(len(tags.row), dtype=np.int8)
    if known is not None:
        values = as_known(known, tags.dense(np.arange(len(tags.names))), tags.names)
        told = told if values is None else values[tags.row, tags.column]
    if known_clean is None:
        return told
    checked = read_cells(known_clean, tags.names, "known_clean")
    if checked.shape not in ((tags.n_rows,), tags.shape) or not np.isin(checked, (0, 1)).all():
        raise InputError(
            f"known_clean must hold one truth value per row ({tags.n_rows}) or per cell "
            f"{tags.shape}, got {checked.dtype} of shape {checked.shape}"
        )
    right = checked[tags.row] if checked.ndim == 1 else checked[tags.row, tags.column]
    both = np.flatnonzero((right == 1) & (told < 0))
    if len(both):
        row, name = tags.row[both[0]], tags.names[tags.column[both[0]]]
        raise InputError(
            f"row {row}, label {name!r} is wrong by known but right by known_clean; change one"
        )
    return np.where(right == 1, np.int8(1), told)


def _check_memory(
    model: PartialMultiLabelClassifier,
    counts: Array,
    columns: Array,
    n_rows: int,
    max_memory: float,
) -> None:
    """Refuse more rows or tags than memory, and say how many would do."""
    if not isinstance(max_memory, Real) or not max_memory > 0:
        raise InputError(
            f"max_memory must be a number of gigabytes above 0, not {max_memory!r}",
            parameter="max_memory",
        )
    base = n_rows * _kernel_columns(model, n_rows) * _BYTES_PER_KERNEL_CELL / 1e9
    each = n_rows * _BYTES_PER_CELL / 1e9
    need, room = base + each * len(columns), max_memory - base
    if need <= max_memory:
        return
    if room < each:
        raise InputError(
            f"{n_rows:,} rows need about {need:.2g} GB of memory, more than "
            f"max_memory={max_memory:g}; split the table, choose fewer n_landmarks, or allow more",
            parameter="max_memory",
        )
    largest = np.sort(counts[columns])[::-1]
    enough = int(largest[int(room / each)]) + 1
    raise InputError(
        f"judging {len(columns):,} kinds of tags in {n_rows:,} rows needs about {need:.2g} GB of "
        f"memory; judge only those in at least {enough:,} rows (min_count={enough}, "
        f"{np.count_nonzero(largest >= enough):,} kinds), or allow more than "
        f"max_memory={max_memory:g}",
        parameter="min_count",
    )


def _kernel_columns(model: PartialMultiLabelClassifier, n_rows: int) -> int:
    """Columns of the factored kernel that Sieve holds; 0 for other methods."""
    if not isinstance(model, Sieve) or model.kernel != "rbf":
        return 0
    return n_rows if n_rows <= model.max_kernel_rows else min(n_rows, model.n_landmarks)


def _least_likely(row: Array, confidence: Array, removed: Array, most: int) -> Array:
    """Of the removed tags of each row, only the `most` with the lowest confidence."""
    order = np.lexsort((confidence, ~removed, row))
    first = np.searchsorted(row, row)
    rank = np.empty(len(row), dtype=int)
    rank[order] = np.arange(len(row))
    return removed & (rank - first < most)

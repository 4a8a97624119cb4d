"""Find wrong tags: judge every tag with a model that was trained without its row."""

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
# Peak memory of Sieve and of the arrays here, per cell (row and label) and per entry of the
# factored kernel.
_BYTES_PER_CELL = 150
_BYTES_PER_KERNEL_ENTRY = 24
_MAX_WORDS = 50_000


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
    """Judge every tag of every row and find those that are probably wrong.

    The rows are split into folds. The tags of a fold are judged by a model trained on the other
    folds, so that no row influences its own verdicts.

    Parameters
    ----------
    X : (n, d) array, CSR matrix or DataFrame of numbers, or sequence of n texts
        Features of the rows.
    candidates : (n, l) 0/1 array, sparse matrix or DataFrame, or sequence of n lists or texts
        Tags of the rows: a matrix, one list of names per row, or one text such as "beach;dog" per
        row.
    method : estimator, class or str, default=None
        A method of this library, or its name; None is `Sieve`.
    cv : int, splitter or iterable of (train, test) row indices, default=5
        Number of folds, a scikit-learn splitter, or the folds themselves.
    threshold : float, default=0.5
        A tag is removed when its probability of being correct is below this value.
    max_remove_per_row : int, optional
        Remove at most this many tags per row, least likely first. Tags that `known` marks as wrong
        are always removed.
    known : (n, l) array, sparse matrix or DataFrame, optional
        1 for a tag known to be correct, -1 for one known to be wrong, 0 elsewhere. Known tags get
        confidence 1 or 0. `Sieve` also learns from them about the other tags.
    known_clean : (n,) or (n, l) bool array, optional
        Rows or cells that were checked: their tags are known to be correct.
    prior : (n, l) array, sparse matrix or DataFrame, optional
        Prior probabilities, such as those of `votes_to_candidates`. They multiply the odds, so 0.5
        changes nothing. The columns of a DataFrame are matched by name, here and in `known` and
        `known_clean`; a tag without a column gets 0.5 here and 0 there.
    groups : sequence of n values, optional
        Rows with the same value, such as copies of a text or images of one scene, stay in one
        fold. A row with a missing value is a group of its own.
    min_count : int, default=5
        A tag listed in fewer training rows than this, or in all of them, is not judged: it is kept
        with confidence 0.5 and the verdict "unjudged".
    max_memory : float, default=8
        Gigabytes; a table that needs more raises InputError, which suggests a `min_count`.
    label_names : sequence of str, optional
        Names of the columns of `candidates`, if it has none.
    separator : str, default=";"
        Text between the tags of a row.
    random_state : int, default=0
        Seed of the folds.

    Returns
    -------
    NoisyLabels

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
        raise InputError("no row has a tag, so there is nothing to clean")
    X, model = _prepare(X, method)
    if len(X.shape) != 2 or X.shape[0] != tags.n_rows:
        raise InputError(f"X has shape {X.shape}, but there are tags for {tags.n_rows} rows")
    # Checked here, because a model would report the row of its fold.
    check_finite(X)
    Number(high=1).check("threshold", threshold)
    Number(integer=True, none=True).check("max_remove_per_row", max_remove_per_row)
    Number(1).check("min_count", min_count)
    certain = _certain(known, known_clean, tags)
    counts = tags.counts
    columns = np.flatnonzero((counts >= min_count) & (counts < tags.n_rows))
    _check_memory(model, counts, columns, tags.n_rows, max_memory)
    folds = _folds(tags.n_rows, cv, groups, random_state)
    confidence, judged = _out_of_fold(model, X, tags, columns, certain, folds, min_count)
    confidence = _with_prior(confidence, prior, tags)
    confidence = np.where(certain == 0, confidence, certain > 0)
    judged = judged | (certain != 0)
    removed = judged & (confidence < threshold)
    if max_remove_per_row is not None:
        removed = _least_likely(tags.row, confidence, removed, max_remove_per_row)
    removed = removed | (certain < 0)
    return NoisyLabels(
        n_rows=tags.n_rows,
        label_names=tags.names,
        row=tags.row,
        column=tags.column,
        confidence=confidence,
        removed=removed,
        judged=judged,
        threshold=float(threshold),
        method=type(model).__name__,
    )


def text_features(texts: Iterable[Any]) -> "sp.csr_array":
    """Return tf-idf weights of the words and word pairs of each text, in rows of unit length."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = ["" if is_missing(text) else str(text) for text in texts]
    vectorizer = TfidfVectorizer(
        sublinear_tf=True, ngram_range=(1, 2), max_features=_MAX_WORDS, strip_accents="unicode"
    )
    try:
        return sp.csr_array(vectorizer.fit_transform(words))
    except ValueError:
        raise InputError(
            "the texts have no words of two or more letters, so there is nothing to learn from"
        ) from None


def text_params(method: type) -> dict[str, Any]:
    """Return the parameters that a method needs for the rows of `text_features`.

    These rows are weighted and scaled already, so `Sieve` must take them as they are.
    """
    return {"features": "none"} if method is Sieve else {}


def make_method(method: Any, *, text: bool = False) -> PartialMultiLabelClassifier:
    """Return an untrained method for a name, a class, an estimator or None.

    Parameters
    ----------
    method : estimator, class, str or None
        None is `Sieve`. An estimator keeps its parameters.
    text : bool
        Whether the features are those of `text_features`.
    """
    if isinstance(method, str):
        by_name = {name.lower(): cls for name, cls in methods().items()}
        if method.lower() not in by_name:
            raise InputError(
                f"there is no method {method!r}; {suggest(method, methods())}", parameter="method"
            )
        method = by_name[method.lower()]
    elif method is None:
        method = Sieve
    if isinstance(method, type):
        model = method(**(text_params(method) if text else {}))
    else:
        model = clone(method)
    if not isinstance(model, PartialMultiLabelClassifier):
        raise InputError(
            f"method must be a method of this library or its name, not {method!r}",
            parameter="method",
        )
    if isinstance(model, OracleRidge):
        raise InputError(
            "OracleRidge needs the true labels; choose another method", parameter="method"
        )
    return model


def _prepare(X: Any, method: Any) -> tuple[Any, PartialMultiLabelClassifier]:
    """Return the features as an array or CSR matrix, and the method for them."""
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
    if X.dtype.kind not in "biuf":
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"X must hold numbers, or one text per row ({error})") from None
    return X, make_method(method)


def _folds(n: int, cv: Any, groups: Any, random_state: int | None) -> Iterable[tuple[Array, Array]]:
    groups = None if groups is None else _group_numbers(groups, n)
    rows = np.zeros((n, 1))
    if isinstance(cv, int | np.integer):
        largest = n if groups is None else len(np.unique(groups))
        if not 2 <= cv <= largest:
            what = "row" if groups is None else "group"
            allowed = f"into 2 to {largest} folds, not {cv}" if largest > 1 else "into folds"
            can = "s can" if largest > 1 else " cannot"
            raise InputError(f"{largest} {what}{can} be split {allowed}", parameter="cv")
        from sklearn.model_selection import GroupKFold, KFold

        kind = KFold if groups is None else GroupKFold
        cv = kind(int(cv), shuffle=True, random_state=random_state)
    if hasattr(cv, "split") and not isinstance(cv, str):
        folds: Iterable[tuple[Array, Array]] = cv.split(rows, groups=groups)
        return folds
    if isinstance(cv, Iterable) and not isinstance(cv, str):
        return cv
    raise InputError(
        f"cv must be a number of folds, a splitter or (train, test) row indices, not {cv!r}",
        parameter="cv",
    )


def _group_numbers(groups: Iterable[Any], n: int) -> Array:
    """Number the groups in their own order; a row without a group becomes one of its own."""
    values = list(groups)
    if len(values) != n:
        raise InputError(f"groups has {len(values)} values for {n} rows; give one per row")
    try:
        distinct = {value for value in values if not is_missing(value)}
        ordered = sorted(distinct, key=lambda value: (isinstance(value, str), value))
    except TypeError:
        raise InputError("groups must hold one text or number per row, not lists") from None
    number = {value: k for k, value in enumerate(ordered)}
    unused = count(len(number))
    return np.array([next(unused) if is_missing(value) else number[value] for value in values])


def _out_of_fold(
    model: PartialMultiLabelClassifier,
    X: Any,
    tags: Tags,
    columns: Array,
    certain: Array,
    folds: Iterable[tuple[Array, Array]],
    min_count: int,
) -> tuple[Array, Array]:
    """Return the confidence of every tag, and whether it could be judged."""
    Y = tags.dense(columns)
    learns = certain.any() and has_fit_parameter(model, "known")
    known = tags.dense(columns, certain) if learns else None
    confidence = np.full(Y.shape, 0.5, dtype=np.float32)
    judged = np.zeros(Y.shape, dtype=bool)
    n_tested = np.zeros(len(Y), dtype=int)
    for train, test in folds:
        n_tested[test] += 1
        counts = Y[train].sum(axis=0)
        frequent = np.flatnonzero((counts >= min_count) & (counts < len(Y[train])))
        if not len(frequent):
            continue
        trained, tested = np.ix_(train, frequent), np.ix_(test, frequent)
        options = {} if known is None else {"known": known[trained]}
        with warnings.catch_warnings():
            # A row whose tags are all too rare has no candidates here.
            warnings.simplefilter("ignore", EmptyCandidatesWarning)
            fitted = clone(model).fit(X[train], Y[trained], **options)
            confidence[tested] = fitted.disambiguate(X[test], Y[tested])
        judged[tested] = True
    if (n_tested != 1).any():
        row = int(np.flatnonzero(n_tested != 1)[0])
        raise InputError(
            f"cv must put every row into exactly one test fold, but row {row} is in "
            f"{n_tested[row]}",
            parameter="cv",
        )
    return tags.pick(confidence, columns, 0.5), tags.pick(judged, columns, False)


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
    correct, wrong = confidence * p, (1 - confidence) * (1 - p)
    return correct / np.maximum(correct + wrong, 1e-300)


def _certain(known: Any, known_clean: Any, tags: Tags) -> Array:
    """Return what is known about each tag: 1 correct, -1 wrong, 0 nothing."""
    certain = np.zeros(len(tags.row), dtype=np.int8)
    if known is not None:
        values = as_known(known, tags.dense(np.arange(len(tags.names))), tags.names)
        certain = certain if values is None else values[tags.row, tags.column]
    if known_clean is None:
        return certain
    checked = read_cells(known_clean, tags.names, "known_clean")
    if checked.shape not in ((tags.n_rows,), tags.shape) or not np.isin(checked, (0, 1)).all():
        raise InputError(
            f"known_clean must hold one truth value per row ({tags.n_rows}) or per cell "
            f"{tags.shape}, got {checked.dtype} of shape {checked.shape}"
        )
    correct = checked[tags.row] if checked.ndim == 1 else checked[tags.row, tags.column]
    both = np.flatnonzero((correct == 1) & (certain < 0))
    if len(both):
        row, name = tags.row[both[0]], tags.names[tags.column[both[0]]]
        raise InputError(
            f"row {row}, label {name!r} is wrong by known but correct by known_clean; change one"
        )
    return np.where(correct == 1, np.int8(1), certain)


def _check_memory(
    model: PartialMultiLabelClassifier,
    counts: Array,
    columns: Array,
    n_rows: int,
    max_memory: float,
) -> None:
    """Raise InputError if the table needs more memory, with the `min_count` that would do."""
    if not isinstance(max_memory, Real) or not max_memory > 0:
        raise InputError(
            f"max_memory must be a number of gigabytes above 0, not {max_memory!r}",
            parameter="max_memory",
        )
    base = n_rows * _kernel_columns(model, n_rows) * _BYTES_PER_KERNEL_ENTRY / 1e9
    each = n_rows * _BYTES_PER_CELL / 1e9
    need, room = base + each * len(columns), max_memory - base
    if need <= max_memory:
        return
    if room < each:
        raise InputError(
            f"{n_rows:,} rows need about {need:.2g} GB of memory, but max_memory allows "
            f"{max_memory:g} GB; raise it, split the table, or choose a smaller n_landmarks",
            parameter="max_memory",
        )
    largest = np.sort(counts[columns])[::-1]
    enough = int(largest[int(room / each)]) + 1
    raise InputError(
        f"judging {len(columns):,} different tags in {n_rows:,} rows needs about {need:.2g} GB of "
        f"memory, but max_memory allows {max_memory:g} GB; raise it, or set min_count to {enough} "
        f"to judge only {np.count_nonzero(largest >= enough):,} of them",
        parameter="min_count",
    )


def _kernel_columns(model: PartialMultiLabelClassifier, n_rows: int) -> int:
    """Return the number of columns of the factored kernel of Sieve; 0 for other methods."""
    if not isinstance(model, Sieve) or model.kernel != "rbf":
        return 0
    return n_rows if n_rows <= model.max_kernel_rows else min(n_rows, model.n_landmarks)


def _least_likely(row: Array, confidence: Array, removed: Array, most: int) -> Array:
    """Keep at most `most` removals per row, those with the lowest confidence."""
    order = np.lexsort((confidence, ~removed, row))
    first = np.searchsorted(row, row)
    rank = np.empty(len(row), dtype=int)
    rank[order] = np.arange(len(row))
    return removed & (rank - first < most)

"""Make candidates from true labels: add wrong labels, and leave out true ones where asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, check_random_state

from schirn._input import OneOf
from schirn.exceptions import InputError
from schirn.labels.matrix import as_binary

KINDS = ("exact", "rate", "label", "feature", "two-sided", "annotators", "legacy")

# Cells of one dense block of random keys; bounds the memory on wide label matrices.
BLOCK_CELLS = 4_000_000

# Random keys of the negatives of some rows: the smallest keys of a row win. With exponential keys
# -log(u)/w the winners are a weighted draw without replacement; subtracting Gumbel noise from a log
# weight is the same draw on the log scale.
Keys = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Sharpness of the softmax over standardised scores: high enough to prefer the confusable
# labels, low enough that two draws differ.
SHARPNESS = 3.0

# Share of the true labels that two-sided noise leaves out.
MISSING = 0.25

# Simulated annotators: how many there are, how often they find a true label (beta
# distribution, mean 0.8), and how many wrong ones they add to a row (gamma distribution, mean 0.6).
ANNOTATORS = 30
FINDS = (8.0, 2.0)
ADDS = (2.0, 0.3)

# Largest side of the square matrix of the closed form (3.2 GB).
MAX_GRAM = 20_000


def add_noise(
    y: Any,
    r: int | None = None,
    *,
    kind: str = "exact",
    rate: float | None = None,
    random_state: Any = None,
    X: Any = None,
) -> Any:
    """Add wrong labels to true ones.

    Parameters
    ----------
    y : array or sparse matrix of shape (n, l)
        True labels, 0/1 or bool.
    r : int
        Wrong labels per row, for every kind but "rate"; annotators per row for "annotators". A
        row with fewer than `r` negatives gets all of them.
    kind : {"exact", "rate", "label", "feature", "two-sided", "annotators", "legacy"}
        - "exact": `r` labels, uniformly among the negatives of the row.
        - "rate": each negative with probability `rate`.
        - "label": `r` labels, drawn with weights that follow how often a label occurs together
          with the true labels of the row (or, if the row has none, how often it occurs).
        - "feature": `r` labels, drawn from a softmax over the scores of a ridge regression from
          `X` to the truth, so that wrong labels resemble the true ones. The rows are divided into
          two random halves, and each half is scored by the regression of the other: no row is
          scored by a regression that has seen its truth.
        - "two-sided": `r` labels as with "exact", and each true label is left out with
          probability 1/4.
        - "annotators": all labels that any of `r` annotators chose. Each row is shown to `r` of 30
          annotators. On average, an annotator finds 80 % of the true labels and adds 0.6 wrong
          ones, drawn as with "label"; some are much better than others.
        - "legacy": `r` labels, uniformly, in the random stream of the published candidate sets,
          which are reproduced bit for bit. An int `random_state` starts the stream; None stands
          for `r`.
    rate : float
        Probability for kind "rate".
    random_state : int, RandomState or None
    X : array or sparse matrix of shape (n, d)
        Features, for kind "feature".

    Returns
    -------
    candidates : uint8 ndarray, or csr_array if `y` is sparse
        Every true label is a candidate, except with "two-sided" and "annotators".

    Notes
    -----
    "label", "feature" and "annotators" learn from the truth of all rows that they are given. To
    compare methods on test rows, split first and pass the training rows only: otherwise the
    candidates of the training rows tell what the test rows are.

    Examples
    --------
    >>> import numpy as np
    >>> from schirn.datasets import add_noise
    >>> y = np.array([[1, 0, 0, 0], [0, 1, 1, 0]], dtype=np.uint8)
    >>> candidates = add_noise(y, 1, random_state=0)
    >>> candidates.sum(axis=1).tolist()
    [2, 3]
    >>> bool((candidates >= y).all())
    True
    >>> add_noise(y, 1, kind="legacy", random_state=7)
    array([[1, 1, 0, 0],
           [1, 1, 1, 0]], dtype=uint8)
    """
    _check_kind(kind, r, rate, X)
    truth = sparse.csr_array(as_binary(y, "y"))
    if kind == "legacy" and random_state is None:
        random_state = int(r or 0)
    random = check_random_state(random_state)
    if kind == "annotators":
        candidates = _annotators(truth, int(r or 0), random)
    else:
        extra = _draw(truth, r, kind, rate, random, X)
        true_labels = _thinned(truth, 1 - MISSING, random) if kind == "two-sided" else truth
        candidates = true_labels.maximum(extra).astype(np.uint8)
    return candidates if sparse.issparse(y) else candidates.toarray()


def _draw(
    truth: Any, r: int | None, kind: str, rate: float | None, random: Any, X: Any
) -> sparse.csr_array:
    """Return the wrong labels of every row as a 0/1 matrix."""
    n_samples, n_labels = truth.shape
    negatives = n_labels - np.diff(truth.indptr)
    if kind == "rate":
        return _sample_uniform(truth, random.binomial(negatives, rate), random)
    counts = np.minimum(int(r or 0), negatives)
    if kind in ("exact", "two-sided"):
        return _sample_uniform(truth, counts, random)
    if kind == "legacy":
        keys = uniform_keys(random)
    elif kind == "label":
        keys = label_keys(truth, random)
    else:
        X = X if hasattr(X, "shape") else np.asarray(X)
        if X.shape[0] != n_samples:
            raise InputError(f"X has {X.shape[0]} rows and y has {n_samples}; they must agree.")
        keys = feature_keys(truth, X, random)
    return _smallest_keys(truth, np.arange(n_samples), counts, keys)


def _annotators(truth: Any, r: int, random: Any) -> sparse.csr_array:
    """Return all labels that any of `r` annotators of a row chose."""
    n_samples, n_labels = truth.shape
    finds = random.beta(*FINDS, size=ANNOTATORS)
    adds = random.gamma(*ADDS, size=ANNOTATORS)
    keys = label_keys(truth, random)
    negatives = n_labels - np.diff(truth.indptr)
    # The annotators of a row are different people, as long as there are enough of them.
    order = np.argsort(random.random_sample((n_samples, ANNOTATORS)), axis=1)
    chosen = sparse.csr_array(truth.shape, dtype=np.uint8)
    for look in range(r):
        who = order[:, look % ANNOTATORS]
        wrong = np.minimum(random.poisson(adds[who]), negatives)
        chosen = chosen.maximum(_smallest_keys(truth, np.arange(n_samples), wrong, keys))
        chosen = chosen.maximum(_thinned(truth, finds[who], random))
    return chosen.astype(np.uint8)


def _thinned(truth: Any, share: Any, random: Any) -> sparse.csr_array:
    """Return true labels, each kept with the probability `share` of its row."""
    sizes = np.diff(truth.indptr)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    keep = random.random_sample(len(rows)) < np.broadcast_to(share, sizes.shape)[rows]
    return _from_cells(rows[keep], truth.indices[keep], truth.shape)


def _sample_uniform(truth: Any, counts: np.ndarray, random: Any) -> sparse.csr_array:
    """Draw `counts[i]` negatives of row i uniformly without replacement."""
    n_labels = truth.shape[1]
    negatives = n_labels - np.diff(truth.indptr)
    # Rejection is cheap only while most labels are still free.
    crowded = (negatives < 2 * counts) | (2 * negatives < n_labels)
    dense = _smallest_keys(truth, np.flatnonzero(crowded), counts, uniform_keys(random))
    free = _sample_by_rejection(truth, np.where(crowded, 0, counts), random)
    return dense + free


def _sample_by_rejection(truth: Any, counts: np.ndarray, random: Any) -> sparse.csr_array:
    """Draw labels, discard those already taken, and draw the missing ones again."""
    n_samples, n_labels = truth.shape
    true_cells = np.repeat(np.arange(n_samples), np.diff(truth.indptr)) * n_labels
    taken = np.sort(true_cells + truth.indices)
    chosen = np.empty(0, dtype=np.int64)
    missing = counts.copy()
    while missing.any():
        rows = np.repeat(np.arange(n_samples, dtype=np.int64), missing)
        cells = np.unique(rows * n_labels + random.randint(n_labels, size=len(rows)))
        fresh = cells[~(_contains(taken, cells) | _contains(chosen, cells))]
        chosen = np.sort(np.concatenate([chosen, fresh]))
        missing = counts - np.bincount(chosen // n_labels, minlength=n_samples)
    return _from_cells(chosen // n_labels, chosen % n_labels, truth.shape)


def _smallest_keys(truth: Any, rows: np.ndarray, counts: np.ndarray, keys: Any) -> sparse.csr_array:
    """Choose in each row the `counts[i]` negatives with the smallest key, block by block."""
    n_labels = truth.shape[1]
    step = max(1, BLOCK_CELLS // max(1, n_labels))
    chosen_rows = [np.empty(0, np.intp)]
    chosen_labels = [np.empty(0, np.intp)]
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        values = np.full((len(block), n_labels), np.inf)
        negative = truth[block].toarray() == 0
        values[negative] = keys(block, negative)
        width = int(counts[block].max(initial=0))
        order = np.argsort(values, axis=1)[:, :width]
        keep = np.arange(width) < counts[block][:, None]
        chosen_rows.append(np.broadcast_to(block[:, None], order.shape)[keep])
        chosen_labels.append(order[keep])
    return _from_cells(np.concatenate(chosen_rows), np.concatenate(chosen_labels), truth.shape)


def _contains(sorted_cells: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return which of `cells` occur in a sorted array."""
    if not len(sorted_cells):
        return np.zeros(len(cells), dtype=bool)
    at = np.searchsorted(sorted_cells, cells).clip(max=len(sorted_cells) - 1)
    return np.asarray(sorted_cells[at] == cells)


def _from_cells(rows: np.ndarray, labels: np.ndarray, shape: tuple[int, int]) -> sparse.csr_array:
    """Return a 0/1 CSR matrix with ones at the given cells."""
    ones = np.ones(len(rows), dtype=np.uint8)
    return sparse.csr_array((ones, (rows, labels)), shape=shape)


def _check_kind(kind: str, r: int | None, rate: float | None, X: Any) -> None:
    """Raise InputError unless the arguments fit the kind of noise."""
    OneOf(KINDS).check("kind", kind)
    if kind == "rate":
        if rate is None or not 0 <= rate <= 1:
            raise InputError(f'kind="rate" needs a rate between 0 and 1, not {rate!r}.')
        if r is not None:
            raise InputError('kind="rate" takes rate, not r; use kind="exact" for a fixed r.')
        return
    if rate is not None:
        raise InputError(f'rate belongs to kind="rate", but kind is {kind!r}; use r.')
    if r is None or r != int(r) or r < 0:
        raise InputError(
            f"r, the number of wrong labels per row, must be 0 or more, not {r!r}.", parameter="r"
        )
    if kind == "feature" and X is None:
        raise InputError('kind="feature" needs the features; pass X=...')


def uniform_keys(random: Any) -> Keys:
    """Return uniform keys, drawn row by row for the negatives only.

    Parameters
    ----------
    random : RandomState
        Source of the draws.

    Returns
    -------
    callable
        Keys of the negatives of some rows.
    """
    return lambda rows, negative: random.random_sample(int(negative.sum()))


def label_keys(truth: Any, random: Any) -> Keys:
    """Return keys whose weights follow co-occurrence with the row's true labels.

    Parameters
    ----------
    truth : sparse matrix of shape (n, l)
        True labels.
    random : RandomState
        Source of the draws.

    Returns
    -------
    callable
        Keys of the negatives of some rows.
    """
    counts = sparse.csr_array(truth.astype(np.float64))
    counts_of_pairs = sparse.csr_array(counts.T @ counts)
    frequency = counts_of_pairs.diagonal()
    conditional = sparse.diags_array(1 / np.maximum(frequency, 1)) @ counts_of_pairs
    # A small share of the overall frequency keeps every label possible.
    floor = (frequency + 1) / (frequency.sum() + len(frequency))

    def keys(rows: np.ndarray, negative: np.ndarray) -> np.ndarray:
        weights = (counts[rows] @ conditional).toarray() + floor
        return np.asarray(random.exponential(size=int(negative.sum())) / weights[negative])

    return keys


def feature_keys(truth: Any, X: Any, random: Any) -> Keys:
    """Return keys whose weights follow the scores of ridge regressions on the other half.

    Parameters
    ----------
    truth : sparse matrix of shape (n, l)
        True labels.
    X : array or sparse matrix of shape (n, d)
        Features.
    random : RandomState
        Source of the draws.

    Returns
    -------
    callable
        Keys of the negatives of some rows.
    """
    from sklearn.preprocessing import maxabs_scale

    # In single precision the number of threads changes scores enough to change draws.
    features = maxabs_scale(check_array(X, accept_sparse="csr", dtype=np.float64))
    is_first = _random_half(features.shape[0], random)
    # Scores of a row by a regression fitted to its own truth would give that truth away.
    weights_of_first = ridge_weights(features[is_first], truth[is_first])
    weights_of_second = ridge_weights(features[~is_first], truth[~is_first])

    def keys(rows: np.ndarray, negative: np.ndarray) -> np.ndarray:
        scores = np.asarray(features[rows] @ weights_of_first)
        in_first = is_first[rows]
        scores[in_first] = features[rows[in_first]] @ weights_of_second
        spread = scores.std(axis=1, keepdims=True)
        scores = (scores - scores.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)
        return np.asarray(-SHARPNESS * scores[negative] - random.gumbel(size=int(negative.sum())))

    return keys


def _random_half(n_samples: int, random: Any) -> np.ndarray:
    """Return a mask of half of the rows, drawn at random."""
    is_first = np.zeros(n_samples, dtype=bool)
    is_first[random.permutation(n_samples)[: n_samples // 2]] = True
    return is_first


def ridge_weights(X: Any, truth: Any) -> np.ndarray:
    """Minimise |XW - Y|^2 + |W|^2, in closed form unless both sides of X are long.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        Features.
    truth : sparse matrix of shape (n, l)
        True labels.

    Returns
    -------
    ndarray of shape (d, l)
    """
    from sklearn.linear_model import Ridge

    if not X.shape[0]:
        return np.zeros((X.shape[1], truth.shape[1]))
    solver = "cholesky" if min(X.shape) <= MAX_GRAM else "sparse_cg"
    model = Ridge(fit_intercept=False, solver=solver).fit(X, truth.toarray().astype(np.float64))
    # For a single label scikit-learn returns a vector.
    return np.atleast_2d(model.coef_).T

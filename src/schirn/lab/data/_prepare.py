"""Preparation of the data sets of the published experiments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from schirn.datasets import Dataset
from schirn.datasets.noise import add_noise
from schirn.exceptions import InputError
from schirn.lab.data._content import label_matrix
from schirn.lab.rank import exact_rank


def prepare_yeast(dataset: Dataset, r: int) -> Dataset:
    """Prepare a Yeast data set as in the published experiments.

    Rows with fewer than two true labels are left out, and `r` wrong labels per row (legacy stream
    with seed `r`) are added to the given candidates. For the sets of 6139 rows, r = 3 (YeastMF),
    5 (YeastCC) and 10 (YeastBP) reproduce the published files.

    Parameters
    ----------
    dataset : Dataset
        A data set with `y_true` and `candidates`.
    r : int
        Wrong labels per row.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import numpy as np
    >>> from schirn.datasets import Dataset
    >>> from schirn.lab.data import prepare_yeast
    >>> y = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 1, 1]], dtype=np.uint8)
    >>> prepared = prepare_yeast(Dataset("toy", np.eye(3), y, y), r=1)
    >>> prepared.candidates.sum(axis=1).tolist(), prepared.n_dropped
    ([3, 4], 1)
    """
    if dataset.y_true is None or dataset.candidates is None:
        raise InputError(f"{dataset.name}: prepare_yeast needs true labels and candidates.")
    keep = np.asarray(dataset.y_true.sum(axis=1)).ravel() >= 2
    subset = dataset.subset(keep)
    noisy = add_noise(subset.y_true, r, kind="legacy")
    if sparse.issparse(noisy):
        candidates = noisy.maximum(sparse.csr_array(subset.candidates))
    else:
        candidates = np.maximum(noisy, subset.candidates)
    return replace(subset, candidates=candidates, n_dropped=int((~keep).sum()))


def make_cooccurrence(
    y: Any,
    fraction: float = 0.25,
    target_rank: int | None = None,
    random_state: Any = None,
) -> Any:
    """Lower the rank of a label matrix by making pairs of labels occur together.

    Random disjoint pairs of labels are drawn, and both columns of a pair become their union.
    The published recipe is unknown; a fraction of 0.25 comes closest to its ranks.

    Parameters
    ----------
    y : array or sparse matrix of shape (n, l)
    fraction : float
        Number of pairs as a share of the number of labels, 0 to 0.5.
    target_rank : int, optional
        Merge pairs until the matrix has this rank; `fraction` is then ignored.
    random_state : int, RandomState or None

    Returns
    -------
    uint8 ndarray, or csr_array if `y` is sparse

    Examples
    --------
    >>> import numpy as np
    >>> from schirn.lab.data import make_cooccurrence
    >>> y = make_cooccurrence(np.eye(8, dtype=np.uint8), target_rank=6, random_state=0)
    >>> int(np.linalg.matrix_rank(y))
    6
    """
    labels = sparse.csc_array(label_matrix(y, "y"))
    n_labels = labels.shape[1]
    if not 0 <= fraction <= 0.5:
        raise InputError(
            f"fraction must be between 0 and 0.5, not {fraction!r}.", parameter="fraction"
        )
    order = check_random_state(random_state).permutation(n_labels)
    pairs = order[: n_labels // 2 * 2].reshape(-1, 2)
    if target_rank is None:
        # For 0.5 of an odd number of labels rounding may ask for one pair too many.
        tied = _tie(labels, pairs[: round(fraction * n_labels)])
    else:
        tied = _tie_to_rank(labels, pairs, target_rank)
    return tied.tocsr() if sparse.issparse(y) else tied.toarray()


def _tie(labels: Any, pairs: np.ndarray) -> sparse.csc_array:
    """Set both columns of each pair to their union: a product with a 0/1 matrix, clipped at 1."""
    n_labels = labels.shape[1]
    identity = np.arange(n_labels)
    rows = np.concatenate([identity, pairs[:, 0], pairs[:, 1]])
    columns = np.concatenate([identity, pairs[:, 1], pairs[:, 0]])
    mix = sparse.csc_array((np.ones(len(rows)), (rows, columns)), shape=(n_labels, n_labels))
    return sparse.csc_array((labels @ mix) > 0).astype(np.uint8)


def _tie_to_rank(labels: Any, pairs: np.ndarray, target_rank: int) -> sparse.csc_array:
    """Tie pairs until the rank is reached, skipping a pair that would go below it."""
    start = rank = exact_rank(labels)
    for pair in pairs:
        if rank == target_rank:
            break
        tied = _tie(labels, pair[None, :])
        new = exact_rank(tied)
        if new >= target_rank:
            labels = tied
            rank = new
    if rank != target_rank:
        raise InputError(
            f"Tying pairs of labels brings the rank from {start} to {rank}, not to {target_rank}."
        )
    return labels

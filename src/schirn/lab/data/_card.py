"""Data cards: sizes, noise and ranks of a data set at a glance."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from schirn.datasets import Dataset
from schirn.exceptions import InputError
from schirn.lab.rank import rank_report

# A dense remainder of this size has some 8,000 labels and takes a minute or two.
MAX_RANK_BYTES = 2**29


def data_card(dataset: Dataset, *, max_rank_bytes: int = MAX_RANK_BYTES) -> dict[str, Any]:
    """Describe a data set: facts by name, without those that it has no labels for.

    ``cardinality_true`` and ``cardinality_candidates`` are mean numbers of labels per row,
    ``rank_true`` and ``rank_candidates`` the exact ranks of the two label matrices (see
    `schirn.lab.rank`), with a note if a rank is not proven or was not computed. ``noise_rate`` is
    the share of the candidates that are wrong, ``noisy_per_row`` their mean number per row, and
    ``missed_truth`` the number of true labels that are not candidates. ``ratio`` is the smallest
    column sum of the candidates divided by n × l.

    Parameters
    ----------
    dataset : Dataset
    max_rank_bytes : int
        A rank that needs more memory is left out; its note gives the memory that it needs.
        Structure matters more than size: hundreds of thousands of sparse labels need very little.

    Returns
    -------
    dict

    Examples
    --------
    >>> from schirn.lab.data import data_card
    >>> from schirn.datasets import load
    >>> card = data_card(load("digits_attributes"))
    >>> card["n_labels"], card["noisy_per_row"], card["rank_true"]
    (10, 2.0, 9)
    """
    n_samples = dataset.n_samples
    card: dict[str, Any] = {
        "name": dataset.name,
        "n_samples": n_samples,
        "n_features": dataset.n_features,
        "n_labels": dataset.n_labels,
        "sparse": bool(sparse.issparse(dataset.X)),
    }
    for kind, labels in (("true", dataset.y_true), ("candidates", dataset.candidates)):
        if labels is not None:
            card[f"cardinality_{kind}"] = float(labels.sum() / max(1, n_samples))
            card[f"rows_without_{kind}"] = int((_sums(labels, 1) == 0).sum())
            card[f"labels_without_{kind}"] = int((_sums(labels, 0) == 0).sum())
            card |= _rank(kind, labels, max_rank_bytes)
    if dataset.candidates is not None:
        cells = n_samples * dataset.n_labels
        card["ratio"] = float(_sums(dataset.candidates, 0).min() / cells) if cells else None
    if dataset.y_true is not None and dataset.candidates is not None:
        truth, candidates = map(sparse.csr_array, (dataset.y_true, dataset.candidates))
        common = int(truth.multiply(candidates).sum())
        wrong = int(candidates.sum()) - common
        card["noise_rate"] = wrong / max(1, wrong + common)
        card["noisy_per_row"] = wrong / max(1, n_samples)
        card["missed_truth"] = int(truth.sum()) - common
    return card | ({"description": dataset.description} if dataset.description else {})


def _rank(kind: str, labels: Any, max_bytes: int) -> dict[str, Any]:
    """Return the rank and a note on its certainty, or the reason why there is none."""
    try:
        report = rank_report(labels, max_bytes=max_bytes)
    except InputError as error:
        return {f"rank_{kind}": None, f"rank_{kind}_note": str(error)}
    note = "proven"
    if not report.proven:
        note = (
            f"modulo {len(report.primes)} primes, too low with a probability below "
            f"{report.risk:.0e}"
        )
    return {f"rank_{kind}": report.rank, f"rank_{kind}_note": note}


def _sums(labels: Any, axis: int) -> np.ndarray:
    """Return column (axis 0) or row (axis 1) sums as a flat int array."""
    return np.asarray(labels.sum(axis=axis)).ravel().astype(np.int64)

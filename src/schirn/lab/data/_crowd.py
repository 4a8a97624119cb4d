"""Votes of a crowd as a data set: some workers make the candidates, the others the truth."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from schirn._files import brief
from schirn.exceptions import DataError, InputError
from schirn.labels.votes import Votes, votes_to_candidates


def crowd_content(
    arrays: dict[str, np.ndarray],
    X: Any,
    names: list[str],
    *,
    workers: int,
    share: float,
    random_state: int,
) -> dict[str, Any]:
    """Return the content of a `Dataset` from an archive of votes; see `read_npz`.

    Parameters
    ----------
    X : array, CSR matrix or None
        Features; None takes tf-idf weights of the words and word pairs of `texts`.
    workers, share, random_state
        As in `read_npz`.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError(f"workers must be a whole number of at least 1, not {workers!r}")
    if not 0 < share <= 1:
        raise InputError(f"share must be above 0 and at most 1, not {share!r}")
    if X is None:
        X = _text_features(arrays)
    size = (X.shape[0], len(names))
    votes, y_true = _draw_workers(arrays, names, size, workers, share, random_state)
    candidates = np.zeros(size, dtype=np.uint8)
    candidates[:, [names.index(name) for name in votes.label_names]] = votes.candidates
    description = (
        f"Votes of a crowd. Candidates: what any of {workers} workers chose, drawn at random for "
        f"each item (seed {random_state}). Truth: what at least {share:.0%} of the other workers "
        "chose; a consensus is not the truth. Workers are numbers; nothing else about them is kept."
    )
    return {
        "X": X,
        "y_true": y_true,
        "candidates": candidates,
        "votes": votes,
        "description": description,
    }


def _text_features(arrays: dict[str, np.ndarray]) -> Any:
    """tf-idf weights of the words and word pairs of `texts`."""
    if "texts" not in arrays:
        raise DataError("votes need 'texts' or features to learn from.")
    # Imported here because most sets have features.
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    return words.fit_transform([str(text) for text in arrays["texts"]])


def _draw_workers(
    arrays: dict[str, np.ndarray],
    names: list[str],
    size: tuple[int, int],
    workers: int,
    share: float,
    random_state: int,
) -> tuple[Votes, np.ndarray]:
    """Return the votes of the workers drawn for each item, and what the others say is true."""
    n, l = size
    labels_of = defaultdict(list)
    workers_of = defaultdict(list)
    for item, worker, label in _numbers(arrays, "votes", (n, None, l)).tolist():
        labels_of[item, worker].append(label)
    for item, worker in _numbers(arrays, "asked", (n, None)).tolist():
        workers_of[item].append(worker)
    fewest = min(len(workers_of[item]) for item in range(n))
    rng = np.random.default_rng(random_state)
    table: list[tuple[int, int, str | None]] = []
    y_true = np.zeros((n, l), dtype=np.uint8)
    for item in range(n):
        order = rng.permutation(workers_of[item]).astype(int).tolist()
        if len(order) <= workers:
            raise DataError(
                f"{len(order)} workers judged item {item}, but {workers} are to make its "
                f"candidates and at least one other its truth; {_fewer(fewest)}"
            )
        for worker in order[:workers]:
            labels = labels_of.get((item, worker), [])
            table += [(item, worker, names[j]) for j in labels] or [(item, worker, None)]
        counts = np.zeros(l)
        for worker in order[workers:]:
            counts[labels_of.get((item, worker), [])] += 1
        y_true[item] = counts >= share * (len(order) - workers)
    return votes_to_candidates(*zip(*table, strict=True), order=range(n)), y_true


def _fewer(fewest: int) -> str:
    """Return what to do if an item has too few workers; `fewest` judged any item."""
    if fewest < 2:
        return "leave out the items that fewer than two workers judged"
    most = fewest - 1
    return (
        f"ask for at most {most}: load(FILE, workers={most}), or schirn bench --datasets FILE "
        f"--option workers={most}"
    )


def _numbers(arrays: dict[str, np.ndarray], key: str, sizes: tuple[int | None, ...]) -> np.ndarray:
    """Return a table of whole numbers, each below the size of its column."""
    table = arrays.get(key)
    if table is None or table.ndim != 2 or table.shape[1] != len(sizes):
        raise DataError(f"{key!r} must be a table with {len(sizes)} columns.")
    if table.dtype.kind not in "iu":
        raise DataError(f"{key!r} must hold whole numbers.")
    for column, size in enumerate(sizes):
        bad = (table[:, column] < 0) | (table[:, column] >= (np.inf if size is None else size))
        if bad.any():
            value = brief(int(table[bad][0, column]))
            raise DataError(f"column {column} of {key!r} has {value}, which is not a number.")
    return table

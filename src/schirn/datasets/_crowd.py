"""Votes of a crowd as a data set: some workers make the candidates, the others the truth."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import brief
from schirn.datasets._dataset import Dataset, dataset_from_file
from schirn.exceptions import DataError, InputError
from schirn.labels.votes import votes_to_candidates

# Votes of the other workers that make a label true: this share of them.
SHARE = 0.5


def crowd_dataset(
    path: Path,
    arrays: dict[str, np.ndarray],
    X: Any,
    names: list[str],
    *,
    workers: int = 3,
    share: float = SHARE,
    random_state: int = 0,
    max_bytes: int | None = None,
) -> Dataset:
    """Return the data set of an archive of votes; see `read_npz`.

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
    n, l = len(arrays["texts"]) if X is None else X.shape[0], len(names)
    asked = _numbers(path, arrays, "asked", (n, None))
    votes = _numbers(path, arrays, "votes", (n, None, l))
    chosen, who = defaultdict(list), defaultdict(list)
    for item, worker, label in votes.tolist():
        chosen[item, worker].append(label)
    for item, worker in asked.tolist():
        who[item].append(worker)
    rng = np.random.default_rng(random_state)
    table: list[tuple[int, int, str | None]] = []
    others, n_others = np.zeros((n, l)), np.zeros(n)
    for item in range(n):
        order = rng.permutation(who[item]).astype(int).tolist()
        if len(order) <= workers:
            raise DataError(
                f"{path}: {len(order)} workers judged item {item}, but {workers} make its "
                f"candidates and at least one other its truth; ask for fewer workers"
            )
        for worker in order[:workers]:
            labels = chosen.get((item, worker), [])
            table += [(item, worker, names[j]) for j in labels] or [(item, worker, None)]
        n_others[item] = len(order) - workers
        for worker in order[workers:]:
            others[item, chosen.get((item, worker), [])] += 1
    found = votes_to_candidates(*zip(*table, strict=True), order=range(n))
    candidates = np.zeros((n, l), dtype=np.uint8)
    candidates[:, [names.index(name) for name in found.label_names]] = found.candidates
    if X is None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
        X = words.fit_transform([str(text) for text in arrays["texts"]])
    return dataset_from_file(
        path,
        max_bytes,
        X=X,
        y_true=(others >= share * n_others[:, None]).astype(np.uint8),
        candidates=candidates,
        label_names=names,
        votes=found,
        description=f"Votes of a crowd. Candidates: what any of {workers} workers chose, drawn at "
        f"random for each item (seed {random_state}). Truth: what at least {share:.0%} of the "
        "other workers chose; a consensus is not the truth. Workers are numbers; nothing else "
        "about them is kept.",
    )


def _numbers(
    path: Path, arrays: dict[str, np.ndarray], key: str, sizes: tuple[int | None, ...]
) -> np.ndarray:
    """Return a table of whole numbers, each below the size of its column."""
    table = arrays.get(key)
    if table is None or table.ndim != 2 or table.shape[1] != len(sizes):
        raise DataError(f"{path}: {key!r} must be a table with {len(sizes)} columns.")
    if table.dtype.kind not in "iu":
        raise DataError(f"{path}: {key!r} must hold whole numbers.")
    for column, size in enumerate(sizes):
        bad = (table[:, column] < 0) | (table[:, column] >= (np.inf if size is None else size))
        if bad.any():
            value = brief(int(table[bad][0, column]))
            raise DataError(f"{path}: column {column} of {key!r} has {value}, which is no number.")
    return table

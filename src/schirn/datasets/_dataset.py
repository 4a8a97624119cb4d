"""`Dataset`, which every reader and generator returns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from schirn._files import brief
from schirn._input import repeated
from schirn.exceptions import DataError
from schirn.labels.votes import Votes

Fold = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, repr=False, eq=False)
class Dataset:
    """Features, true labels and candidate labels of one data set.

    Attributes
    ----------
    name : str
    X : ndarray or csr_array of shape (n, d)
        ``d = 0`` if the source has no features.
    y_true : uint8 ndarray or csr_array of shape (n, l), or None
        The true labels.
    candidates : uint8 ndarray or csr_array of shape (n, l), or None
        The noisy labels; None if the source has none.
    label_names : list of str
        "label_0", "label_1", ... if the source has no names.
    feature_names : list of str or None
    n_train : int or None
        Number of training rows, which come first.
    folds : list of (train, test) row indices, or None
    images : ndarray or None
        One image per row, for display.
    votes : Votes or None
        The votes behind the candidates, where the source has them.
    description : str
    n_dropped : int
        Number of rows of the source that were left out.
    zero_based : bool or None
        Whether an svmlight file counts its features from 0; None for other sources.

    Examples
    --------
    >>> from schirn.datasets import load
    >>> digits = load("digits_attributes")
    >>> digits
    Dataset('digits_attributes', n=1797, d=64, l=10, y_true, candidates, images)
    >>> digits.subset([0, 5]).y_true.shape
    (2, 10)
    """

    name: str
    X: Any
    y_true: Any = None
    candidates: Any = None
    label_names: list[str] = field(default_factory=list)
    feature_names: list[str] | None = None
    n_train: int | None = None
    folds: list[Fold] | None = None
    images: np.ndarray | None = None
    votes: Votes | None = None
    description: str = ""
    n_dropped: int = 0
    zero_based: bool | None = None

    def __post_init__(self) -> None:
        if not self.label_names:
            names = [f"label_{j}" for j in range(self.n_labels)]
            object.__setattr__(self, "label_names", names)
        self._check_shapes()

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of feature columns."""
        return int(self.X.shape[1])

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        labels = self.y_true if self.y_true is not None else self.candidates
        return len(self.label_names) if labels is None else int(labels.shape[1])

    def __repr__(self) -> str:
        sizes = f"n={self.n_samples}, d={self.n_features}, l={self.n_labels}"
        present = [name for name in ("y_true", "candidates", "folds", "images") if self._has(name)]
        form = ["sparse"] if sparse.issparse(self.X) else []
        return f"Dataset({self.name!r}, {', '.join([sizes, *form, *present])})"

    def subset(self, rows: ArrayLike | slice) -> Dataset:
        """Return the data set restricted to `rows` (indices, a boolean mask or a slice).

        `n_train`, `folds` and `votes` refer to the rows of the whole set, so they are dropped.

        Parameters
        ----------
        rows : array of int or bool, or slice
            The rows to take.

        Returns
        -------
        Dataset
        """
        if isinstance(rows, slice):
            index = np.arange(self.n_samples)[rows]
        else:
            index = np.asarray(rows)
            index = np.flatnonzero(index) if index.dtype == bool else index.astype(np.intp)
        taken = {
            name: getattr(self, name)[index]
            for name in ("X", "y_true", "candidates", "images")
            if self._has(name)
        }
        return replace(self, n_train=None, folds=None, votes=None, **taken)

    def _has(self, name: str) -> bool:
        return getattr(self, name) is not None

    def _check_shapes(self) -> None:
        for name in ("y_true", "candidates"):
            labels = getattr(self, name)
            if labels is not None and labels.shape != (self.n_samples, self.n_labels):
                raise DataError(
                    f"{name} has shape {labels.shape}, but X has {self.n_samples} rows and there "
                    f"are {self.n_labels} labels; the shapes must agree."
                )
        sizes = {"label_names": self.n_labels, "feature_names": self.n_features}
        for name, size in sizes.items():
            names = getattr(self, name)
            if names is not None and len(names) != size:
                raise DataError(f"{name} has {len(names)} entries for {size} columns.")
        name_twice = repeated(self.label_names)
        if name_twice is not None:
            raise DataError(f"two labels are called {brief(name_twice)}; rename one of them.")

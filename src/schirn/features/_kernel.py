"""The kernel features of Sieve as a transformer for other methods and pipelines."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from schirn._input import (
    Array,
    Constraint,
    Number,
    OneOf,
    Seed,
    check_params,
    declare_parameters,
    parameter,
    validated_rows,
)
from schirn._sklearn import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from schirn.linalg.arrays import row_pieces
from schirn.linalg.features import Kernel, learn_scale, nystroem_map, sample_width, width_sample

_BLOCK_ROWS = 5000


@declare_parameters
class KernelFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Map rows to features whose inner products are the Gaussian kernel that Sieve uses.

    The features are scaled as in `Sieve`, the width of the kernel is the median squared distance
    between rows, and the map is exact on the landmarks. A linear method on these features is a
    kernel method, so that methods can be compared on equal features.

    Parameters
    ----------
    scale : {"auto", "text", "spread", "none"}
        Scaling of X. "auto" treats sparse counts as text (tf-idf, rows of length 1) and divides
        other features by their spread.
    n_landmarks : int
        Number of landmarks, drawn at random from the training rows. With at most this many training
        rows, all of them are landmarks, and their inner products are exact.
    random_state : int, RandomState or None
        Seed for drawing the landmarks and the rows whose distances determine the width.

    Attributes
    ----------
    scale_ : learned scaling.
    width_ : width w of the kernel exp(-||a - b||^2 / w).
    landmarks_ : scaled landmarks, an array or a CSR array.
    weights_ : (landmarks, features) matrix; the features of a row are its kernel with the landmarks
        times this matrix.
    n_features_in_, feature_names_in_

    Notes
    -----
    Time is O(m^3 + n m (d + m)) for n rows and m landmarks. The number of features is the number of
    linearly independent landmarks. The features are not centred: set `fit_intercept` in methods
    that have this parameter.

    Examples
    --------
    >>> from schirn import CandidateRidge
    >>> from schirn.datasets import make_partial_multilabel
    >>> from schirn.features import KernelFeatures
    >>> from sklearn.pipeline import make_pipeline
    >>> data = make_partial_multilabel(n_samples=200, n_labels=6, r=1, random_state=0)
    >>> model = make_pipeline(KernelFeatures(n_landmarks=50), CandidateRidge(fit_intercept=True))
    >>> model.fit(data.X, data.candidates).predict(data.X[:3]).shape
    (3, 6)
    """

    scale: str = parameter("auto", OneOf(("auto", "text", "spread", "none")))
    n_landmarks: int = parameter(1500, Number(low=1, integer=True))
    random_state: Any = parameter(0, Seed())

    _constraints: ClassVar[dict[str, Constraint]]

    def fit(self, X: Any, y: Any = None) -> "KernelFeatures":
        """Learn the scaling, the width and the landmarks.

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n, d)
        y : ignored

        Returns
        -------
        KernelFeatures
            The fitted transformer.
        """
        check_params(self.get_params(deep=False), self._constraints)
        X = validated_rows(self, X, reset=True)
        rng = check_random_state(self.random_state)
        n = X.shape[0]
        self.scale_ = learn_scale(X, self.scale)
        Z = self.scale_.transform(X)
        self.width_ = sample_width(Z[width_sample(n, rng)])
        rows = np.arange(n)
        if n > self.n_landmarks:
            rows = np.sort(rng.choice(n, self.n_landmarks, replace=False))
        self.landmarks_ = Z[rows]
        # In double precision, so that small eigenvalues of the kernel are not rounding errors.
        weights = nystroem_map(self._kernel(), self.landmarks_.astype(np.float64))
        self.weights_ = weights.astype(X.dtype)
        return self

    def transform(self, X: Any) -> Array:
        """Return the features (n, k) of rows, in the precision of X.

        Parameters
        ----------
        X : array, CSR matrix or DataFrame of shape (n, d)

        Returns
        -------
        (n, k) array
            k is the number of linearly independent landmarks.
        """
        check_is_fitted(self)
        X = validated_rows(self, X)
        kernel = self._kernel()
        pieces = row_pieces(self.scale_.transform(X), _BLOCK_ROWS)
        return np.concatenate([kernel(Z, self.landmarks_) @ self.weights_ for _, Z in pieces])

    @property
    def _n_features_out(self) -> int:
        return self.weights_.shape[1]

    def _kernel(self) -> Kernel:
        return Kernel("rbf", self.width_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

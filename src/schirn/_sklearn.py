"""Base classes of scikit-learn as type checkers should see them.

scikit-learn has no types, and a class with an unknown base accepts every argument.
"""

from typing import TYPE_CHECKING, Any

__all__ = [
    "BaseEstimator",
    "ClassNamePrefixFeaturesOutMixin",
    "ClassifierMixin",
    "TransformerMixin",
]

if TYPE_CHECKING:
    from typing import Self

    class BaseEstimator:
        """Parameters by name."""

        n_features_in_: int

        def __getstate__(self) -> dict[str, Any]:
            """Return the state for a copy."""

        def __sklearn_tags__(self) -> Any:
            """Return what scikit-learn needs to know of the estimator."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the parameters."""

        def set_params(self, **params: Any) -> Self:
            """Set parameters."""

    class ClassNamePrefixFeaturesOutMixin:
        """Names the columns of transformed rows."""

        def get_feature_names_out(self, input_features: Any = None) -> Any:
            """Return the names of the columns."""

    class ClassifierMixin:
        """Marks classifiers."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
            """Return the mean accuracy."""

    class TransformerMixin:
        """Fits and transforms at once."""

        def fit_transform(self, X: Any, y: Any = None) -> Any:
            """Return the transformed rows."""

        def set_output(self, *, transform: Any = None) -> Self:
            """Set the container of the transformed rows."""

else:
    from sklearn.base import (
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        TransformerMixin,
    )

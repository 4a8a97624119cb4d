"""The output of transformers inside of this package: arrays, whatever `set_output` asks outside."""

from typing import Any

import scipy.sparse as sp
from sklearn import config_context

from schirn._input import Array


def arrays_of(
    transformer: Any, X: Any, y: Any = None, *, learn: bool = False
) -> "Array | sp.csr_array":
    """Return features as an array or CSR matrix, whatever output scikit-learn is set to."""
    with config_context(transform_output="default"):
        features: Any = transformer.fit_transform(X, y) if learn else transformer.transform(X)
        return features

"""The output of transformers: arrays inside of this package, what `set_output` asks outside."""

from typing import Any

import scipy.sparse as sp
from sklearn import config_context, get_config

from schirn._input import Array
from schirn._optional import optional
from schirn.exceptions import InputError


def as_output(transformer: Any, features: Any, X: Any) -> Any:
    """Return sparse features as `set_output` asks: for pandas, a DataFrame of sparse columns.

    Dense features are returned as they are, since scikit-learn makes the DataFrame.
    """
    chosen = getattr(transformer, "_sklearn_output_config", {}).get("transform")
    kind = chosen or get_config()["transform_output"]
    if kind == "default" or not sp.issparse(features):
        return features
    if kind != "pandas":
        raise InputError(
            f"the weights of words are sparse, and a DataFrame of {kind} would need room for every "
            f"zero; use set_output(transform='pandas') or set_output(transform='default')"
        )
    pandas = optional("pandas", "table", "A DataFrame of features")
    names = transformer.get_feature_names_out()
    # Lists have a method of this name.
    index = None if callable(getattr(X, "index", None)) else getattr(X, "index", None)
    return pandas.DataFrame.sparse.from_spmatrix(features, index=index, columns=names)


def arrays_of(
    transformer: Any, X: Any, y: Any = None, *, learn: bool = False
) -> "Array | sp.csr_array":
    """Return features as an array or CSR matrix, whatever output scikit-learn is set to."""
    with config_context(transform_output="default"):
        features: Any = transformer.fit_transform(X, y) if learn else transformer.transform(X)
        return features

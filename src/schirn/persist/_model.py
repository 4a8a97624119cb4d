"""Classes that a model file may contain, and checks that a model is usable."""

import warnings
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._entry_points import registered
from schirn._files import reason_of
from schirn.estimators import PartialMultiLabelClassifier, TrainingRows, method_named
from schirn.features import Encoder, TableFeatures, TagPipeline, TextFeatures
from schirn.features.columns import CategoryColumns, NumberColumns
from schirn.features.table import TFIDF
from schirn.linalg.features import FeatureScale, Kernel, KernelExpansion
from schirn.noise.calibration import Calibration
from schirn.noise.model import NoiseModel
from schirn.noise.thresholds import LabelThreshold
from schirn.noise.votes import VoteModel
from schirn.solvers.sieve import LabelStack, Pool

# Named tuples by their names in model files. These names and the fields of the tuples are part of
# the file format, and stay the same even if modules and classes change.
RECORDS: dict[str, type[Any]] = {
    "Calibration": Calibration,
    "FeatureScale": FeatureScale,
    "Kernel": Kernel,
    "KernelExpansion": KernelExpansion,
    "LabelStack": LabelStack,
    "LabelThreshold": LabelThreshold,
    "NoiseModel": NoiseModel,
    "Pool": Pool,
    "TrainingRows": TrainingRows,
    "VoteModel": VoteModel,
}
# Number of candidates of the rows on which a model is tried.
_N_CANDIDATES = 20
# Transformers whose fitted state consists of numbers and arrays.
_TRANSFORMERS = {
    **dict.fromkeys(("MaxAbsScaler", "MinMaxScaler"), "sklearn.preprocessing"),
    **dict.fromkeys(("Normalizer", "RobustScaler", "StandardScaler"), "sklearn.preprocessing"),
    **dict.fromkeys(("PCA", "TruncatedSVD"), "sklearn.decomposition"),
}
PIPELINE = "Pipeline"
"""Name of scikit-learn's pipeline class."""
# The features of a `TagPipeline`.
_FEATURES: dict[str, type[Any]] = {
    "CategoryColumns": CategoryColumns,
    "Encoder": Encoder,
    "NumberColumns": NumberColumns,
    "TableFeatures": TableFeatures,
    "TextFeatures": TextFeatures,
}


@cache
def all_records() -> dict[str, type[Any]]:
    """Return the named tuples of the core and of the plugins by their names in model files."""
    return RECORDS | registered("schirn.records")


def class_of(name: str) -> Any:
    """Return the method, transformer or pipeline of this name, or None."""
    if name == PIPELINE:
        return getattr(import_module("sklearn.pipeline"), name)
    if name in _TRANSFORMERS:
        return getattr(import_module(_TRANSFORMERS[name]), name)
    return _FEATURES[name] if name in _FEATURES else method_named(name)


def check_model(model: Any) -> None:
    """Raise ValueError unless a model supports everything that a fitted model does."""
    where = type(model).__name__
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if type(model).__name__ == PIPELINE:
                _check_steps(model)
                model = model.steps[-1][1]
            if isinstance(model, TagPipeline):
                _check_pipeline(model)
                model = model.method_
            _check_method(model)
    except Exception as error:
        raise ValueError(f"{where} cannot be used: {reason_of(error)}") from error


def _check_method(model: PartialMultiLabelClassifier) -> None:
    """Score a few rows, and check the verdicts on the training rows."""
    names = list(model.label_names_)
    d = model.n_features_in_
    if type(d) is not int or not all(type(name) is str for name in names):
        raise ValueError("n_features_in_ is not a number, or label_names_ are not strings")
    # A single row could hide mismatched shapes, and zeros could hide infinite numbers.
    X = np.random.RandomState(0).standard_normal((7, d))
    rows = getattr(model, "training_rows_", None)
    if rows is not None:
        _check_training_rows(rows, model.training_influence_, X, len(names))
    # As many candidates as rows have: a row that lists thousands of labels is out of range.
    Y = np.zeros((len(X), len(names)), dtype=np.uint8)
    Y[:, :_N_CANDIDATES] = 1
    outputs = [model.decision_function(X), model.predict(X), model.predict_proba(X)]
    outputs += [model.disambiguate(X, Y), model.predict(X, threshold="cardinality")]
    # The rule of the file, which predictions do not use until the model is trained again.
    outputs.append(model.predict(X, threshold=model.threshold))
    if any(scores.shape != Y.shape or not np.isfinite(scores).all() for scores in outputs):
        raise ValueError(f"there is no finite score for each of its {len(names)} labels")
    verdicts = [vars(model)[key] for key in ("noise_", "label_confidence_") if key in vars(model)]
    for verdict in verdicts:
        if verdict.shape != (verdicts[0].shape[0], len(names)) or not 0 <= verdict.max() <= 1:
            raise ValueError("noise_ and label_confidence_ are not of the same rows and labels")


def _check_training_rows(rows: TrainingRows, influence: Any, X: Any, n_labels: int) -> None:
    """Raise ValueError unless the training rows are described as rows like those of X are."""
    n_rows = len(influence)
    if influence.shape != (n_rows, n_labels) or not np.isfinite(influence).all():
        raise ValueError("training_influence_ has no finite number for each row and label")
    example = TrainingRows.of(sp.csr_array(X) if len(rows.sizes) else X)
    for name in ("hashes", "sizes", "weights", "points", "mean", "deviation"):
        expected = getattr(example, name)
        values = getattr(rows, name)
        is_by_row = name in ("hashes", "sizes", "points") and len(expected)
        shape = (n_rows, *expected.shape[1:]) if is_by_row else expected.shape
        if (values.shape, values.dtype) != (shape, expected.dtype) or not np.isfinite(values).all():
            raise ValueError(f"{name} of training_rows_ has other rows, features or values")
    if not (rows.deviation > 0).all() or not 0 <= rows.radius < np.inf:
        raise ValueError("deviation or radius of training_rows_ is out of range")


def final_step(model: Any) -> Any:
    """Return the last step of a scikit-learn pipeline, or any other model itself."""
    return model.steps[-1][1] if type(model).__name__ == PIPELINE else model


def _check_steps(pipeline: Any) -> None:
    """Pass a few rows through the steps of a scikit-learn pipeline."""
    *transformers, last = [step for _, step in pipeline.steps]
    if not isinstance(last, PartialMultiLabelClassifier):
        raise ValueError("its last step is not a method of schirn")
    rows: Any = None
    for step in transformers:
        if step in (None, "passthrough"):
            continue
        if rows is None and isinstance(step, TextFeatures):
            rows = ["a text", "another one"]
        elif rows is None:
            rows = np.random.RandomState(0).standard_normal((7, step.n_features_in_))
        rows = step.transform(rows)
    if rows is not None and rows.shape[1] != last.n_features_in_:
        raise ValueError(f"its method does not take the {rows.shape[1]} features of its steps")


def _check_pipeline(pipeline: TagPipeline) -> None:
    """Compute features of a small table."""
    features = pipeline.features_
    method = pipeline.method_
    is_method = isinstance(method, PartialMultiLabelClassifier)
    if not (isinstance(features, TableFeatures) and is_method):
        raise ValueError("its parts are not a TableFeatures and a method")
    n = len(features.get_feature_names_out())
    if not n == features.n_features_ == method.n_features_in_:
        raise ValueError(f"its method does not take the {n} features")
    if not all(isinstance(name, str | None) for name in (features.vectors, features.image)):
        raise ValueError("a name of a column is not a text")
    cells = {"text": " ".join(getattr(features.text_, "words_", ()))}
    # Skipped otherwise: an encoder would load its model, and vectors may have any length.
    if features.encoder in (None, TFIDF) and features.vectors is features.image is None:
        names = [(name, kind) for kind in features.kinds for name in features.names_of(kind)]
        pipeline.decision_function({name: [cells.get(kind, "1"), ""] for name, kind in names})

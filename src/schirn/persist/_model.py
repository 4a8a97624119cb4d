"""What a fitted model holds, and the check that its parts fit together.

The parts are described like lines of documentation, for example "float (l, d)": records here,
attributes in `_fitted` of every method.

- ``float`` numbers are finite, a ``limit`` may be infinite, and a ``trace`` may hold anything;
  ``int``, ``bool``, ``text: a, b`` (one of these), ``word`` (any text), ``names``, ``table`` (a
  dict), ``integer type``, or the name of a record.
- ``float?`` may be None, ``[float]`` may be absent, ``sparse float`` may be a CSR or CSC matrix.
- ``float 0..1`` has bounds; a bound may be a size, as in ``int 0..l``.
- ``(l, d) | (l)`` lists the allowed shapes; none is a single number. A letter is a size that is the
  same everywhere in a model (n rows, d features, l labels), ``*`` is any size. A size that occurs
  first in a value that is None must not occur elsewhere.
"""

import re
import warnings
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._files import brief, reason_of
from schirn._plugins import from_plugins
from schirn.features import Encoder, TableFeatures, TagPipeline, TextFeatures
from schirn.features.columns import CategoryColumns, NumberColumns
from schirn.features.table import TFIDF
from schirn.linalg.features import FeatureScale, Kernel, KernelExpansion
from schirn.methods import CORE_METHODS, PartialMultiLabelClassifier, method_named
from schirn.noise.calibration import Calibration
from schirn.noise.caution import Caution
from schirn.noise.model import NoiseModel
from schirn.noise.thresholds import LabelThreshold
from schirn.noise.votes import VoteModel
from schirn.solvers.sieve import LabelStack, Pool

Schema = dict[str, str]
"""Descriptions by name."""
Records = Mapping[str, Mapping[type, Schema]]
"""The classes that the name of a record stands for, and their schemas."""


class Record(NamedTuple):
    """A named tuple in fitted models, and the descriptions of its fields."""

    cls: type[Any]
    fields: Schema


# Fields that only records of earlier versions have.
RETIRED_FIELDS = {"Caution": ("largest_share", "strict_share")}

# Named tuples by their names in model files. These names and the fields of the tuples are part of
# the file format and outlive modules and classes.
RECORDS: dict[str, Record] = {
    "Calibration": Record(
        Calibration, {"slope": "float", "offset": "float", "noise_rate": "float 0..1"}
    ),
    "Caution": Record(
        Caution,
        {
            "factors": "float 0..1 (l)",
            "separation": "float",
        },
    ),
    "FeatureScale": Record(
        FeatureScale,
        {
            "kind": "text: text, spread, none",
            "weights": "float (0) | (d)",
            "shift": "float (0) | (d)",
        },
    ),
    "Kernel": Record(Kernel, {"name": "text: rbf, linear", "width": "float 0.."}),
    "KernelExpansion": Record(
        KernelExpansion,
        {
            "kernel": "Kernel",
            "support": "sparse float? (m, f)",
            "weights": "float (e, m, l) | (e, f, l)",
            "offsets": "float (e, l)",
        },
    ),
    "LabelStack": Record(
        LabelStack,
        {"W": "float (l, r)", "centre": "float (l)", "mean": "float (l)", "right": "float? (r, l)"},
    ),
    "LabelThreshold": Record(
        LabelThreshold,
        {
            "cut": "limit? () | (1) | (l)",
            "top": "int? 1..",
            "scale_rows": "bool",
            "slopes": "float? (l)",
        },
    ),
    "NoiseModel": Record(
        NoiseModel,
        {"rate": "float 0..1 () | (n)", "tilt": "float (l+1)", "propensity": "float? (l)"},
    ),
    "Pool": Record(
        Pool,
        {"weights": "float (*)", "prior": "float (l)", "leader": "int 0..", "stack": "LabelStack?"},
    ),
    "VoteModel": Record(
        VoteModel,
        {
            "sensitivity": "float 0..1",
            "false_rates": "float 0..1 (l)",
            "frequency": "float 0..1 (l)",
            "log_ratio": "float? (n, l)",
            "annotator_sensitivity": "float? (a)",
            "annotator_false_factor": "float? (a)",
        },
    ),
}
# Transformers whose fitted state consists of numbers and arrays.
_TRANSFORMERS: dict[str, tuple[str, Schema]] = {
    "MaxAbsScaler": ("sklearn.preprocessing", {"scale_": "float (d)"}),
    "MinMaxScaler": ("sklearn.preprocessing", {"scale_": "float (d)", "min_": "float (d)"}),
    "Normalizer": ("sklearn.preprocessing", {}),
    "StandardScaler": ("sklearn.preprocessing", {"scale_": "float? (d)", "mean_": "float? (d)"}),
    "PCA": ("sklearn.decomposition", {"components_": "float (f, d)", "mean_": "float (d)"}),
    "TruncatedSVD": ("sklearn.decomposition", {"components_": "float (f, d)"}),
}


# The features of a `TagPipeline`.
_FEATURES: dict[str, tuple[type[Any], Schema]] = {
    "CategoryColumns": (CategoryColumns, {"categories_": "table"}),
    "Encoder": (Encoder, {"n_features_": "int 1..", "fingerprint_": "word"}),
    "NumberColumns": (
        NumberColumns,
        {
            "medians_": "float (c)",
            "spreads_": "float (c)",
            "has_missing_": "bool (c)",
            "has_commas_": "bool (c)",
        },
    ),
    "TableFeatures": (
        TableFeatures,
        {
            "text_": "TextFeatures?",
            "numbers_": "[NumberColumns?]",
            "categories_": "[CategoryColumns?]",
            "encoder_": "[Encoder?]",
            "scales_": "[float? (b)]",
            "n_features_": "int 1..",
        },
    ),
    "TextFeatures": (
        TextFeatures,
        {
            "words_": "names (w)",
            "idf_": "float (w)",
            "characters_": "[names (q)]",
            "characters_idf_": "[float (q)]",
        },
    ),
}


def check_model(model: Any) -> None:
    """Raise ValueError unless the fitted attributes fit together and the model can score rows."""
    if isinstance(model, TagPipeline):
        check_pipeline(model)
        model = model.method_
    schema: Schema = {}
    for cls in reversed(type(model).__mro__):
        schema |= vars(cls).get("_fitted", {})
    values, where, sizes = vars(model), type(model).__name__, dict[str, int]()
    first = {name: schema[name] for name in ("n_features_in_", "label_names_")}
    records = _schemas(type(model), type(values.get("transformer_")))
    check_fields(values, first, sizes, records, where)
    d, l = int(values["n_features_in_"]), sizes["l"]
    sizes |= {"d": d, "l+1": l + 1}
    # Of the transformers, only those with components change the number of features.
    if not hasattr(values.get("transformer_"), "components_"):
        sizes["f"] = d
    check_fields(values, schema, sizes, records, where)
    # What the schema cannot say, two rows tell; a single one could hide that shapes do not agree.
    try:
        X, Y = np.zeros((2, d)), np.ones((2, l), dtype=np.uint8)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            outputs = [model.decision_function(X), model.predict(X), model.predict_proba(X)]
            outputs += [model.disambiguate(X, Y), model.predict(X, threshold="cardinality")]
    except Exception as error:
        raise ValueError(f"{where} cannot score a row: {reason_of(error)}") from error
    if any(scores.shape != (2, l) or not np.isfinite(scores).all() for scores in outputs):
        raise ValueError(f"{where} gives no finite score for each of its {l} labels")


def check_pipeline(pipeline: TagPipeline) -> None:
    """Raise ValueError unless the features of a pipeline are those that its method takes."""
    records = {name: {cls: schema} for name, (cls, schema) in _FEATURES.items()}
    check_fields(vars(pipeline), {"features_": "TableFeatures"}, {}, records, "TagPipeline")
    method, features = vars(pipeline).get("method_"), pipeline.features_
    if not isinstance(method, PartialMultiLabelClassifier):
        raise ValueError(f"TagPipeline.method_ should be a method, found {brief(method)}")
    choices = [getattr(features, kind) for kind in features.kinds]
    lists = [[columns] if isinstance(columns, str) else columns for columns in choices]
    parts = {name: vars(features).get(name) for name in ("numbers_", "categories_", "encoder_")}
    numbers, categories, encoder = parts.values()
    scales = vars(features).get("scales_")
    text, is_image = features.text_, features.image is not None
    table = {} if categories is None else categories.categories_
    rules = {
        "name columns": bool(lists)
        and all(isinstance(columns, list | tuple) and len(columns) > 0 for columns in lists)
        and all(type(name) is str for columns in lists for name in columns),
        "have words if it learns from text": (features.text is not None) == (text is not None),
        "have character sequences and their weights": text is None
        or hasattr(text, "characters_") == hasattr(text, "characters_idf_"),
        # Models of version 0.2 have no medians.
        "have one median per column": numbers is None
        or len(numbers.medians_) == len(features.names_of("columns")),
        "have the categories of its columns": list(table) == features.names_of("categories")
        and all(type(words) is list for words in table.values())
        and all(type(word) is str for words in table.values() for word in words),
        "have the encoder that it names": (encoder is None)
        == (features.encoder in (None, TFIDF) and not is_image),
        "name its encoder": encoder is None or type(encoder.name) is type(encoder.of) is str,
        "scale each kind of column": (len(features.kinds) == 1) == (scales is None)
        and (scales is None or len(scales) == len(features.kinds)),
    }
    broken = next((rule for rule, holds in rules.items() if not holds), None)
    if broken is not None:
        raise ValueError(f"TagPipeline.features_ should {broken}, found {brief(features)}")
    sizes = {features.n_features_, vars(method).get("n_features_in_")}
    # The length of vectors follows from the number of features.
    if features.vectors is None:
        sizes.add(len(features.get_feature_names_out()))
    if len(sizes) != 1:
        raise ValueError(f"TagPipeline has parts with {sorted(map(str, sizes))} features")


@cache
def all_records() -> dict[str, Record]:
    """Return the named tuples of the core and of the plugins by their names in model files."""
    plugins = from_plugins("model_files", "RECORDS")
    return RECORDS | {name: Record(*entry) for name, entry in plugins.items()}


def _schemas(method: type, transformer: type) -> dict[str, dict[type, Schema]]:
    """The classes that the name of a record may stand for in the schema of a method.

    Of the transformers, only the one in question is imported.
    """
    known = RECORDS if CORE_METHODS.get(method.__name__) is method else all_records()
    schemas = {
        name: {item.cls: item.fields for item in known.values() if issubclass(item.cls, record.cls)}
        for name, record in known.items()
    }
    schemas["transformer"] = {
        class_of(name): schema
        for name, (_, schema) in _TRANSFORMERS.items()
        if name == transformer.__name__
    }
    return schemas


def class_of(name: str) -> Any:
    """Return the method or transformer of this name, or None."""
    if name in _TRANSFORMERS:
        return getattr(import_module(_TRANSFORMERS[name][0]), name)
    return _FEATURES[name][0] if name in _FEATURES else method_named(name)


_DESCRIPTION = re.compile(
    r"(?P<sparse>sparse )?(?P<kind>integer type|\w+)(?P<none>\?)?(?:: (?P<values>.+))?"
    r"(?: (?P<low>[\d.]+?)\.\.(?P<high>\w*))?(?P<shapes> \(.*\))?"
)
_TYPES = {"float": "f", "limit": "f", "trace": "f", "int": "iu", "bool": "b"}
_ROUNDING = 1e-6


@cache
def parse(text: str) -> dict[str, Any]:
    """Parse a description.

    >>> parse("float? 0..1 (n, l)")["shapes"]
    [['n', 'l']]
    """
    match = _DESCRIPTION.fullmatch(text.strip("[]"))
    assert match is not None, f"not a description: {text!r}"
    shapes = [re.findall(r"[^\s,()]+", shape) for shape in (match["shapes"] or "").split("|")]
    parsed = {"text": text.strip("[]"), "absent": text.startswith("["), "shapes": shapes}
    return match.groupdict() | parsed


def check_fields(
    values: Mapping[str, Any], schema: Schema, sizes: dict[str, int], records: Records, where: str
) -> None:
    """Raise ValueError for the first value that is missing or not as described.

    Parameters
    ----------
    values : mapping
        Values by name; those that the schema does not name may be anything.
    schema : Schema
    sizes : dict
        The sizes known so far; others are added as they occur.
    records : Records
    where : str
        What the values belong to, for errors.
    """
    for name, text in schema.items():
        field, value = parse(text), values.get(name)
        if value is not None:
            _check(value, field, sizes, records, f"{where}.{name}")
        elif not (field["none"] if name in values else field["absent"]):
            raise ValueError(f"{where}.{name} is missing")
        elif name in values:
            sizes |= {size: sizes.get(size, -1) for shape in field["shapes"] for size in shape}


def _check(
    value: Any, field: dict[str, Any], sizes: dict[str, int], records: Records, where: str
) -> None:
    kind, expected, is_text = field["kind"], field["text"], type(value) is str
    if kind in records:
        schema = records[kind].get(type(value))
        if schema is not None:
            # A record is a named tuple, a transformer an object.
            values = value._asdict() if hasattr(value, "_asdict") else vars(value)
            check_fields(values, schema, sizes, records, where)
        fits, expected = schema is not None, f"a {kind}"
    elif kind == "text":
        fits, expected = is_text and value in field["values"].split(", "), f"one of {expected[6:]}"
    elif kind == "word":
        fits, expected = is_text, "a text"
    elif kind == "table":
        fits, expected = type(value) is dict, "a dict"
    elif kind == "integer type":
        fits = is_text and re.fullmatch("[<>|=]?[iu][1248]", value) is not None
    elif kind == "names":
        is_list = type(value) is list or (isinstance(value, np.ndarray) and value.ndim == 1)
        fits = is_list and all(type(name) is str for name in value)
        fits = fits and _fit_shape((len(value),), field, sizes)
    else:
        fits = isinstance(value, bool | int | float | np.generic | np.ndarray) or (
            field["sparse"] is not None and sp.issparse(value)
        )
        if fits:
            _check_numbers(value, field, sizes, where)
    if not fits:
        raise ValueError(f"{where} should be {expected}, found {brief(value)}")


def _check_numbers(value: Any, field: dict[str, Any], sizes: dict[str, int], where: str) -> None:
    """Check type, shape, finiteness and bounds."""
    kind, text = field["kind"], field["text"]
    matrix: Any = value if sp.issparse(value) else np.asarray(value)
    array: np.ndarray = matrix.data if sp.issparse(matrix) else matrix
    # A whole number may stand for a float, unless it is an array.
    kinds = _TYPES[kind] + ("i" if kind != "bool" and not matrix.shape else "")
    if array.dtype.kind not in kinds or not _fit_shape(matrix.shape, field, sizes):
        known = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        raise ValueError(
            f"{where} should be {text} with {known}, found {array.dtype} {matrix.shape}"
        )
    if kind == "float" and not np.isfinite(array).all():
        raise ValueError(f"{where} should be finite, found NaN or infinity")
    if kind == "limit" and np.isnan(array).any():
        raise ValueError(f"{where} should be a number, found NaN")
    if field["low"] is not None and array.size:
        high = float(sizes.get(field["high"], field["high"] or np.inf))
        if array.min() < float(field["low"]) - _ROUNDING or array.max() > high + _ROUNDING:
            raise ValueError(f"{where} should be {text}, found {array.min()}..{array.max()}")


def _fit_shape(shape: tuple[int, ...], field: dict[str, Any], sizes: dict[str, int]) -> bool:
    """Whether a shape is one of those allowed; new sizes are kept."""
    for allowed in field["shapes"]:
        new_sizes = dict(sizes)
        if len(shape) == len(allowed) and all(
            name == "*"
            or size == (int(name) if name.isdigit() else new_sizes.setdefault(name, size))
            for name, size in zip(allowed, shape, strict=True)
        ):
            sizes.update(new_sizes)
            return True
    return False

"""Models in MLflow: a flavour for schirn, and `pyfunc`, which MLflow serves and batches."""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import schirn
from schirn._optional import optional
from schirn.estimators import PartialMultiLabelClassifier
from schirn.features import TagPipeline
from schirn.persist import load, save

__all__ = ["load_model", "log_model", "save_model"]

_FILE = "model.schirn"
_EXAMPLE = "input_example.json"
_SERVED_EXAMPLE = "serving_input_payload.json"
_MOST_FEATURES = 1_000


def save_model(
    model: PartialMultiLabelClassifier | TagPipeline,
    path: str | os.PathLike[str],
    *,
    mlflow_model: Any = None,
    signature: Any = None,
    input_example: Any = None,
) -> None:
    """Write a folder that MLflow loads.

    Parameters
    ----------
    model : TagPipeline or method
        A fitted model, as for `schirn.save`.
    path : path
        A new folder.
    mlflow_model : mlflow.models.Model, optional
        The description of the model, if MLflow creates it.
    signature : mlflow.models.ModelSignature, optional
        Columns and types of rows and predictions; by default derived from the model.
    input_example : DataFrame, optional
        Some rows; by default one row of the columns that the model learned from, or none if it
        needs images, vectors or more than 1,000 features.
    """
    pyfunc = optional("mlflow.pyfunc", "mlflow", "Saving models for MLflow")
    models = optional("mlflow.models", "mlflow", "Saving models for MLflow")
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    save(model, folder / _FILE, include_training=False)
    (folder / "requirements.txt").write_text("\n".join([*requirements(), ""]))
    described = mlflow_model or models.Model()
    pyfunc.add_to_model(described, loader_module=__name__, data=_FILE)
    described.add_flavor("schirn", data=_FILE, schirn_version=schirn.__version__)
    example = example_of(model) if input_example is None else input_example
    described.signature = _signature(model, example) if signature is None else signature
    if example is not None:
        described.saved_input_example_info = _write_example(folder, example)
    described.save(str(folder / "MLmodel"))


def requirements() -> list[str]:
    """Return the packages that a model needs, in installable versions.

    Returns
    -------
    list of str
        A development version is not in any index, so it is replaced by a requirement on the release
        that follows it.
    """
    release, _, development = schirn.__version__.partition(".dev")
    requirement = f"schirn>={release}.dev0" if development else f"schirn=={release}"
    packages = ("numpy", "scipy", "scikit-learn", "pandas")
    return [requirement, *(f"{name}=={version(name)}" for name in packages)]


def example_of(model: PartialMultiLabelClassifier | TagPipeline) -> Any:
    """Return a DataFrame with one row that a model can tag, or None.

    Parameters
    ----------
    model : TagPipeline or method
        The fitted model.

    Returns
    -------
    DataFrame or None
    """
    pandas = optional("pandas", "table", "A DataFrame of rows")
    if not isinstance(model, TagPipeline):
        d = model.n_features_in_
        names = getattr(model, "feature_names_in_", None)
        columns = [f"feature {j}" for j in range(d)] if names is None else names
        return pandas.DataFrame([[0.0] * d], columns=columns) if d <= _MOST_FEATURES else None
    cells: dict[str, Any] = {"text": "a text", "categories": "a", "columns": 0.0}
    features = model.features_
    kinds = {name: kind for kind in features.kinds for name in features.names_of(kind)}
    if not {*kinds.values()} <= {*cells}:
        return None
    return pandas.DataFrame([{name: cells[kind] for name, kind in kinds.items()}])


def _signature(model: PartialMultiLabelClassifier | TagPipeline, example: Any) -> Any:
    """Return columns and types of the rows, the predictions and the option `threshold`."""
    models = optional("mlflow.models", "mlflow", "Saving models for MLflow")
    types = optional("mlflow.types", "mlflow", "Saving models for MLflow")
    schema = optional("mlflow.types.schema", "mlflow", "Saving models for MLflow")
    text = types.DataType.string
    number = types.DataType.double
    inputs = None
    if example is not None:
        columns = [(name, example[name].dtype.kind in "biuf") for name in example.columns]
        inputs = [types.ColSpec(number if is_number else text, name) for name, is_number in columns]
    outputs = [types.ColSpec(schema.Array(text), "tags")]
    outputs += [types.ColSpec(number, name) for name in model.label_names_]
    # MLflow ignores options that the signature does not list.
    threshold = schema.ParamSpec("threshold", text, "")
    return models.ModelSignature(
        inputs=None if inputs is None else types.Schema(inputs),
        outputs=types.Schema(outputs),
        params=types.ParamSchema([threshold]),
    )


def _write_example(folder: Path, example: Any) -> dict[str, str]:
    """Write rows in MLflow's format; return their entry in the model description."""
    rows = {"columns": list(example.columns), "data": example.to_numpy().tolist()}
    (folder / _EXAMPLE).write_text(json.dumps(rows))
    (folder / _SERVED_EXAMPLE).write_text(json.dumps({"dataframe_split": rows}))
    return {
        "artifact_path": _EXAMPLE,
        "serving_input_path": _SERVED_EXAMPLE,
        "type": "dataframe",
        "pandas_orient": "split",
    }


def log_model(
    model: PartialMultiLabelClassifier | TagPipeline, name: str = "model", **options: Any
) -> Any:
    """Log a model to the current run of MLflow.

    Parameters
    ----------
    model : TagPipeline or method
        The fitted model.
    name : str, default="model"
        Name of the model in the run.
    **options
        Passed to `mlflow.models.Model.log`, such as ``registered_model_name``.

    Returns
    -------
    mlflow.models.model.ModelInfo
    """
    models = optional("mlflow.models", "mlflow", "Logging models to MLflow")
    return models.Model.log(None, sys.modules[__name__], name=name, model=model, **options)


def load_model(uri: str) -> PartialMultiLabelClassifier | TagPipeline:
    """Load the model itself, with all its methods, from an MLflow address.

    Parameters
    ----------
    uri : str
        Address of the model in MLflow.

    Returns
    -------
    PartialMultiLabelClassifier or TagPipeline
    """
    artifacts = optional("mlflow.artifacts", "mlflow", "Loading models from MLflow")
    return load(Path(artifacts.download_artifacts(uri)) / _FILE)


class _Predictor:
    """Predictor that `mlflow.pyfunc.load_model` wraps."""

    def __init__(self, model: PartialMultiLabelClassifier | TagPipeline) -> None:
        self.model = model

    def predict(self, X: Any, params: dict[str, Any] | None = None) -> Any:
        """Return the tags of rows, and the probability of each label, as a DataFrame.

        Parameters
        ----------
        X : DataFrame
            Rows to tag.
        params : dict, optional
            The rule of `predict`, such as ``{"threshold": "0.9"}`` or ``{"threshold": "top-3"}``.

        Returns
        -------
        DataFrame
        """
        pandas = optional("pandas", "table", "A DataFrame of predictions")
        method: Any = getattr(self.model, "method_", self.model)
        scores = self.model.decision_function(X)
        threshold = _rule((params or {}).get("threshold"))
        predicted = method.apply_threshold(scores, threshold=threshold)
        names = self.model.label_names_
        tags = [[names[j] for j in row.nonzero()[0]] for row in predicted]
        frame = pandas.DataFrame(method.calibration_.probability(scores), columns=names)
        frame.insert(0, "tags", tags, allow_duplicates=True)
        return frame


def _rule(text: Any) -> Any:
    """Return a threshold; parameters of MLflow have one type, so numbers are passed as strings."""
    if text is None or text == "":
        return None
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


def _load_pyfunc(path: str) -> _Predictor:
    return _Predictor(load(path))

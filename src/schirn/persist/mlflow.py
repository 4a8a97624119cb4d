"""Models in MLflow: a flavour of their own, and `pyfunc`, which MLflow serves and batches."""

import os
import sys
from pathlib import Path
from typing import Any

import schirn
from schirn._optional import optional
from schirn.estimators import PartialMultiLabelClassifier
from schirn.features import TagPipeline
from schirn.persist import load, save

__all__ = ["load_model", "log_model", "save_model"]

_FILE = "model.schirn"


def save_model(
    model: PartialMultiLabelClassifier | TagPipeline,
    path: str | os.PathLike[str],
    *,
    mlflow_model: Any = None,
) -> None:
    """Write a folder that MLflow loads.

    Parameters
    ----------
    model : TagPipeline or method
        A fitted model, as for `schirn.save`.
    path : path
        A new folder.
    mlflow_model : mlflow.models.Model, optional
        The description of the model, if MLflow makes it.
    """
    pyfunc = optional("mlflow.pyfunc", "mlflow", "Saving models for MLflow")
    models = optional("mlflow.models", "mlflow", "Saving models for MLflow")
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    save(model, folder / _FILE, include_training=False)
    requirement = f"schirn[table]=={schirn.__version__}"
    (folder / "requirements.txt").write_text(f"{requirement}\n")
    described = mlflow_model or models.Model()
    pyfunc.add_to_model(described, loader_module=__name__, data=_FILE)
    described.add_flavor("schirn", data=_FILE, schirn_version=schirn.__version__)
    described.save(str(folder / "MLmodel"))


def log_model(
    model: PartialMultiLabelClassifier | TagPipeline, name: str = "model", **options: Any
) -> Any:
    """Log a model to the current run of MLflow.

    Parameters
    ----------
    model : TagPipeline or method
    name : str
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
    """Load the model itself, with all its methods, from an address that MLflow knows.

    Parameters
    ----------
    uri : str
        Address of the model, as MLflow returns it.

    Returns
    -------
    PartialMultiLabelClassifier or TagPipeline
    """
    artifacts = optional("mlflow.artifacts", "mlflow", "Loading models from MLflow")
    return load(Path(artifacts.download_artifacts(uri)) / _FILE)


class _Predictor:
    """What `mlflow.pyfunc.load_model` wraps."""

    def __init__(self, model: PartialMultiLabelClassifier | TagPipeline) -> None:
        self.model = model

    def predict(self, X: Any, params: dict[str, Any] | None = None) -> Any:
        """Return the tags of rows, and the probability of each label, as a DataFrame."""
        pandas = optional("pandas", "table", "A DataFrame of predictions")
        method: Any = getattr(self.model, "method_", self.model)
        scores = self.model.decision_function(X)
        predicted = method.apply_threshold(scores, threshold=(params or {}).get("threshold"))
        names = self.model.label_names_
        tags = [[names[j] for j in row.nonzero()[0]] for row in predicted]
        frame = pandas.DataFrame(method.calibration_.probability(scores), columns=names)
        frame.insert(0, "tags", tags, allow_duplicates=True)
        return frame


def _load_pyfunc(path: str) -> _Predictor:
    return _Predictor(load(path))

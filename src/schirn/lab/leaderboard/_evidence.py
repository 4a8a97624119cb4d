"""What a result is compared with: its data drawn again, and metrics computed again."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from schirn._files import brief
from schirn._input import Array
from schirn.datasets import Dataset, available, load
from schirn.exceptions import DataError, InputError
from schirn.lab.bench import Prepared, checksum, make_splits, prepare, unusable
from schirn.lab.bench.results import Result
from schirn.lab.bench.suite import suite_datasets

TOLERANCE = 1e-6
"""Largest difference of a metric from the one computed again: other processors round otherwise."""


class Entry(NamedTuple):
    """A result, the place of its line and its file."""

    result: Result
    where: str
    file: Path


class Draw(NamedTuple):
    """Values determined by the data set, the noise and the seeds of a result."""

    known: dict[str, Any]
    data: Prepared

    def has_fold(self, fold: int) -> bool:
        """Check whether there is a fold of this number."""
        return 0 <= fold < len(self.data.splits)

    def fields(self, fold: int) -> dict[str, Any]:
        """Return the fields of a result of a fold."""
        if not self.has_fold(fold):
            return self.known
        train, test = self.data.splits[fold]
        return {
            **self.known,
            "n_train": len(train),
            "n_test": len(test),
            "candidates_sha256": self.data.candidates_sha256[fold],
        }

    def labels(self, fold: int) -> tuple[Array, Array]:
        """Return the true labels of the test rows and of the candidates of the training rows."""
        train, test = self.data.splits[fold]
        is_candidate = self.data.candidates[fold] == 1
        truth = self.data.truth.astype(bool)
        return truth[test], truth[train][is_candidate]


def draw_again(result: Result, data: Dataset) -> Draw:
    """Draw folds and candidates of a result again; raise if they cannot be drawn."""
    reason = unusable(data, result["r"])
    if reason is not None:
        raise InputError(reason)
    splits = make_splits(data, result["folds"], result["seed"], result["split"] == "stored")
    draw = prepare(data, result["r"], result["noise"], result["noise_seed"], splits)
    known = {
        "data_sha256": checksum(data),
        "folds_sha256": draw.folds_sha256,
        "n_features": data.n_features,
        "n_labels": data.n_labels,
        "folds": len(splits),
    }
    return Draw(known, draw)


def load_again(result: Result) -> Dataset:
    """Return the data set of a result; raise InputError if it is not available."""
    name = result["dataset"]
    for data in suite_datasets(name):
        if checksum(data) == result["data_sha256"]:
            return data
    if name not in {entry.name for entry in available() if entry.where != "downloadable"}:
        raise InputError(f"data set not here ({brief(name)})")
    return load(name)


def compare_metrics(
    result: Result, values: Mapping[str, float], source: str, tolerance: float
) -> set[str]:
    """Return the metrics of a result that agree with `values`; raise DataError if one differs."""
    names = set(result["metrics"]) & set(values)
    for name in sorted(names):
        if differ(result["metrics"][name], values[name], tolerance):
            raise DataError(in_words(result, name, values[name], source, tolerance))
    return names


def in_words(result: Result, name: str, value: float, source: str, tolerance: float) -> str:
    """Return the sentence about a metric that differs."""
    claimed = result["metrics"][name]
    return f"{name} is {claimed}, but {source} {value:.6g} (tolerance {tolerance:g})"


def differ(one: float | None, another: float | None, tolerance: float = TOLERANCE) -> bool:
    """Check whether two metrics differ; None is undefined, like NaN."""
    a, b = (math.nan if value is None else value for value in (one, another))
    return abs(a - b) > tolerance or math.isnan(a) != math.isnan(b)

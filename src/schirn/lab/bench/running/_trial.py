"""Try classes from elsewhere on small data of the kinds that a benchmark has, before it begins.

A class that takes dense features only, or at least two labels, would otherwise fail after hours.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from schirn.datasets import Dataset, make_partial_multilabel
from schirn.exceptions import InputError
from schirn.lab.bench.running._data import Source, checksum
from schirn.lab.bench.running._execute import Output
from schirn.lab.bench.running._methods import is_own
from schirn.lab.bench.running._plan import Run

# Number of labels from which a data set counts as having many.
_MANY = 50
_N_ROWS = 240
# Time limit of a trial in seconds; a class that needs more is slow, but not rejected.
_TIME_LIMIT = 60.0


class Kind(NamedTuple):
    """Kind of data that a class may not support.

    Attributes
    ----------
    is_sparse : bool
        Whether the features are sparse.
    n_labels : int
        1, a few, or many.
    """

    is_sparse: bool
    n_labels: int

    @property
    def words(self) -> str:
        """The kind in words."""
        labels = {1: "a single label", _MANY: f"{_MANY} labels"}.get(self.n_labels)
        parts = ["sparse features"] * self.is_sparse + ([labels] if labels else [])
        return " and ".join(parts) or "dense features and a few labels"


_PLAIN = Kind(is_sparse=False, n_labels=5)


def check_kinds(runs: Sequence[Run], execute: Callable[[Run, float], Output]) -> None:
    """Raise InputError if a class takes plain data, but not another kind that its runs have.

    A class that fails on plain data as well is left to its runs, which record why.

    Parameters
    ----------
    runs : list of Run
        Runs that are not finished.
    execute : callable
        Executes a run within a time limit in seconds.
    """
    for path, chosen in _by_class(runs).items():
        kinds = {_kind_of(run): run for run in reversed(chosen)}
        kinds.pop(_PLAIN, None)
        if is_own(path) or not kinds or _fault(chosen[0], _PLAIN, execute):
            continue
        for kind, run in kinds.items():
            reason = _fault(run, kind, execute)
            if reason:
                count = sum(_kind_of(candidate) == kind for candidate in chosen)
                raise InputError(
                    f"{run.method.name} fails on {kind.words}, which {run.source.name} has: "
                    f"{reason}; {count} of its {len(chosen)} runs would fail: change the class, "
                    "or leave these data sets out"
                )


def _by_class(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Runs that will be executed, by the import path of their class."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.known["reason"] is None:
            groups.setdefault(run.method.path, []).append(run)
    return groups


def _kind_of(run: Run) -> Kind:
    n_labels = run.known["n_labels"]
    # Kernel features are dense.
    is_sparse = run.known["is_sparse"] and run.fields["features"] != "kernel"
    if n_labels > _PLAIN.n_labels:
        n_labels = _MANY if n_labels >= _MANY else _PLAIN.n_labels
    return Kind(is_sparse, n_labels if n_labels == 1 else max(n_labels, _PLAIN.n_labels))


def _fault(run: Run, kind: Kind, execute: Callable[[Run, float], Output]) -> str:
    """Return why the method of a run fails on small data of a kind; "" if it works."""
    data = _small(kind)
    fields = {"r": None, "noise": "own", "noise_seed": None, "split": "kfold", "folds": 2}
    known: dict[str, Any] = {"data_sha256": checksum(data), "n_labels": kind.n_labels}
    trial = replace(
        run,
        source=Source(data.name, "", {}, data),
        fields={**run.fields, **fields, "fold": 0},
        known={**run.known, **known},
    )
    result = execute(trial, _TIME_LIMIT).fields
    return str(result["reason"]) if result["status"] == "failed" else ""


def _small(kind: Kind) -> Dataset:
    """Well-behaved data of a kind: every label has true rows, and every row a candidate."""
    data = make_partial_multilabel(
        n_samples=_N_ROWS,
        n_features=30,
        n_labels=max(kind.n_labels, 3),
        cardinality=max(1.5, kind.n_labels / 8),
        r=1,
        sparse=kind.is_sparse,
        random_state=0,
    )
    labels = slice(0, kind.n_labels)
    return Dataset(
        "trial", data.X, np.asarray(data.y_true)[:, labels], np.asarray(data.candidates)[:, labels]
    )

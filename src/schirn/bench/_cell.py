"""One cell: scale, tune, fit, score."""

import inspect
import time
import traceback
import warnings
from typing import Any, NamedTuple

import numpy as np

from schirn.bench._data import Array, Prepared, Split, checksum, make_splits, prepare
from schirn.bench._memory import peak_memory, reset_peak_memory
from schirn.bench._methods import load_class
from schirn.bench._plan import Cell
from schirn.bench._scores import measures
from schirn.bench.rows import Row
from schirn.exceptions import InputError, MissingExtraError
from schirn.linalg.features import learn_scale
from schirn.model_selection import CandidateSearchCV


class Outcome(NamedTuple):
    """What a cell adds to its row, and the arrays to keep."""

    row: Row
    arrays: dict[str, Array]


class _Fold(NamedTuple):
    """The rows of one fold."""

    X: Any
    X_test: Any
    truth: Array
    truth_test: Array
    candidates: Array


def run_cell(cell: Cell, data: Prepared) -> Outcome:
    """Run a cell; an error becomes its status."""
    reset_peak_memory()
    try:
        with warnings.catch_warnings():
            # A warning cannot be shown usefully from hundreds of fits; the row tells the result.
            warnings.simplefilter("ignore")
            done = _run(cell, data)
    except MissingExtraError as error:
        return not_done("skipped", _sentence(error))
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {_sentence(error)}".rstrip(": ")
        return not_done("failed", reason, traceback.format_exc())
    done.row["peak_memory_mb"] = peak_memory()
    return done


def not_done(status: str, reason: str, trace: str | None = None) -> Outcome:
    """The outcome of a cell without a result."""
    return Outcome({"status": status, "reason": reason, "traceback": trace}, {})


def load_for(cell: Cell) -> Prepared:
    """Load the set of a cell, add its noise, cut its folds."""
    data = cell.source.load()
    if checksum(data) != cell.known["data_sha256"]:
        raise InputError(f"{cell.source.name} changed while the benchmark ran; start it again")
    row = cell.row
    splits = make_splits(data, row["folds"], row["seed"], row["split"] == "stored")
    return prepare(data, row["r"], row["noise"], row["noise_seed"], splits)


def _run(cell: Cell, data: Prepared) -> Outcome:
    cls = load_class(cell.method.path)
    fixed = _fixed(cls, cell)
    fold = _cut(data, data.splits[cell.row["fold"]], _scales_itself(cls), cell.row["features"])
    start = time.perf_counter()
    chosen = _tune(cls(**fixed), cell, fold) if cell.known["grid"] else {}
    tuned = time.perf_counter()
    params = {**fixed, **chosen}
    model = cls(**params)
    extra = {"y_clean": fold.truth} if cell.method.sees_truth else {}
    processor = time.process_time()
    model.fit(fold.X, fold.candidates, **extra)
    fitted, processor = time.perf_counter(), time.process_time() - processor
    scores = _scores(model, fold.X_test)
    scored = time.perf_counter()
    arrays = _keep(model, scores, fold)
    row = {
        "status": "done",
        "metrics": measures(arrays),
        "params": params,
        "tune_seconds": round(tuned - start, 4),
        "fit_seconds": round(fitted - tuned, 4),
        "fit_cpu_seconds": round(processor, 4),
        "predict_seconds": round(scored - fitted, 4),
        "n_train": len(fold.truth),
        "n_test": len(fold.truth_test),
    }
    return Outcome(row, arrays)


def _fixed(cls: type, cell: Cell) -> dict[str, Any]:
    """The fixed parameters, with those that follow from the cell unless the user fixed them."""
    params, known = dict(cell.method.params), inspect.signature(cls).parameters
    if "random_state" in known:
        params.setdefault("random_state", cell.row["seed"])
    if "fit_intercept" in known and cell.row["features"] == "auto":
        # Scaled features are centred; without an intercept the label frequencies would be lost.
        params.setdefault("fit_intercept", True)
    return params


def _scales_itself(cls: type) -> bool:
    return "features" in inspect.signature(cls).parameters


def _cut(data: Prepared, split: Split, scales_itself: bool, features: str) -> _Fold:
    train, test = split
    X, X_test = data.X[train], data.X[test]
    if features == "auto" and not scales_itself:
        scale = learn_scale(X)
        X, X_test = scale.transform(X), scale.transform(X_test)
    return _Fold(X, X_test, data.truth[train], data.truth[test], data.candidates[train])


def _tune(model: Any, cell: Cell, fold: _Fold) -> dict[str, Any]:
    """The best parameters by held-out training rows, or as released scripts do: on the test truth.

    Held-out rows are scored by their candidates; for a method that sees the truth, by their truth.
    """
    grid, seed = cell.known["grid"], cell.row["seed"]
    if not cell.row["oracle"]:
        search = CandidateSearchCV(
            model,
            grid,
            cv=cell.inner_folds,
            refit=False,
            oracle=cell.method.sees_truth,
            random_state=seed,
        )
        extra = {"y_clean": fold.truth} if cell.method.sees_truth else {}
        return dict(search.fit(fold.X, fold.candidates, **extra).best_params_)
    X, candidates, truth = _stacked(fold)
    rows = np.arange(len(truth))
    split = rows[: len(fold.truth)], rows[len(fold.truth) :]
    search = CandidateSearchCV(model, grid, cv=[split], refit=False, oracle=True)
    return dict(search.fit(X, candidates, y_clean=truth).best_params_)


def _stacked(fold: _Fold) -> tuple[Any, Array, Array]:
    """Training and test rows in one; the candidates of test rows are not looked at."""
    from scipy import sparse

    both = (fold.X, fold.X_test)
    X = sparse.vstack(both, format="csr") if sparse.issparse(fold.X) else np.vstack(both)
    return (
        X,
        np.vstack([fold.candidates, fold.truth_test]),
        np.vstack([fold.truth, fold.truth_test]),
    )


def _scores(model: Any, X: Any) -> Array:
    """Scores of the test rows."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X))
    return np.asarray(model.predict_proba(X))


def _keep(model: Any, scores: Array, fold: _Fold) -> dict[str, Array]:
    """What the measures need, small: bits for 0/1, single precision, candidate cells only."""
    if scores.shape != fold.truth_test.shape:
        raise InputError(
            f"the scores have shape {scores.shape}, but there are {len(fold.truth_test)} test "
            f"rows and {fold.truth_test.shape[1]} labels"
        )
    cells = fold.candidates == 1
    arrays = {
        "scores": scores.astype(np.float32),
        "truth": np.packbits(fold.truth_test.astype(bool), axis=1),
        "candidate_truth": fold.truth[cells].astype(bool),
    }
    if hasattr(model, "predict"):
        predicted = np.asarray(model.predict(fold.X_test)).reshape(scores.shape)
        arrays["predicted"] = np.packbits(predicted.astype(bool), axis=1)
    if hasattr(model, "label_confidence_"):
        arrays["confidence"] = np.asarray(model.label_confidence_)[cells].astype(np.float32)
    if hasattr(model, "noise_"):
        arrays["noise"] = np.asarray(model.noise_)[cells].astype(bool)
    return arrays


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split())

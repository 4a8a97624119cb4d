"""Execute one run: scale, tune, fit, score."""

import inspect
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from schirn.exceptions import InputError, MissingExtraError
from schirn.features import KernelFeatures
from schirn.lab.bench.results import Result
from schirn.lab.bench.running._data import Array, Prepared, checksum, make_splits, prepare
from schirn.lab.bench.running._memory import peak_memory, reset_peak_memory
from schirn.lab.bench.running._methods import import_class
from schirn.lab.bench.running._plan import Run
from schirn.lab.bench.running._scores import compute_metrics
from schirn.lab.rivals.solvers import reused, shared_work
from schirn.linalg.features import learn_scale
from schirn.model_selection import CandidateSearchCV

# Relative difference of scores that rounding in single precision does not explain.
_BATCH_TOLERANCE = 1e-3


class Output(NamedTuple):
    """Fields that a run adds to its result, and the arrays to store."""

    fields: Result
    arrays: dict[str, Array]


class _Fold(NamedTuple):
    """Training and test rows of one fold."""

    X: Any
    X_test: Any
    truth: Array
    truth_test: Array
    candidates: Array


def data_key(run: Run) -> tuple[Any, ...]:
    """Return the key of the prepared data, which runs with the same key share."""
    names = ("r", "noise", "noise_seed", "folds", "seed", "split")
    return (run.known["data_sha256"], *(run.fields[name] for name in names))


def load_data(run: Run) -> Prepared:
    """Load the data set of a run, add the noise and split it into folds."""
    data = run.source.load()
    if checksum(data) != run.known["data_sha256"]:
        raise InputError(f"{run.source.name} changed while the benchmark ran; start it again")
    fields = run.fields
    splits = make_splits(data, fields["folds"], fields["seed"], fields["split"] == "stored")
    return prepare(data, fields["r"], fields["noise"], fields["noise_seed"], splits)


def execute(run: Run, data: Prepared) -> Output:
    """Execute a run; an error becomes its status."""
    output = _attempt(run, data)
    output.fields["candidates_sha256"] = data.candidates_sha256[run.fields["fold"]]
    output.fields["folds_sha256"] = data.folds_sha256
    return output


def _attempt(run: Run, data: Prepared) -> Output:
    reset_peak_memory()
    # Consecutive fits to the same rows share as much work as possible.
    fold_key = (data_key(run), run.fields["fold"])
    try:
        with warnings.catch_warnings(), shared_work(fold_key):
            # Warnings of hundreds of fits cannot be shown usefully.
            warnings.simplefilter("ignore")
            output = _execute(run, data)
    except MissingExtraError as error:
        return without_result("skipped", one_line(error))
    except MemoryError as error:
        reason = f"not enough memory: {one_line(error)}".rstrip(": ")
        return without_result("failed", reason, traceback.format_exc())
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {one_line(error)}".rstrip(": ")
        return without_result("failed", reason, traceback.format_exc())
    output.fields["peak_memory_mb"] = peak_memory()
    return output


def without_result(status: str, reason: str, trace: str | None = None) -> Output:
    """Return the output of a run that was skipped, stopped or failed."""
    return Output({"status": status, "reason": reason, "traceback": trace}, {})


def one_line(error: BaseException) -> str:
    """Return the message of an error on a single line."""
    return " ".join(str(error).split())


def _execute(run: Run, data: Prepared) -> Output:
    cls = import_class(run.method.path)
    fixed = _fixed_params(cls, run)
    fold = _fold(run, data)
    start = time.perf_counter()
    chosen = _tune(cls(**fixed), run, fold) if run.known["grid"] else {}
    tuned = time.perf_counter()
    params = {**fixed, **chosen}
    model = cls(**params)
    extra = {"y_clean": fold.truth} if run.method.sees_truth else {}
    cpu_seconds = time.process_time()
    model.fit(fold.X, fold.candidates, **extra)
    fitted = time.perf_counter()
    cpu_seconds = time.process_time() - cpu_seconds
    score = getattr(model, "decision_function", None) or model.predict_proba
    scores = _checked(np.asarray(score(fold.X_test)), fold.truth_test.shape)
    scored = time.perf_counter()
    arrays = _arrays(model, scores, fold)
    fields = {
        "status": "done",
        "reason": _batch_dependence(score, fold.X_test, scores),
        "metrics": compute_metrics(arrays),
        "params": params | _chosen_in_fit(model, run),
        "tune_seconds": round(tuned - start, 4),
        "fit_seconds": round(fitted - tuned, 4),
        "fit_cpu_seconds": round(cpu_seconds, 4),
        "predict_seconds": round(scored - fitted, 4),
        "n_train": len(fold.truth),
        "n_test": len(fold.truth_test),
    }
    return Output(fields, arrays)


def _fixed_params(cls: type, run: Run) -> dict[str, Any]:
    """Return the fixed parameters, and parameters that follow from the run."""
    params = dict(run.method.params)
    known = inspect.signature(cls).parameters
    if "random_state" in known:
        params.setdefault("random_state", run.fields["seed"])
    if "fit_intercept" in known and run.fields["features"] != "raw":
        # Scaled features are centred; without an intercept the label frequencies would be lost.
        # The ridges of Sieve on kernel features have an intercept as well.
        params.setdefault("fit_intercept", True)
    return params


def _chosen_in_fit(model: Any, run: Run) -> dict[str, Any]:
    """Return the parameters that the method chose itself."""
    if not run.method.tunes_itself:
        return {}
    chosen = {name: getattr(model, f"{name}_", None) for name in run.method.grid or ()}
    return {name: value for name, value in chosen.items() if value is not None}


def _fold(run: Run, data: Prepared) -> _Fold:
    """Return the training and test rows with their features, the same for every method."""
    number = run.fields["fold"]
    train, test = data.splits[number]
    X = data.X[train]
    X_test = data.X[test]
    if run.fields["features"] == "auto":
        scale = learn_scale(X)
        X = scale.transform(X)
        X_test = scale.transform(X_test)
    elif run.fields["features"] == "kernel":
        seed = run.fields["seed"]
        size = 8 * KernelFeatures().n_landmarks * (len(train) + len(test))
        kernel = reused(("kernel", seed), lambda: _kernel_features(X, X_test, seed), size=size)
        # Copies, because a method may change its rows.
        X, X_test = (rows.copy() for rows in kernel)
    return _Fold(X, X_test, data.truth[train], data.truth[test], data.candidates[number])


def _kernel_features(X: Any, X_test: Any, seed: int) -> tuple[Any, Any]:
    kernel = KernelFeatures(random_state=seed).fit(X)
    return kernel.transform(X), kernel.transform(X_test)


def _tune(model: Any, run: Run, fold: _Fold) -> dict[str, Any]:
    """Choose parameters on held-out training rows, or on the truth of the test rows (oracle).

    Held-out rows are scored by their candidates; for a method that sees the truth, by their truth.
    """
    grid = run.known["grid"]
    sees_truth = run.method.sees_truth
    if not run.fields["oracle"]:
        search = CandidateSearchCV(
            model,
            grid,
            cv=run.inner_folds,
            refit=False,
            oracle=sees_truth,
            random_state=run.fields["seed"],
        )
        rows = np.arange(len(fold.truth))
        limit = run.known["search_rows"]
        if limit is not None and limit < len(rows):
            rng = np.random.RandomState(run.fields["seed"])
            rows = np.sort(rng.choice(rows, limit, replace=False))
        extra = {"y_clean": fold.truth[rows]} if sees_truth else {}
        return dict(search.fit(fold.X[rows], fold.candidates[rows], **extra).best_params_)
    # One split of all rows: train on the training rows, score on the test rows. The search does
    # not use the candidates of the test rows.
    features = (fold.X, fold.X_test)
    X = sparse.vstack(features, format="csr") if sparse.issparse(fold.X) else np.vstack(features)
    candidates = np.vstack([fold.candidates, fold.truth_test])
    truth = np.vstack([fold.truth, fold.truth_test])
    split = tuple(np.split(np.arange(len(truth)), [len(fold.truth)]))
    search = CandidateSearchCV(model, grid, cv=[split], refit=False, oracle=True)
    return dict(search.fit(X, candidates, y_clean=truth).best_params_)


def _checked(scores: Array, shape: tuple[int, ...]) -> Array:
    """Return the scores in the method's precision; raise unless finite and of this shape."""
    if scores.shape != shape:
        raise InputError(
            f"the scores have shape {scores.shape}, but there are {shape[0]} test rows and "
            f"{shape[1]} labels"
        )
    if scores.dtype.kind not in "biuf":
        raise InputError(f"the scores have the type {scores.dtype}; they must be real numbers")
    bad = np.argwhere(~np.isfinite(scores))
    if len(bad):
        row, label = bad[0]
        raise InputError(
            f"{len(bad)} of {scores.size} scores are not finite; the first is "
            f"{scores[row, label]}, test row {row}, label {label}"
        )
    # Rounding to single precision would tie saturated probabilities.
    return scores if scores.dtype.kind == "f" else scores.astype(float)


def _batch_dependence(score: Callable[[Any], Any], X_test: Any, scores: Array) -> str | None:
    """Return a note if half of the test rows get different scores when scored alone."""
    n = max(1, len(scores) // 2)
    half = np.asarray(score(X_test[:n]))
    close = half.shape == scores[:n].shape and np.allclose(
        half, scores[:n], rtol=_BATCH_TOLERANCE, atol=_BATCH_TOLERANCE * float(scores.std())
    )
    return None if close else "the scores of a row depend on the other test rows"


def _arrays(model: Any, scores: Array, fold: _Fold) -> dict[str, Array]:
    """Return the arrays that the metrics need: scores, labels as bits, and values of candidates."""
    cells = fold.candidates == 1
    arrays = {
        "scores": scores,
        "truth": np.packbits(fold.truth_test.astype(bool), axis=1),
        "candidate_truth": fold.truth[cells].astype(bool),
    }
    if hasattr(model, "predict"):
        predicted = np.asarray(model.predict(fold.X_test)).reshape(scores.shape)
        arrays["predicted"] = np.packbits(predicted.astype(bool), axis=1)
    if hasattr(model, "label_confidence_"):
        arrays["confidence"] = np.asarray(model.label_confidence_)[cells]
    if hasattr(model, "noise_"):
        arrays["noise"] = np.asarray(model.noise_)[cells].astype(bool)
    return arrays

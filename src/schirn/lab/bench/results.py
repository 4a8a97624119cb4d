"""Results of a benchmark: one flat JSON object per run, one line each.

A run is one data set, noise level, method, fold and seed. Its result has these fields:

=================  ===========================================================================
``format``         1, the version of this format
``key``            content key of the run, 40 hex digits
``dataset``        name of the data set; the stem of the file if it is given as a file
``r``              wrong labels per row (a share for noise "rate"); null: own candidates
``noise``          "legacy", "exact", "rate", "label", "feature", or "own" if r is null
``noise_seed``     seed of the noise; null for "own"
``method``         class name, import path as given, or the user's name for a variant
``sees_truth``     true for a method that is trained, and with "candidates" tuned, on the true
                   labels of the training rows (``OracleRidge``)
``tuning``         requested tuning: "none", "candidates" or "oracle"
``oracle``         true if parameters were chosen on the truth of the test rows; never hide this
``features``       "raw", "auto" or "kernel"
``split``          "kfold" or "stored"
``seed``           seed of the folds and of the method
``folds``          number of folds; 1: four fifths of the rows train, the others test
``fold``           0, 1, ...
``status``         "done", "failed", "timeout" or "skipped"
``reason``         one sentence if the status is not "done", or if the scores of a row depend on
                   the other test rows; otherwise null
``metrics``        object from name to number or null (undefined); empty unless done:
                   "average_precision", "ranking_loss", "coverage", "hamming_loss", "one_error"
                   on the test rows in the field's convention (shares, not percent; Hamming loss
                   of the method's own ``predict``), and "noise_auc", "noise_precision",
                   "noise_recall", "noise_auprc" (average precision of the wrong candidates, the
                   least confident first) and "calibration_error" (of ``label_confidence_``, ten
                   bins of equal width) on the training candidates; then those of
                   `schirn.metrics.evaluate_labels`, "tied_rows", average precision and
                   one-error with ties broken at random, and "hamming_loss_of_nothing", what
                   predicting no label at all scores
``params``         parameters set by the benchmark: fixed, recommended and chosen ones, also those
                   that the method chose itself
``grid``           the grid that was searched, or null
``search_rows``    largest number of training rows that were searched on; null: all of them
``inner_folds``    folds of the search on candidates; null without one
``tune_seconds``   search without the final fit; null unless done, like the next three
``fit_seconds``    final fit on the training rows of the fold
``fit_cpu_seconds``  CPU time of the same fit, which does not depend on other load
``predict_seconds``  scoring of the test rows
``peak_memory_mb``   peak resident memory of the process during the run, MiB; null if unknown
``n_train``, ``n_test``, ``n_features``, ``n_labels``   sizes; null if the data set is missing
``data_sha256``    checksum of features, truth and own candidates; null if the data set is missing
``candidates_sha256``  checksum of the candidates of the training rows of the fold, with the noise:
                   of "n l", a line feed, and the bits of each row, filled up to whole bytes
                   (`numpy.packbits`); null if the data could not be loaded, like the next
``folds_sha256``   checksum of the row numbers of all folds: of "train", the row numbers as 64-bit
                   little-endian integers, "test" and its row numbers, fold by fold
``code_sha256``    checksum of the code of the method, null for a class without a
                   source file
``scores``         path of the scores of the test rows, relative to the folder, or null
``versions``       object: schirn, python, numpy, scipy, scikit-learn
``threads``        threads of the linear algebra
``device``         PyTorch device of the fit, in results of versions before 0.4; null: NumPy
``host``           machine and process
``finished``       seconds since 1970
``traceback``      traceback of a failed run, otherwise null
=================  ===========================================================================

Apart from times, memory, ``threads``, ``device``, ``host``, ``finished`` and ``versions``
(`VOLATILE`), a result does not depend on when and where the run was executed. `read_rows` returns
the newest result of each run.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import append_lines, brief
from schirn.exceptions import DataError

FORMAT = 1
STATUSES = ("done", "failed", "timeout", "skipped")

Result = dict[str, Any]

# Fields of a result with their types in a file; a bool is not a number.
_NONE = type(None)
FIELDS: dict[str, tuple[type, ...]] = {
    "format": (int, float),
    "key": (str,),
    "dataset": (str,),
    "r": (int, float, _NONE),
    "noise": (str, _NONE),
    "noise_seed": (int, _NONE),
    "method": (str,),
    "sees_truth": (bool, _NONE),
    "tuning": (str,),
    "oracle": (bool, _NONE),
    "features": (str,),
    "split": (str,),
    "seed": (int,),
    "folds": (int,),
    "fold": (int,),
    "status": (str,),
    "reason": (str, _NONE),
    "metrics": (dict,),
    "params": (dict,),
    "grid": (dict, _NONE),
    "search_rows": (int, _NONE),
    "inner_folds": (int, _NONE),
    "tune_seconds": (int, float, _NONE),
    "fit_seconds": (int, float, _NONE),
    "fit_cpu_seconds": (int, float, _NONE),
    "predict_seconds": (int, float, _NONE),
    "peak_memory_mb": (int, float, _NONE),
    "n_train": (int, _NONE),
    "n_test": (int, _NONE),
    "n_features": (int, _NONE),
    "n_labels": (int, _NONE),
    "data_sha256": (str, _NONE),
    "candidates_sha256": (str, _NONE),
    "folds_sha256": (str, _NONE),
    "code_sha256": (str, _NONE),
    "scores": (str, _NONE),
    "versions": (dict, _NONE),
    "threads": (int, _NONE),
    "device": (str, _NONE),
    "host": (str, _NONE),
    "finished": (int, float),
    "traceback": (str, _NONE),
}

# Fields that depend on when and where a run was executed.
VOLATILE = (
    "tune_seconds",
    "fit_seconds",
    "fit_cpu_seconds",
    "predict_seconds",
    "peak_memory_mb",
    "threads",
    "device",
    "host",
    "finished",
    "versions",
)

# Results with equal values here belong to the same run; the key also covers data and parameters.
IDENTITY = (
    "dataset",
    "r",
    "noise",
    "noise_seed",
    "method",
    "tuning",
    "features",
    "split",
    "seed",
    "folds",
    "fold",
)

# Numbers of files are compared and formatted as floats.
_LARGEST = 1e300


def identity(result: Result) -> tuple[Any, ...]:
    """Return the values that identify the run of a result.

    Parameters
    ----------
    result : dict
        A result, or the fields of a run.

    Returns
    -------
    tuple
        Values of `IDENTITY`, in its order.
    """
    return tuple(result[name] for name in IDENTITY)


def seconds(result: Result) -> float:
    """Return the seconds that search and fit took.

    Parameters
    ----------
    result : dict
        A result.

    Returns
    -------
    float
    """
    return float(sum(result[name] or 0 for name in ("tune_seconds", "fit_seconds")))


def content_key(fields: dict[str, Any]) -> str:
    """Return 40 hex digits that change with anything that determines the result of a run.

    Parameters
    ----------
    fields : dict
        Everything that determines the result of a run.

    Returns
    -------
    str
    """
    text = json.dumps({"format": FORMAT, **fields}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def read_rows(folder: str | os.PathLike[str], *, history: bool = False) -> list[Result]:
    """Read the results of a benchmark.

    Parameters
    ----------
    folder : path
        Output folder of the benchmark.
    history : bool
        Include results that a newer result of the same run replaced.

    Returns
    -------
    list of dict
        In the order in which the runs first finished; `schirn.lab.bench.results` describes them.

    Examples
    --------
    >>> import tempfile
    >>> from schirn.lab.bench import read_rows
    >>> read_rows(tempfile.mkdtemp())
    []
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder}: not a folder of benchmark results.")
    results = [result for path in sorted(folder.glob("*.jsonl")) for result in _read_file(path)]
    results.sort(key=lambda result: result["finished"])
    return results if history else newest(results)


def _read_file(path: Path) -> Iterator[Result]:
    content = path.read_bytes()
    # An incomplete last line is still being written, or a crash cut it short.
    lines = content[: content.rfind(b"\n") + 1].splitlines()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield parse_result(line, f"{path}, line {number}")


def newest(results: Iterable[Result]) -> list[Result]:
    """Return one result per run: the newest, and a skipped one only if there is no other.

    A finished result is never replaced by an unfinished one with the same key, whatever their
    times.

    Parameters
    ----------
    results : list of dict
        Results of a benchmark. The order decides which of two is newer.

    Returns
    -------
    list of dict
    """
    latest: dict[tuple[Any, ...], Result] = {}
    for result in results:
        run = identity(result)
        old = latest.get(run)
        if old is not None:
            skipped = result["status"] == "skipped" and old["status"] != "skipped"
            undone = old["status"] == "done" != result["status"] and old["key"] == result["key"]
            if skipped or undone:
                continue
        latest[run] = result
    return list(latest.values())


def parse_result(line: bytes, where: str) -> Result:
    """Parse one line of a file; raise DataError that names the place unless it is a result.

    Parameters
    ----------
    line : bytes
        A line of a result file.
    where : str
        Place of the line, for the error.

    Returns
    -------
    dict
        The result, with all fields.

    Raises
    ------
    DataError
        If the line is no result.
    """
    try:
        result = json.loads(line)
        version = result["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"{where}: not a benchmark result; delete the line.") from None
    if version != FORMAT:
        raise DataError(
            f"{where}: a result of format {brief(version)}, but this version of schirn reads "
            f"format {FORMAT}; use another folder or another version."
        )
    missing = [name for name in (*IDENTITY, "key", "status", "finished") if name not in result]
    if missing:
        raise DataError(f"{where}: the result has no {missing[0]!r}; delete the line.")
    # Files of earlier versions lack some fields.
    result = dict.fromkeys(FIELDS) | {"metrics": {}, "params": {}} | result
    wrong = next((name for name in FIELDS if not _is_valid(name, result[name])), None)
    if wrong is not None:
        raise DataError(f"{where}: {wrong!r} cannot be {brief(result[wrong])}; delete the line.")
    return result


def _is_valid(name: str, value: Any) -> bool:
    """Check whether a field may have this value."""
    if name == "status":
        return value in STATUSES
    if name == "metrics" and isinstance(value, dict):
        return all(_is(item, (int, float, _NONE)) for item in value.values())
    if name == "grid" and isinstance(value, dict):
        return all(isinstance(item, list) for item in value.values())
    return _is(value, FIELDS[name])


def _is(value: Any, kinds: tuple[type, ...]) -> bool:
    """Check whether a value has one of the types; unlike in Python, a bool is not an int."""
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, int | float) and not -_LARGEST < value < _LARGEST:
        return False
    return isinstance(value, kinds)


class ResultWriter:
    """Appends results to a file of its own; each one is on disk when `append` returns."""

    def __init__(self, folder: Path, name: str):
        self.path = folder / f"rows-{name}.jsonl"

    def append(self, result: Result) -> None:
        """Append one result; numbers that JSON lacks become null."""
        append_lines(self.path, [plain(result)])


def plain(value: Any) -> Any:
    """Convert NumPy values, tuples and non-finite numbers to JSON types.

    Parameters
    ----------
    value : object
        A value of a result, also a container.

    Returns
    -------
    object
        The value as JSON types; numbers that are not finite become None.
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str | None) else str(value)

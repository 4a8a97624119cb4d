"""The rows of a benchmark: one flat JSON object per finished cell, one line each.

A cell is one data set, noise level, method, fold and seed. Its row has all of these fields:

=================  ===========================================================================
``format``         1, the version of this format
``key``            content key of the cell, 40 hex digits
``dataset``        name of the set; the stem of the file for a set given as a file
``r``              wrong labels per row (a share for noise "rate"); null: own candidates
``noise``          "legacy", "exact", "rate", "label", "feature", or "own" where r is null
``noise_seed``     start of the noise; null for "own"
``method``         class name, import path as given, or the user's name for a variant
``sees_truth``     true for a method that is trained, and with "candidates" tuned, on the true
                   labels of the training rows (``OracleRidge``)
``tuning``         what was asked: "none", "candidates" or "oracle"
``oracle``         true where parameters were chosen on the truth of the test rows; never hide this
``features``       "raw" or "auto"
``split``          "kfold" or "stored"
``seed``           seed of the folds and of the method
``folds``          number of folds
``fold``           0, 1, ...
``status``         "done", "failed", "timeout" or "skipped"
``reason``         one sentence where the status is not "done", else null
``metrics``        object of name to number or null (undefined); empty unless done:
                   "average_precision", "ranking_loss", "coverage", "hamming_loss", "one_error"
                   on the test rows in the field's convention (shares, not percent; Hamming loss
                   of the method's own ``predict``), and "noise_auc", "noise_precision",
                   "noise_recall" on the training candidates
``params``         parameters set by the benchmark: fixed, recommended and chosen ones
``grid``           the grid that was searched, or null
``tune_seconds``   search, without the final fit; null unless done, as the next three
``fit_seconds``    final fit on the training rows of the fold
``fit_cpu_seconds``  the same fit in seconds of the processor, which a busy machine does not stretch
``predict_seconds``  scores of the test rows
``peak_memory_mb``   peak resident memory of the process during the cell, MiB; null if unknown
``n_train``, ``n_test``, ``n_features``, ``n_labels``   sizes; null for a set that is absent
``data_sha256``    checksum of features, truth and own candidates; null for an absent set
``scores``         path of the scores of the test rows, relative to the folder, or null
``versions``       object: schirn, python, numpy, scipy, scikit-learn
``threads``        threads of the linear algebra
``host``           machine and process
``finished``       seconds since 1970
``traceback``      text for a failed cell, else null
=================  ===========================================================================

Everything but the seconds, the memory, ``threads``, ``host``, ``finished`` and ``versions``
(`VOLATILE`) is the same whenever and wherever a cell is run. `read_rows` gives one row per cell,
the newest.
"""

import hashlib
import json
import math
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import brief
from schirn.exceptions import DataError

FORMAT = 1
STATUSES = ("done", "failed", "timeout", "skipped")

Row = dict[str, Any]

FIELDS = (
    "format",
    "key",
    "dataset",
    "r",
    "noise",
    "noise_seed",
    "method",
    "sees_truth",
    "tuning",
    "oracle",
    "features",
    "split",
    "seed",
    "folds",
    "fold",
    "status",
    "reason",
    "metrics",
    "params",
    "grid",
    "tune_seconds",
    "fit_seconds",
    "fit_cpu_seconds",
    "predict_seconds",
    "peak_memory_mb",
    "n_train",
    "n_test",
    "n_features",
    "n_labels",
    "data_sha256",
    "scores",
    "versions",
    "threads",
    "host",
    "finished",
    "traceback",
)

# What depends on when and where a cell was run.
VOLATILE = (
    "tune_seconds",
    "fit_seconds",
    "fit_cpu_seconds",
    "predict_seconds",
    "peak_memory_mb",
    "threads",
    "host",
    "finished",
    "versions",
)

# Two rows with equal values here speak of the same cell; the key also knows data and parameters.
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


# What a row must hold to be sorted and compared.
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(IDENTITY, (str, int, float, bool, type(None))),
    "key": (str,),
    "status": (str,),
    "finished": (int, float),
}


def content_key(parts: dict[str, Any]) -> str:
    """40 hex digits that change when anything that decides the result of a cell changes."""
    text = json.dumps({"format": FORMAT, **parts}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def read_rows(folder: str | os.PathLike[str], *, every: bool = False) -> list[Row]:
    """Read the rows of a benchmark folder.

    Parameters
    ----------
    folder : path
    every : keep also rows that a newer row of the same cell replaced

    Returns
    -------
    list of dict
        Ordered by data set, noise, method, seed and fold as first met; the fields are those at the
        top of this module.

    Examples
    --------
    >>> import tempfile
    >>> from schirn.bench import read_rows
    >>> read_rows(tempfile.mkdtemp())
    []
    """
    reader = RowReader(folder)
    reader.refresh()
    rows = sorted(reader.rows, key=lambda row: row["finished"])
    return rows if every else newest(rows)


def newest(rows: Iterable[Row]) -> list[Row]:
    """One row per cell: the newest that was run, or the newest skipped one where none was."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        cell = tuple(row[name] for name in IDENTITY)
        old = found.get(cell)
        hidden = old is not None and row["status"] == "skipped" and old["status"] != "skipped"
        if not hidden:
            found[cell] = row
    return list(found.values())


class RowReader:
    """Reads the files of a folder again and again, each byte once."""

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        self.rows: list[Row] = []
        self._read: dict[Path, int] = {}
        self._lines: dict[Path, int] = {}

    def refresh(self) -> list[Row]:
        """Read what was added since the last time; return the new rows."""
        if self.folder.exists() and not self.folder.is_dir():
            raise DataError(f"{self.folder}: not a folder of benchmark rows.")
        new = [row for path in sorted(self.folder.glob("*.jsonl")) for row in self._tail(path)]
        self.rows += new
        return new

    def _tail(self, path: Path) -> Iterator[Row]:
        start = self._read.get(path, 0)
        with path.open("rb") as stream:
            stream.seek(start)
            added = stream.read()
        # What follows the last line end is a line in the making, or one that a crash cut short.
        whole = added[: added.rfind(b"\n") + 1]
        self._read[path] = start + len(whole)
        for line in whole.splitlines():
            self._lines[path] = self._lines.get(path, 0) + 1
            if line.strip():
                yield self._parse(path, line)

    def _parse(self, path: Path, line: bytes) -> Row:
        where = f"{path}, line {self._lines[path]}"
        try:
            row = json.loads(line)
            version = row["format"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DataError(f"{where}: not a benchmark row; delete the line.") from None
        if version != FORMAT:
            raise DataError(
                f"{where}: a row of format {brief(version)}, but this version of schirn reads "
                f"format {FORMAT}; use another folder or another version."
            )
        missing = [name for name in (*IDENTITY, "key", "status", "finished") if name not in row]
        if missing:
            raise DataError(f"{where}: the row has no {missing[0]!r}; delete the line.")
        wrong = next((name for name, kinds in _TYPES.items() if not _is(row[name], kinds)), None)
        if wrong is not None:
            raise DataError(f"{where}: {wrong!r} cannot be {brief(row[wrong])}; delete the line.")
        return row


def _is(value: Any, kinds: tuple[type, ...]) -> bool:
    """Whether a value is of one of the kinds; truth values are no numbers."""
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


class RowWriter:
    """Appends rows to a file of its own, each in one write that is on the disk when it returns."""

    def __init__(self, folder: Path, name: str):
        self.path = folder / f"rows-{name}.jsonl"
        self._lock = threading.Lock()

    def append(self, row: Row) -> None:
        """Append one row; numbers that JSON lacks become null."""
        line = json.dumps(plain(row), ensure_ascii=False, allow_nan=False) + "\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with self._lock:
            handle = os.open(self.path, flags, 0o666)
            size = os.fstat(handle).st_size
            try:
                _write_all(handle, line.encode())
                os.fsync(handle)
            except OSError as error:
                # Half a line would spoil the one that follows it.
                with suppress(OSError):
                    os.ftruncate(handle, size)
                raise type(error)(error.errno, error.strerror, str(self.path)) from error
            finally:
                os.close(handle)


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def plain(value: Any) -> Any:
    """Turn numpy values, tuples and non-finite numbers into what JSON has."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str | None) else str(value)

"""A results folder and the runs that belong in it."""

import os
import platform
import secrets
import socket
import time
from contextlib import suppress
from pathlib import Path

import numpy
import scipy
import sklearn

import schirn
from schirn._files import lock
from schirn.exceptions import InputError
from schirn.lab.bench.results import FIELDS, Result, ResultWriter, identity, plain, read_rows
from schirn.lab.bench.running._execute import Output
from schirn.lab.bench.running._plan import Run
from schirn.lab.bench.running._scores import write_arrays


class ResultsFolder:
    """Record of the finished runs of a folder, which one process at a time can extend.

    Attributes
    ----------
    finished : dict of str to dict
        Results of the runs that are finished, by key.
    n_stale : int
        Number of runs with results of outdated code only; they are run again.
    """

    def __init__(self, path: Path, runs: list[Run], *, retry: bool, threads: int):
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.retry = retry
        self.threads = threads
        self._lock = (path / "lock").open("w")
        # The system releases the lock of a dead process.
        if lock(self._lock) is False:
            self._lock.close()
            raise InputError(
                f"{path}: another process writes its results there; wait for it, or use another "
                "folder"
            )
        self._name = f"{socket.gethostname()[:40]}-{os.getpid()}-{secrets.token_hex(3)}"
        self._writer = ResultWriter(path, self._name)
        by_key = {run.key: run for run in runs}
        results = read_rows(path, history=True)
        self.finished = {
            result["key"]: result
            for result in results
            if result["key"] in by_key and self._is_final(result, by_key[result["key"]])
        }
        codes = {
            identity(run.fields): run.known["code_sha256"]
            for run in runs
            if run.key not in self.finished
        }
        of_other_code = {
            identity(result)
            for result in results
            if result["code_sha256"] != codes.get(identity(result), result["code_sha256"])
        }
        self.n_stale = len(of_other_code)

    def record(self, run: Run, output: Output) -> Result:
        """Write the result of a run, and return it."""
        result: Result = dict.fromkeys(FIELDS) | {"metrics": {}, "params": {}}
        result |= run.fields | run.known | output.fields
        if output.arrays:
            result["scores"] = f"scores/{run.key}.npz"
            write_arrays(self.path / result["scores"], output.arrays)
        result["versions"] = {
            "schirn": schirn.__version__,
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        }
        result["threads"] = self.threads
        result["host"] = self._name
        result["finished"] = time.time()
        result = plain({name: result[name] for name in FIELDS})
        self._writer.append(result)
        self.finished[run.key] = result
        return result

    def close(self) -> None:
        """Release the folder for other processes."""
        with suppress(OSError):
            (self.path / "lock").unlink()
        self._lock.close()

    def _is_final(self, result: Result, run: Run) -> bool:
        """Check whether an earlier result is final, or its run should be repeated."""
        if result["status"] == "done":
            return True
        if result["status"] == "skipped":
            return run.known["reason"] is not None
        return not self.retry

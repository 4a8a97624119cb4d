"""A results folder and the runs that belong in it."""

import platform
import time
from pathlib import Path

import numpy
import scipy
import sklearn

import schirn
from schirn.lab.bench.results import (
    FIELDS,
    Result,
    ResultReader,
    ResultWriter,
    identity,
    read_rows,
)
from schirn.lab.bench.running.claims import Claims
from schirn.lab.bench.running.execute import Output
from schirn.lab.bench.running.plan import Run
from schirn.lab.bench.running.scores import write_arrays


class ResultsFolder:
    """Knows which runs of a folder are finished, claims others and records their results."""

    def __init__(self, path: Path, runs: list[Run], *, retry: bool, threads: int):
        path.mkdir(parents=True, exist_ok=True)
        self.path, self.retry, self.threads = path, retry, threads
        self.finished: set[str] = set()
        self.stale: set[tuple[object, ...]] = set()
        """Runs of which the folder held only results of other code; they are run again."""
        self._runs = {run.key: run for run in runs}
        self._looked = False
        self._reader = ResultReader(path)
        self._claims = Claims(path / "claims")
        self._writer = ResultWriter(path, self._claims.token)

    def refresh(self) -> list[Result]:
        """Return the results of runs that have finished since the last call."""
        results = []
        if not self._looked:
            self.stale = self._with_other_code()
        # What the first look finds was there before; clocks of other machines may be wrong.
        is_new, self._looked = self._looked, True
        for result in self._reader.refresh():
            if result["key"] in self._runs and (is_new or self._is_final(result)):
                if result["key"] not in self.finished:
                    results.append(result)
                self.finished.add(result["key"])
        return results

    def _with_other_code(self) -> set[tuple[object, ...]]:
        results = read_rows(self.path)
        finished = {result["key"] for result in results}
        codes = {
            identity(run.fields): run.known["code_sha256"]
            for run in self._runs.values()
            if run.key not in finished
        }
        return {
            name
            for result in results
            if (name := identity(result)) in codes and result["code_sha256"] != codes[name]
        }

    def take(self, run: Run) -> bool:
        """Claim a run; return False if another process holds it."""
        return self._claims.take(run.key)

    def release(self, run: Run) -> None:
        """Release the claim on a run."""
        self._claims.release(run.key)

    def record(self, run: Run, output: Output) -> None:
        """Write the result of a run."""
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
        result["threads"], result["host"] = self.threads, self._claims.token
        result["finished"] = time.time()
        self._writer.append({name: result[name] for name in FIELDS})

    def close(self) -> None:
        """Release all claims."""
        self._claims.close()

    def _is_final(self, result: Result) -> bool:
        """Whether an earlier result settles its run, or the run is to be tried again."""
        if result["status"] == "done":
            return True
        if result["status"] == "skipped":
            return self._runs[result["key"]].known["reason"] is not None
        return not self.retry

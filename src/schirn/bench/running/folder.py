"""A results folder and the runs that belong in it."""

import platform
import time
from pathlib import Path

import numpy
import scipy
import sklearn

import schirn
from schirn.bench.results import FIELDS, Result, ResultReader, ResultWriter
from schirn.bench.running.claims import Claims
from schirn.bench.running.execute import Output
from schirn.bench.running.plan import Run
from schirn.bench.running.scores import write_arrays


class ResultsFolder:
    """Knows which runs of a folder are finished, claims others and records their results."""

    def __init__(
        self, path: Path, runs: list[Run], *, retry: bool, threads: int, keep_scores: bool
    ):
        path.mkdir(parents=True, exist_ok=True)
        self.path, self.retry, self.threads = path, retry, threads
        self.keep_scores = keep_scores
        self.finished: set[str] = set()
        self._runs = {run.key: run for run in runs}
        self._started = time.time()
        self._reader = ResultReader(path)
        self._claims = Claims(path / "claims")
        self._writer = ResultWriter(path, self._claims.token)

    def refresh(self) -> list[Result]:
        """Return the results of runs that have finished since the last call."""
        found = []
        for result in self._reader.refresh():
            if result["key"] in self._runs and self._is_final(result):
                if result["key"] not in self.finished:
                    found.append(result)
                self.finished.add(result["key"])
        return found

    def take(self, run: Run) -> bool:
        """Claim a run; return False if another process holds it."""
        return self._claims.take(run.key)

    def release(self, run: Run) -> None:
        """Release the claim on a run."""
        self._claims.release(run.key)

    def record(self, run: Run, output: Output) -> None:
        """Write the result of a run, unless another process has taken the run over."""
        if not self._claims.holds(run.key):
            return
        result: Result = dict.fromkeys(FIELDS) | {"metrics": {}, "params": {}}
        result |= run.fields | run.known | output.fields
        if output.arrays and self.keep_scores:
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

    def sweep(self) -> None:
        """Remove what dead processes left behind."""
        self._claims.sweep(self.finished)

    def close(self) -> None:
        """Release all claims."""
        self._claims.close()

    def _is_final(self, result: Result) -> bool:
        """Whether a result settles its run, or the run is to be tried again."""
        if result["finished"] >= self._started or result["status"] == "done":
            return True
        if result["status"] == "skipped":
            return self._runs[result["key"]].known["reason"] is not None
        return not self.retry

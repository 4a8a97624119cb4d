"""The public function `schirn.lab.bench.run`."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from schirn._progress import shown, stage
from schirn.exceptions import InputError
from schirn.lab.bench.results import Result, newest, read_rows
from schirn.lab.bench.running._engine import Batch, Engine, default_threads
from schirn.lab.bench.running._methods import check_importable, importable_here
from schirn.lab.bench.running._plan import Run, plan_runs

DEFAULT_METHODS = ("Sieve", "Schirn", "CandidateRidge", "OracleRidge")


def run(
    datasets: Sequence[Any],
    methods: Sequence[Any] | Mapping[str, Any] = DEFAULT_METHODS,
    *,
    output: str | os.PathLike[str],
    jobs: int = 1,
    threads: int | None = None,
    time_limit: float | None = None,
    retry: bool = False,
    stop_after: float | None = None,
    report: Callable[[Result], None] | None = None,
    verbose: bool = False,
    **settings: Any,
) -> list[Result]:
    """Compare methods on data sets; runs already finished in `output` are not repeated.

    Parameters
    ----------
    datasets : list of str, tuple or Dataset
        Names or files, optionally followed by a colon and the number of wrong labels to add per
        row ("birds:3"), pairs (name, r), or `Dataset` objects.
    methods : list of str or type, or dict
        Names of `schirn.methods()` or of baselines ("LogisticBaseline"), import paths
        ("mypkg:MyMethod", also from the current folder) or classes. The keys of a dict name
        variants.
    output : path
        Folder for results and scores of the test rows, from which metrics can be added later
        (`rescore`); created if it does not exist.
    jobs : int
        Number of processes; 0 executes everything in this one, without a time limit.
    threads : int, optional
        Threads per process. By default the processors are divided among the processes, up to
        OMP_NUM_THREADS.
    time_limit : float, optional
        Seconds after which a run (search, fit and scores) is stopped.
    retry : bool
        Repeat runs that failed or timed out.
    stop_after : float, optional
        Seconds after which no run is started any more; runs that are not finished have no result.
    report : callable, optional
        Called with the result of each finished run.
    verbose : bool
        Show the last result, the share of finished runs and the time left on stderr.
    **settings
        Noise, folds, tuning and features: the fields of `Settings`.

    Returns
    -------
    list of dict
        The results of the requested runs, see `schirn.lab.bench.results` for the fields.

    Examples
    --------
    >>> import tempfile
    >>> from schirn.lab import bench
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=100, n_labels=5, r=1, random_state=0)
    >>> results = bench.run([data], ["CandidateRidge"], output=tempfile.mkdtemp(), folds=2, jobs=0)
    >>> [(result["fold"], result["status"]) for result in results]
    [(0, 'done'), (1, 'done')]
    """
    execution: dict[str, Any] = {
        "time_limit": time_limit,
        "retry": retry,
        "stop_after": stop_after,
        "report": report,
    }
    with importable_here(), shown("bench.run", verbose):
        stage("reading the data")
        runs = plan_runs(datasets, methods, **settings)
        return execute_runs(runs, output=output, jobs=jobs, threads=threads, **execution)


def execute_runs(
    runs: Sequence[Run],
    *,
    output: str | os.PathLike[str],
    jobs: int = 1,
    threads: int | None = None,
    time_limit: float | None = None,
    **execution: Any,
) -> list[Result]:
    """Execute planned runs and return their results; parameters as in `run`."""
    _check(jobs, threads, time_limit)
    with importable_here():
        check_importable([run.method for run in runs], jobs > 0)
        batch = Batch(Path(output), list(runs))
        threads = threads or default_threads(jobs)
        engine = Engine([batch], jobs=jobs, threads=threads, time_limit=time_limit, **execution)
        engine.check_kinds()
        stage("running the first fits")
        engine.run()
    return results_of(*batch)


def results_of(folder: Path, runs: Sequence[Run]) -> list[Result]:
    """Read the results of some runs, in the order of the runs."""
    order = {run.key: k for k, run in enumerate(runs)}
    results = newest(result for result in read_rows(folder, history=True) if result["key"] in order)
    return sorted(results, key=lambda result: order[result["key"]])


def _check(jobs: int, threads: int | None, time_limit: float | None) -> None:
    if jobs < 0 or (threads is not None and threads < 1):
        raise InputError(f"jobs must be at least 0 and threads at least 1, not {jobs}, {threads}")
    if time_limit is None:
        return
    if not time_limit > 0:
        raise InputError(
            f"time_limit must be more than 0 seconds, not {time_limit!r}", parameter="time_limit"
        )
    if not jobs:
        raise InputError("a time limit needs a separate process; use jobs=1 or more")

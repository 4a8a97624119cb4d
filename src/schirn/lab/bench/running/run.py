"""The public function `schirn.lab.bench.run`."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from schirn._progress import shown, stage
from schirn.exceptions import InputError
from schirn.lab.bench.results import Result, newest, read_rows
from schirn.lab.bench.running.data import Level
from schirn.lab.bench.running.engine import Batch, Engine, Report, default_threads
from schirn.lab.bench.running.memory import can_limit_memory
from schirn.lab.bench.running.methods import Grid, Params, check_importable, importable_here
from schirn.lab.bench.running.plan import Run, plan_runs
from schirn.lab.bench.running.workers import DaskWorker, ProcessWorker
from schirn.scale.cluster import connected

DEFAULT_METHODS = ("Sieve", "Schirn", "CandidateRidge", "OracleRidge")


def run(
    datasets: Sequence[Any],
    methods: Sequence[Any] | Mapping[str, Any] = DEFAULT_METHODS,
    *,
    output: str | os.PathLike[str],
    r: Level | Sequence[Level] = None,
    folds: int = 5,
    seeds: Sequence[int] = (0,),
    tuning: str = "candidates",
    inner_folds: int = 3,
    search_rows: int | None = None,
    features: str = "raw",
    noise: str = "legacy",
    noise_seed: int | None = None,
    stored_folds: bool = False,
    params: Mapping[str, Params] | None = None,
    grids: Mapping[str, Grid | None] | None = None,
    reader_options: Mapping[str, Any] | None = None,
    jobs: int = 1,
    threads: int | None = None,
    device: str | None = None,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    retry: bool = False,
    keep_scores: bool = True,
    scheduler: str | None = None,
    stop_after: float | None = None,
    report: Callable[[Report], None] | None = None,
    verbose: bool = False,
) -> list[Result]:
    """Compare methods on data sets; runs already finished in `output` are not repeated.

    Parameters
    ----------
    datasets : list of str, tuple or Dataset
        Names or files, optionally followed by a colon and the number of wrong labels to add per
        row ("birds:3"), pairs (name, r), or `Dataset` objects. `r` applies to items without a
        number.
    methods : list of str or type, or dict
        Names of `schirn.methods()` or of baselines ("LogisticBaseline"), import paths
        ("mypkg:MyMethod", also from the current folder) or classes. The keys of a dict name
        variants.
    output : path
        Folder for results and scores; created if it does not exist.
    r : int, float, None or list of them
        Noise levels of data sets given without one. None uses the candidates that come with the
        data set.
    folds : int
        Number of folds.
    seeds : list of int
        Seeds of the folds and of the methods; each one adds a repetition.
    tuning : {"none", "candidates", "oracle"}
        "none" uses the recommended parameters, "candidates" chooses them on the candidates of
        held-out training rows, and "oracle" on the true labels of the test rows, as much of the
        literature does; every result of the latter is marked as such.
    inner_folds : int
        Number of folds of the search on candidates.
    search_rows : int, optional
        Search on at most this many training rows of each fold, drawn at random. The final fit uses
        all rows. Methods that choose their parameters in `fit` always use all rows.
    features : {"raw", "auto", "kernel"}
        The features that all methods get: as in the file ("raw"), scaled according to their kind
        ("auto"), or those of `schirn.features.KernelFeatures` ("kernel"), learned from the training
        rows. With "auto" and "kernel", `fit_intercept` is turned on if the method has it. Sieve
        does not scale the features again and uses a linear kernel, unless `params` say otherwise.
    noise : str
        Kind of noise, see `schirn.datasets.add_noise`.
    noise_seed : int, optional
        Seed of the noise. Defaults to r for "legacy" noise, which yields the published candidate
        sets, and to the seed of the folds otherwise.
    stored_folds : bool
        Use the folds that come with a data set, if it has any.
    params : dict of str to dict, optional
        Fixed parameters by method: ``{"Schirn": {"lam": 10.0}}``.
    grids : dict of str to dict or None, optional
        Grids to search instead of the default ones, by method; None disables the search.
    reader_options : dict, optional
        Options for data sets given as files, see `schirn.datasets.load`.
    jobs : int
        Number of processes; 0 executes everything in this one, without a time limit.
    threads : int, optional
        Threads per process. By default the processors are divided among the processes, up to
        OMP_NUM_THREADS.
    device : str, optional
        PyTorch device such as "cuda", for searches and fits of methods that can use one
        (`Schirn`, `Sieve`), in single precision. Other methods use NumPy.
    time_limit : float, optional
        Seconds after which a run (search, fit and scores) is stopped.
    memory_limit : float, optional
        Private memory in MiB that the process of a run may use, about 200 of which Python and the
        libraries need. A run that needs more fails. Linux enforces it; other systems cannot.
    retry : bool
        Repeat runs that failed or timed out.
    keep_scores : bool
        Store the scores of the test rows, so that metrics can be added later (`rescore`).
    scheduler : str, optional
        Address of a Dask scheduler whose workers execute the runs: one per thread of the cluster
        (or `jobs`, if more than 1), with one thread each unless `threads` is given. Files and
        classes must be available there as well.
    stop_after : float, optional
        Seconds after which no run is started any more; runs that are not finished have no result.
    report : callable, optional
        Called with a `Report` after each finished run.
    verbose : bool
        Show the last result, the share of finished runs and the time left on stderr.

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
    >>> results = bench.run(
    ...     [data], ["CandidateRidge"], output=tempfile.mkdtemp(), folds=2, tuning="none", jobs=0
    ... )
    >>> [(result["fold"], result["status"]) for result in results]
    [(0, 'done'), (1, 'done')]
    """
    _check(jobs, threads, time_limit, memory_limit, scheduler)
    with importable_here(), shown("bench.run", verbose):
        stage("reading the data")
        runs = plan_runs(
            datasets,
            methods,
            r=r,
            folds=folds,
            seeds=seeds,
            tuning=tuning,
            inner_folds=inner_folds,
            search_rows=search_rows,
            features=features,
            noise=noise,
            noise_seed=noise_seed,
            stored_folds=stored_folds,
            params=params,
            grids=grids,
            reader_options=reader_options,
        )
        return execute_runs(
            runs,
            output=output,
            jobs=jobs,
            threads=threads,
            device=device,
            time_limit=time_limit,
            memory_limit=memory_limit,
            retry=retry,
            keep_scores=keep_scores,
            scheduler=scheduler,
            stop_after=stop_after,
            report=report,
        )


def execute_runs(
    runs: Sequence[Run],
    *,
    output: str | os.PathLike[str],
    jobs: int = 1,
    threads: int | None = None,
    device: str | None = None,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    retry: bool = False,
    keep_scores: bool = True,
    scheduler: str | None = None,
    stop_after: float | None = None,
    report: Callable[[Report], None] | None = None,
) -> list[Result]:
    """Execute planned runs and return their results; parameters as in `run`."""
    _check(jobs, threads, time_limit, memory_limit, scheduler)
    folder = Path(output)
    with importable_here(), ExitStack() as stack:
        runs = [replace(run, device=device) for run in runs]
        check_importable([run.method for run in runs], jobs > 0 or scheduler is not None)
        make_worker: Callable[[int], Any] = partial(ProcessWorker, memory_limit=memory_limit)
        if scheduler is not None:
            client = stack.enter_context(connected(scheduler, "a benchmark on a Dask cluster"))
            jobs = jobs if jobs > 1 else sum(client.nthreads().values())
            threads, make_worker = threads or 1, partial(DaskWorker, client)
        engine = Engine(
            [Batch(folder, runs)],
            jobs=jobs,
            make_worker=make_worker,
            threads=threads or default_threads(jobs),
            time_limit=time_limit,
            retry=retry,
            keep_scores=keep_scores,
            stop_after=stop_after,
            report=report,
        )
        stage("running the first fits")
        engine.run()
    return results_of(folder, runs)


def results_of(folder: Path, runs: Sequence[Run]) -> list[Result]:
    """Read the results of some runs, in the order of the runs."""
    order = {run.key: k for k, run in enumerate(runs)}
    results = newest(result for result in read_rows(folder, every=True) if result["key"] in order)
    return sorted(results, key=lambda result: order[result["key"]])


def _check(
    jobs: int,
    threads: int | None,
    time_limit: float | None,
    memory_limit: float | None,
    scheduler: str | None,
) -> None:
    if jobs < 0 or (threads is not None and threads < 1):
        raise InputError(f"jobs must be at least 0 and threads at least 1, not {jobs}, {threads}")
    limits = {"time_limit": (time_limit, "seconds"), "memory_limit": (memory_limit, "MiB")}
    for name, (value, unit) in limits.items():
        if value is None:
            continue
        words = f"a {name.replace('_', ' ')} needs a separate process"
        if not value > 0:
            raise InputError(f"{name} must be more than 0 {unit}, not {value!r}", parameter=name)
        if not jobs:
            raise InputError(f"{words}; use jobs=1 or more")
        if scheduler is not None:
            raise InputError(f"{words}; leave out {name} or scheduler")
    if memory_limit is not None and not can_limit_memory():
        raise InputError("only Linux enforces a memory limit; leave out memory_limit")

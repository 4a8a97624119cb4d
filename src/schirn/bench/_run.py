"""The function that users call."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from schirn.bench._dask import DaskWorker, connected
from schirn.bench._data import Level, parse_datasets
from schirn.bench._engine import Batch, Engine, default_threads
from schirn.bench._methods import check_found_elsewhere, importable_here, make_methods
from schirn.bench._plan import Cell, Settings, make_plan
from schirn.bench._progress import Report
from schirn.bench._worker import Worker
from schirn.bench.grids import Grid, Params
from schirn.bench.rows import Row, newest, read_rows
from schirn.exceptions import InputError

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
    features: str = "raw",
    noise: str = "legacy",
    noise_seed: int | None = None,
    stored_folds: bool = False,
    params: Mapping[str, Params] | None = None,
    grids: Mapping[str, Grid | None] | None = None,
    reader_options: Mapping[str, Any] | None = None,
    jobs: int = 1,
    threads: int | None = None,
    time_limit: float | None = None,
    retry: bool = False,
    keep_scores: bool = True,
    scheduler: str | None = None,
    report: Callable[[Report], None] | None = None,
) -> list[Row]:
    """Compare methods on data sets; what is finished in `output` already is not run again.

    Parameters
    ----------
    datasets : names or files, with the number of wrong labels to add after a colon ("birds:3"),
        pairs (name, r), or `Dataset` objects. Without a number `r` holds, and where that is None
        the set's own candidates.
    methods : names of `schirn.methods()`, import paths ("mypkg:MyMethod", also from the current
        folder), or classes; a mapping gives them names of your own
    output : folder for the rows and scores; made if it is not there
    r : noise level, or several, for sets that do not say theirs
    folds : number of folds
    seeds : seeds of the folds and of the methods; each is one more repetition
    tuning : "none" uses recommended parameters; "candidates" chooses on the candidates of inner
        held-out rows; "oracle" chooses on the true labels of the test rows, as much of the
        literature does, and says so in every row
    inner_folds : folds of the search on candidates
    features : "raw", or "auto": `schirn.linalg.learn_scale` before every method that does not scale
        by itself, with `fit_intercept` on where a method has it
    noise, noise_seed : kind of `add_noise` and its seed; by default r for "legacy" noise, which
        gives the published candidate sets, and the seed of the folds for the others
    stored_folds : use the folds that come with a set, where there are some
    params : parameters to fix, by method: {"Schirn": {"lam": 10.0}}
    grids : grids to search instead of the default ones, by method; None: nothing to tune
    reader_options : options for data sets given as files, as of `schirn.datasets.load`
    jobs : number of processes; 0 runs everything in this one, without a time limit
    threads : threads of each process; None shares out the processors, or takes OMP_NUM_THREADS
    time_limit : seconds after which a cell (search, fit and scores) is stopped
    retry : run failed and timed-out cells again
    keep_scores : keep the scores of the test rows, so that measures can be added later
    scheduler : address of a Dask scheduler; cells then run on its workers, as many at a time as
        they have threads (or `jobs`, if more than 1), with one thread each unless `threads` says
        otherwise. Files and classes must be found there too.
    report : called with a `Report` after each finished cell

    Returns
    -------
    list of dict
        The rows of the asked cells, as described in `schirn.bench.rows`.

    Examples
    --------
    >>> import tempfile
    >>> from schirn import bench
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(n_samples=100, n_labels=5, r=1, random_state=0)
    >>> rows = bench.run(
    ...     [data], ["CandidateRidge"], output=tempfile.mkdtemp(), folds=2, tuning="none", jobs=0
    ... )
    >>> [(row["fold"], row["status"]) for row in rows]
    [(0, 'done'), (1, 'done')]
    """
    _check(jobs, threads, time_limit)
    if scheduler is not None and time_limit is not None:
        raise InputError(
            "a time limit needs processes of its own; leave out time_limit or scheduler"
        )
    folder = Path(output)
    with importable_here(), ExitStack() as stack:
        cells = plan_cells(
            datasets,
            methods,
            r=r,
            folds=folds,
            seeds=seeds,
            tuning=tuning,
            inner_folds=inner_folds,
            features=features,
            noise=noise,
            noise_seed=noise_seed,
            stored_folds=stored_folds,
            params=params,
            grids=grids,
            reader_options=reader_options,
        )
        check_found_elsewhere([cell.method for cell in cells], jobs > 0 or scheduler is not None)
        make_worker: Callable[[int], Any] = Worker
        if scheduler is not None:
            client = stack.enter_context(connected(scheduler))
            jobs = jobs if jobs > 1 else sum(client.nthreads().values())
            threads, make_worker = threads or 1, partial(DaskWorker, client)
        engine = Engine(
            [Batch(folder, cells)],
            jobs=jobs,
            make_worker=make_worker,
            threads=threads or default_threads(jobs),
            time_limit=time_limit,
            retry=retry,
            keep_scores=keep_scores,
            report=report,
        )
        engine.run()
    return rows_of(folder, cells)


def plan_cells(
    datasets: Sequence[Any],
    methods: Sequence[Any] | Mapping[str, Any],
    *,
    r: Level | Sequence[Level] = None,
    seeds: Sequence[int] = (0,),
    params: Mapping[str, Params] | None = None,
    grids: Mapping[str, Grid | None] | None = None,
    reader_options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> list[Cell]:
    """The cells that `run` would run; `settings` are those of `Settings`."""
    levels = list(r) if isinstance(r, Sequence) else [r]
    sets = parse_datasets(_listed(datasets), levels, reader_options or {})
    chosen = make_methods(_listed(methods), params or {}, grids or {})
    return make_plan(sets, chosen, Settings(seeds=tuple(seeds), **settings))


def rows_of(folder: Path, cells: Sequence[Cell]) -> list[Row]:
    """The rows of some cells, in their order."""
    order = {cell.key: k for k, cell in enumerate(cells)}
    asked = newest(row for row in read_rows(folder, every=True) if row["key"] in order)
    return sorted(asked, key=lambda row: order[row["key"]])


def _listed(items: Any) -> Any:
    """One name is a list of one."""
    return [items] if isinstance(items, str) else items


def _check(jobs: int, threads: int | None, time_limit: float | None) -> None:
    if jobs < 0 or (threads is not None and threads < 1):
        raise InputError(f"jobs must be at least 0 and threads at least 1, not {jobs}, {threads}")
    if time_limit is not None and not time_limit > 0:
        raise InputError(
            f"time_limit must be more than 0 seconds, not {time_limit!r}", parameter="time_limit"
        )
    if time_limit is not None and not jobs:
        raise InputError("a time limit needs processes of its own; use jobs=1 or more")

"""Continue a suite from its packed results, pack what is new, and write the pages."""

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schirn._progress import stage
from schirn.estimators import methods as all_methods
from schirn.lab.bench import Renewal, Run, renew_results
from schirn.lab.bench.results import Result, identity
from schirn.lab.bench.suite import execute_suite, plan_suite, read_suite
from schirn.lab.leaderboard._packing import (
    SUFFIX,
    complete_results,
    pack_scores,
    read_scores,
    scores_file,
    write_results,
)
from schirn.lab.leaderboard._pages import read_results
from schirn.lab.leaderboard._standing import Progress, Standing
from schirn.lab.leaderboard._submission import is_stale

# Seconds after which results are packed, so that little is lost if the machine disappears.
_BETWEEN_PACKS = 1800.0


@dataclass(frozen=True)
class Update:
    """Result of an update of a leaderboard.

    Attributes
    ----------
    files : list of Path
        The packed results and scores.
    progress : Progress
        How much of the suite the packed results cover.
    n_new : int
        Results that were not packed before.
    n_stale : int
        Packed results that were dropped, because the code of their method has changed.
    n_renewed : int
        Packed results that got the checksum of the present code, because repeated runs agree.
    differing : dict of str to str
        Methods whose repeated runs do not agree, with the first difference.
    """

    files: list[Path]
    progress: Progress
    n_new: int
    n_stale: int
    n_renewed: int = 0
    differing: Mapping[str, str] = field(default_factory=dict)


def update_leaderboard(
    folder: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str],
    suite: str = "pml-2",
    methods: Sequence[Any] | Mapping[str, Any] | None = None,
    pages: Iterable[str | os.PathLike[str]] = (),
    stop_after: float | None = None,
    renew: int = 0,
    **execution: Any,
) -> Update:
    """Continue a suite from its packed results, pack the new ones, and write the pages.

    Parameters
    ----------
    folder : path
        Folder of the packed results, ``SUITE.jsonl.gz`` and ``SUITE.scores.npz``, which are written
        again; they may come from another machine.
    output : path
        Folder for results that are not packed yet.
    suite : str
        Name of the suite.
    methods : list or dict, optional
        Methods to run, as in `schirn.lab.bench.run`. Defaults to all methods of this library.
    pages : list of path
        Pages whose marked blocks are written from the packed results.
    stop_after : float, optional
        Seconds after which no new run is started; 0 only packs and writes.
    renew : int
        Number of runs to repeat for each method whose code has changed. If they agree with the
        packed results, these count as results of the present code instead of being computed again.
    execution : dict
        Parameters of `schirn.lab.bench.run` from `jobs` on.

    Returns
    -------
    Update
    """
    definition = read_suite(suite)
    path = Path(folder) / f"{suite}{SUFFIX}"
    stage("drawing the data")
    runs = plan_suite(definition, list(all_methods()) if methods is None else methods)
    packed = read_results([path]) if path.is_file() else []
    renewal = renew_results(packed, runs, count=renew) if renew else Renewal(packed)
    if renewal.keys:
        packed = renewal.results
        scores = read_scores(scores_file(path))
        write_results(path, packed, {renewal.keys.get(k, k): run for k, run in scores.items()})
    current = _without_stale(packed, runs)
    results = current
    deadline = math.inf if stop_after is None else time.monotonic() + stop_after
    is_over = False
    while not is_over:
        seconds = max(0.0, min(_BETWEEN_PACKS, deadline - time.monotonic()))
        finished = execute_suite(
            definition, runs, output=output, earlier=results, stop_after=seconds, **execution
        )
        results = _merged(results, finished)
        files = _write(path, results, output)
        for page in pages:
            stored = read_results([path]) if results else []
            Standing(stored, definition).write_blocks(Path(page))
        is_over = time.monotonic() >= deadline or len(finished) == len(runs)
    return Update(
        files,
        Standing(results, definition).progress,
        n_new=len(results) - len(current),
        n_stale=len(packed) - len(current),
        n_renewed=len(renewal.keys),
        differing=renewal.differing,
    )


def _without_stale(packed: Iterable[Result], runs: Iterable[Run]) -> list[Result]:
    """Return the packed results that have current code and belong to the suite."""
    # The keys of the runs of a data set depend on its data.
    known = [run for run in runs if run.known["data_sha256"] is not None]
    keys = {run.key for run in known}
    planned = {(run.fields["dataset"], run.fields["method"]) for run in known}
    return [
        result
        for result in packed
        if not is_stale(result)
        and (result["key"] in keys or (result["dataset"], result["method"]) not in planned)
    ]


def _merged(old: Iterable[Result], new: Iterable[Result]) -> list[Result]:
    """Return results by run; new results replace old ones, and skipped runs are left out."""
    merged = {identity(result): result for result in old}
    for result in new:
        if result["status"] != "skipped":
            merged[identity(result)] = result
    return list(merged.values())


def _write(path: Path, results: Sequence[Result], output: str | os.PathLike[str]) -> list[Path]:
    """Pack results: old ones with their packed scores, new ones with the scores in the folder."""
    scores = scores_file(path)
    old = read_scores(scores) if scores.is_file() else {}
    complete = sorted(complete_results(results), key=_place)
    if not complete:
        # A file without results would be empty or outdated.
        path.unlink(missing_ok=True)
        scores.unlink(missing_ok=True)
        return []
    fresh = pack_scores(output, [result for result in complete if result["key"] not in old])
    scores_by_key = old | fresh
    packed = {r["key"]: scores_by_key[r["key"]] for r in complete if r["key"] in scores_by_key}
    return write_results(path, complete, packed)


def _place(result: Result) -> tuple[str, ...]:
    """Return a sort key that is independent of when a run finished, so that files differ little."""
    names = ("dataset", "features", "noise", "method", "seed")
    return tuple(str(result[name]) for name in names)

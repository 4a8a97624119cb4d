"""Runs that a check repeats: finished runs, timeouts and failures."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from schirn._files import brief
from schirn.lab.bench import NOT_RUN, ProcessWorker, Run, execute, inner_scores
from schirn.lab.bench.results import Result, plain, seconds
from schirn.lab.bench.suite import read_suite, suite_names
from schirn.lab.leaderboard._evidence import Draw, Entry, differ, draw_again, in_words, load_again

LONGEST = 60.0
"""Seconds of the longest run that is repeated."""
# Of 163 short runs of 20 methods of the suite pml-2, repeated on another processor (52) or with
# other kernels of OpenBLAS (111), 153 differed by at most 1e-5 in every metric, seven by at most
# 2e-4, and two by 0.004 and 0.007, both with 39 test rows. One chose other parameters, 1.5e-4 below
# the best held-out average precision; with the stated ones it differed by less than 1e-6.
RERUN_TOLERANCE = 2e-3
"""Largest difference of a metric of a repeated run that confirms it; at least half a test row."""
RERUN_LIMIT = 1e-2
"""Largest difference that does not refuse it; at least two test rows."""
MARGIN = 1e-3
"""Largest distance of the stated parameters from the best ones of a repeated search."""
# Share of the time limit that a repeated timeout must reach: machines differ.
_SHARE = 1 / 3
# Words of the reason of a failure that must come again.
_N_WORDS = 4
# Fields that a run that was not started shares with the one that timed out.
_ABANDONED = ("method", "dataset", "r", "noise", "tuning", "features", "split", "folds")

Pair = tuple[Entry, Run]


@dataclass
class Repetition:
    """What repeated runs say.

    Attributes
    ----------
    n_run, n_agreeing : int
        Finished runs that were repeated, and those that agree.
    faults : list of str
        Reasons to reject the files, each with its place.
    doubts : list of str
        Why results are not verified.
    notes : list of str
        What does not change the verdict.
    doubted : set of str
        Places of results that a repeated run does not confirm.
    confirmed : set of str
        Places of timeouts and failures that a repeated run confirms.
    """

    n_run: int = 0
    n_agreeing: int = 0
    faults: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    doubted: set[str] = field(default_factory=set)
    confirmed: set[str] = field(default_factory=set)


class _Outcome(NamedTuple):
    """What a repeated run says about its result: agrees, others, doubt, fault or absent."""

    kind: str
    text: str = ""


def repeat_runs(
    finished: Sequence[Pair],
    unfinished: Sequence[Pair],
    unconfirmed: Mapping[str, set[str]],
    count: int,
    random_state: Any,
) -> Repetition:
    """Repeat some finished runs, and one unfinished run of each kind.

    Parameters
    ----------
    finished : list of (Entry, Run)
        Finished runs without any doubt.
    unfinished : list of (Entry, Run)
        Timeouts and failures.
    unconfirmed : dict of str to set of str
        Metrics by place that nothing has confirmed; those that repeated runs give are taken out.
    count : int
        Number of finished runs to repeat; 0 repeats nothing.
    random_state : int, RandomState or None
        Randomness of the draw.

    Returns
    -------
    Repetition
    """
    random_state = check_random_state(random_state)
    findings = Repetition()
    if count:
        _repeat_finished(findings, finished, unconfirmed, count, random_state)
    _repeat_unfinished(findings, unfinished, random_state if count else None)
    return findings


def _repeat_finished(
    findings: Repetition,
    pairs: Sequence[Pair],
    unconfirmed: Mapping[str, set[str]],
    count: int,
    random_state: np.random.RandomState,
) -> None:
    """Repeat short runs on the CPU, in random order, of methods that can run here."""
    short = [
        (entry, run)
        for entry, run in pairs
        if not entry.result["device"] and seconds(entry.result) <= LONGEST
    ]
    absent: dict[str, str] = {}
    n_others = 0
    for k in random_state.permutation(len(short)):
        entry, run = short[k]
        result = entry.result
        if findings.n_run == count or result["method"] in absent:
            continue
        outcome = _repeat(result, run)
        if outcome.kind == "absent":
            absent[result["method"]] = outcome.text
            continue
        findings.n_run += 1
        if outcome.kind == "fault":
            findings.faults.append(f"{entry.where}: {outcome.text}")
        elif outcome.kind == "doubt":
            findings.doubts.append(f"{entry.where}: not verified: {outcome.text}")
            findings.doubted.add(entry.where)
        else:
            n_others += outcome.kind == "others"
            findings.n_agreeing += 1
            unconfirmed[entry.where].clear()
    if n_others:
        findings.notes.append(
            f"{n_others} of {findings.n_run} repeated runs chose other parameters here, nearly as "
            "good on held-out candidates; with the stated ones their metrics agree"
        )
    for method, reason in absent.items():
        n = sum(entry.result["method"] == method for entry, _ in short)
        findings.notes.append(f"{n} results of {method} cannot be repeated here: {reason}")


def _repeat(result: Result, run: Run) -> _Outcome:
    """Run a result again; if other parameters are chosen, once more with the stated ones."""
    draw = draw_again(result, load_again(result))
    fields = _execute(result, run, draw)
    kind = "agrees"
    if fields["status"] == "done" and plain(fields["params"]) != result["params"]:
        why = _why_others(result, run, plain(fields["params"]), draw)
        if why is not None:
            return why
        kind = "others"
        fields = _execute(result, _with_stated(run, result["params"]), draw)
    if fields["status"] == "skipped":
        return _Outcome("absent", fields["reason"])
    if fields["status"] != "done":
        return _Outcome("doubt", f"run again, it is {fields['status']}: {fields['reason']}")
    return _compare(result, fields["metrics"]) or _Outcome(kind)


def _execute(result: Result, run: Run, draw: Draw) -> Result:
    with threadpool_limits(result["threads"] or 1):
        return execute(run, draw.data).fields


def _with_stated(run: Run, params: Mapping[str, Any]) -> Run:
    """Return a run with these parameters, which searches nothing."""
    method = run.method._replace(params=dict(params))
    return replace(run, method=method, known={**run.known, "grid": None})


def _why_others(result: Result, run: Run, params: Mapping[str, Any], draw: Draw) -> _Outcome | None:
    """Return what is wrong with stated parameters that are not chosen here; None for near ties."""
    stated = result["params"]
    text = f"params are {brief(stated)}, but the same run has {params} here"
    grid = plain(run.known["grid"] or run.method.grid or {})
    is_searched = stated.keys() == params.keys() and all(
        value in grid[name] if name in grid else value == params[name]
        for name, value in stated.items()
    )
    if not is_searched:
        return _Outcome("fault", text)
    points = inner_scores(run, draw.data)
    scores = [
        score for point, score in points if all(stated[k] == v for k, v in plain(point).items())
    ]
    if not scores:
        return _Outcome("doubt", f"{text}, and its search shows no scores")
    distance = max(point.score for point in points if not math.isnan(point.score)) - max(scores)
    if not distance <= MARGIN:
        return _Outcome("doubt", f"{text}, which are {distance:.2g} better on held-out candidates")
    return None


def _compare(result: Result, values: Mapping[str, float]) -> _Outcome | None:
    """Return what a repeated run says against the metrics of a result; None if they agree."""
    text = "the same run gives"
    row = 1 / (result["n_test"] or math.inf)
    limits = {"fault": max(RERUN_LIMIT, 2 * row), "doubt": max(RERUN_TOLERANCE, row / 2)}
    for kind, tolerance in limits.items():
        for name in sorted(set(result["metrics"]) & set(values)):
            if differ(result["metrics"][name], values[name], tolerance):
                return _Outcome(kind, in_words(result, name, values[name], text, tolerance))
    return None


def _repeat_unfinished(
    findings: Repetition, pairs: Sequence[Pair], random_state: np.random.RandomState | None
) -> None:
    """Repeat a timeout of each method, and a failure of each method and kind."""
    groups: dict[tuple[str, str, str], list[Pair]] = {}
    for entry, run in pairs:
        result = entry.result
        words = "" if result["status"] == "timeout" else _first_words(result["reason"])
        groups.setdefault((result["status"], result["method"], words), []).append((entry, run))
    for (status, method, _), group in groups.items():
        real, orphans = _started(group)
        if orphans:
            findings.doubts.append(
                f"{len(orphans)} results of {method} not verified: not run, but without a timeout "
                "of another seed"
            )
        if not real:
            continue
        places = {e.where for e, _ in group} - {e.where for e in orphans}
        what = f"{len(places)} {status}s of {method}".replace("faileds", "failures")
        doubt = "nothing was repeated"
        if random_state is not None:
            doubt = _repeat_one(*real[random_state.randint(len(real))])
        if doubt:
            findings.doubts.append(f"{what} not verified: {doubt}")
        else:
            findings.confirmed |= places
            findings.notes.append(f"{what} confirmed by one repeated run")


def _started(group: Iterable[Pair]) -> tuple[list[Pair], list[Entry]]:
    """Return the runs that were started, and those that were not without any reason to."""
    pairs = list(group)
    real = [(entry, run) for entry, run in pairs if entry.result["reason"] != NOT_RUN]
    settings = {_abandoned(entry.result) for entry, _ in real}
    orphans = [entry for entry, _ in pairs if _abandoned(entry.result) not in settings]
    return real, orphans


def _abandoned(result: Result) -> tuple[Any, ...]:
    return tuple(result[name] for name in _ABANDONED)


def _repeat_one(entry: Entry, run: Run) -> str:
    """Repeat an unfinished run; return why it is not confirmed, or an empty string."""
    result = entry.result
    limits = [
        suite["time_limit"]
        for suite in map(read_suite, suite_names())
        if result["dataset"] in suite["datasets"]
    ]
    is_late = result["status"] == "timeout"
    if is_late and not limits:
        return "no suite defines their time limit"
    limit = _SHARE * limits[0] if is_late else max(limits, default=LONGEST)
    data = load_again(result)
    worker = ProcessWorker(result["threads"] or 1)
    try:
        fields = worker.run(replace(run, source=run.source._replace(dataset=data)), limit).fields
    finally:
        worker.stop()
    if fields["status"] != result["status"]:
        after = f" within {limit:g} s" if is_late else ""
        return f"run again, {entry.where} is {fields['status']}{after}"
    if not is_late and _first_words(fields["reason"]) != _first_words(result["reason"]):
        return f"run again, {entry.where} fails for another reason: {fields['reason']}"
    return ""


def _first_words(reason: str | None) -> str:
    return " ".join((reason or "").split()[:_N_WORDS])

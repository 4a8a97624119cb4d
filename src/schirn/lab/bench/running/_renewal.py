"""Keep results whose code was edited, but still computes the same.

The checksum of a method changes with every edit of the code behind it, even if only a variable gets
another name. Instead of computing all results again, a few runs of the method are repeated. If they
agree with their results, all results of the method get the checksum of the new code.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from schirn._progress import track
from schirn.lab.bench.results import Result, identity, plain, seconds
from schirn.lab.bench.running._execute import execute, load_data
from schirn.lab.bench.running._plan import Run

# Seconds of the longest run that is repeated.
_LONGEST = 60.0
# Largest difference of a metric that another processor explains; see `lab.leaderboard`.
_TOLERANCE = 1e-5

Group = tuple[str, str]


@dataclass
class Renewal:
    """Results with the checksums of the present code.

    Attributes
    ----------
    results : list of dict
        All results; those of other code that could not be renewed are unchanged.
    keys : dict of str to str
        New keys of the renewed results by their old keys.
    n_repeated : int
        Runs that were repeated.
    differing : dict of str to str
        Methods whose results could not be renewed, with the reason.
    """

    results: list[Result] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    n_repeated: int = 0
    differing: dict[str, str] = field(default_factory=dict)


def renew_results(
    results: Sequence[Result], runs: Iterable[Run], *, count: int, random_state: Any = 0
) -> Renewal:
    """Give results the checksum of the present code, if repeated runs agree with them.

    Parameters
    ----------
    results : list of dict
        Results, some of them of other code.
    runs : list of Run
        Runs planned with the present code.
    count : int
        Number of runs to repeat for each method and each checksum, of different data sets if there
        are enough. Only finished runs of at most a minute are repeated.
    random_state : int, RandomState or None
        Randomness of the draw.

    Returns
    -------
    Renewal
    """
    random_state = check_random_state(random_state)
    planned = {identity(run.fields): run for run in runs}
    groups: dict[Group, list[tuple[Result, Run]]] = {}
    for result in results:
        run = planned.get(identity(result))
        if run is not None and _is_of_other_code(result, run):
            groups.setdefault((result["method"], result["code_sha256"]), []).append((result, run))
    renewal = Renewal()
    for (method, _), pairs in track(sorted(groups.items()), "repeating runs of method"):
        sample = _sample(pairs, count, random_state)
        renewal.n_repeated += len(sample)
        reason = "" if sample else "no run of at most a minute can be repeated"
        for result, run in sample:
            reason = reason or _difference(result, run)
        if reason:
            renewal.differing[method] = reason
        else:
            renewal.keys |= {result["key"]: run.key for result, run in pairs}
    codes = {run.key: run.known["code_sha256"] for run in planned.values()}
    renewal.results = [_renewed(result, renewal.keys, codes) for result in results]
    return renewal


def _is_of_other_code(result: Result, run: Run) -> bool:
    """Check whether a result differs from a planned run in its code, and in nothing else."""
    code = result["code_sha256"]
    return code not in (None, run.known["code_sha256"]) and run.key_with(code) == result["key"]


def _sample(
    pairs: Sequence[tuple[Result, Run]], count: int, random_state: np.random.RandomState
) -> list[tuple[Result, Run]]:
    """Draw finished runs, first of data sets that are not in the sample yet."""
    short = [
        (result, run)
        for result, run in pairs
        if result["status"] == "done" and not result["device"] and seconds(result) <= _LONGEST
    ]
    order = [short[k] for k in random_state.permutation(len(short))]
    n_before: dict[str, int] = {}
    ranks = []
    for result, _ in order:
        rank = n_before.get(result["dataset"], 0)
        n_before[result["dataset"]] = rank + 1
        ranks.append(rank)
    return [order[k] for k in np.argsort(ranks, kind="stable")[:count]]


def _difference(result: Result, run: Run) -> str:
    """Repeat a run; return how it differs from its result, or an empty string."""
    names = ("dataset", "r", "noise", "features", "seed", "fold")
    where = ", ".join(f"{name} {result[name]}" for name in names)
    with threadpool_limits(result["threads"] or 1):
        fields = execute(run, load_data(run)).fields
    if fields["status"] != "done":
        return f"{where}: {fields['status']}: {fields['reason']}"
    if plain(fields["params"]) != result["params"]:
        return f"{where}: params are {result['params']}, now {plain(fields['params'])}"
    for name in sorted(set(result["metrics"]) & set(fields["metrics"])):
        before, now = (
            np.nan if values[name] is None else values[name]
            for values in (result["metrics"], fields["metrics"])
        )
        if not np.isclose(before, now, rtol=0, atol=_TOLERANCE, equal_nan=True):
            return f"{where}: {name} is {before}, now {now:.6g}"
    return ""


def _renewed(result: Result, keys: Mapping[str, str], codes: Mapping[str, str]) -> Result:
    """Return a result with its new key and the checksum of the present code, if it is renewed."""
    key = keys.get(result["key"])
    if key is None:
        return result
    scores = result["scores"] and result["scores"].replace(result["key"], key)
    return {**result, "key": key, "code_sha256": codes[key], "scores": scores}

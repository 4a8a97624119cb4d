"""Frozen suites: data sets, noise, folds, seeds and search budget that nobody chooses.

A suite is one file in `suites`. Before anything runs, the folds and candidates are drawn and
compared with its checksums, so that results with the name of a suite are about the same task.
"""

import hashlib
import math
import os
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

import numpy as np
from scipy import stats

from schirn._input import suggest
from schirn.datasets import Dataset, load, make_partial_multilabel
from schirn.exceptions import DataError, InputError, MissingExtraError
from schirn.lab.bench._comparison import FLOOR, Comparison, Contender, compare
from schirn.lab.bench.results import Result
from schirn.lab.bench.running._data import make_splits, prepare, to_dense
from schirn.lab.bench.running._plan import Run, plan_runs
from schirn.lab.bench.running._run import execute_runs
from schirn.lab.bench.stats import bayesian_signed_rank, friedman

Suite = dict[str, Any]
_PROTOCOL = ("folds", "tuning", "inner_folds", "search_points", "search_rows")
# Fields by which a data set differs from the one that is read by its name.
_CHANGES = {"generated", "options", "rows"}
_DIGITS = 16
# Seeds from which an interval of their mean is told.
_ENOUGH_SEEDS = 3


def suite_names() -> list[str]:
    """Names of the suites."""
    folder = files("schirn.lab.bench").joinpath("suites")
    return sorted(path.name.removesuffix(".toml") for path in folder.iterdir())


def read_suite(name: str) -> Suite:
    """Read the definition of a suite.

    Examples
    --------
    >>> from schirn.lab.bench.suite import read_suite
    >>> list(read_suite("pml-1")["tracks"])
    ['raw', 'scaled', 'kernel']
    """
    if name not in suite_names():
        raise InputError(f"there is no suite {name!r}; {suggest(name, suite_names())}")
    path = files("schirn.lab.bench").joinpath("suites", f"{name}.toml")
    return tomllib.loads(path.read_text("utf-8"))


def run_suite(
    name: str,
    methods: Sequence[Any] | Mapping[str, Any],
    *,
    output: str | os.PathLike[str],
    parts: Sequence[str] | None = None,
    tracks: Sequence[str] | None = None,
    **execution: Any,
) -> list[Result]:
    """Run methods on a suite; runs already finished in `output` are not repeated.

    Parameters
    ----------
    name : str
        Name of a suite, such as "pml-1".
    methods : list or dict
        Methods as in `schirn.lab.bench.run`.
    output : path
        Folder for results and scores.
    parts, tracks : list of str, optional
        Parts and tracks to run. Defaults to all.
    execution : dict
        Parameters of `schirn.lab.bench.run` from `jobs` on; the suite sets the time limit.

    Returns
    -------
    list of dict
        The results of the requested runs.
    """
    suite = read_suite(name)
    # Seed by seed and track by track, so that an interrupted suite covers all data sets.
    order = list(suite["tracks"].values())
    runs = sorted(
        plan_suite(suite, methods, parts, tracks),
        key=lambda run: (run.fields["seed"], order.index(run.fields["features"])),
    )
    time_limit = suite["time_limit"] if execution.get("jobs", 1) else None
    return execute_runs(runs, output=output, time_limit=time_limit, **execution)


def plan_suite(
    suite: Suite,
    methods: Sequence[Any] | Mapping[str, Any],
    parts: Sequence[str] | None = None,
    tracks: Sequence[str] | None = None,
) -> Iterator[Run]:
    """List the runs of a suite; raise InputError if folds or candidates are not those frozen."""
    chosen = {"part": (parts, suite["seeds"]), "track": (tracks, suite["tracks"])}
    for kind, (names, known) in chosen.items():
        for name in names or ():
            if name not in known:
                raise InputError(f"the suite has no {kind} {name!r}; {suggest(name, known)}")
    for name, entry in suite["datasets"].items():
        if parts and entry["part"] not in parts:
            continue
        source = _source(name, entry)
        _check(suite, name, entry, source)
        is_read_by_name = isinstance(source, str) or not entry.keys() & _CHANGES
        for track in tracks or suite["tracks"]:
            for _, kind, level in _noises(suite, entry):
                yield from plan_runs(
                    [(name if is_read_by_name else source, level)],
                    methods,
                    seeds=range(suite["seeds"][entry["part"]]),
                    features=suite["tracks"][track],
                    noise=kind,
                    **{key: suite[key] for key in _PROTOCOL},
                )


def checksums(suite: Suite, name: str) -> dict[str, str]:
    """Checksums of the folds of a data set, and of its candidates by noise, over all seeds.

    Examples
    --------
    >>> from schirn.lab.bench.suite import checksums, read_suite
    >>> suite = read_suite("pml-1")
    >>> checksums(suite, "generated") == suite["datasets"]["generated"]["checksums"]
    True
    """
    entry = suite["datasets"][name]
    source = _source(name, entry)
    if isinstance(source, str):
        raise DataError(source)
    seeds = range(suite["seeds"][entry["part"]])
    splits = {seed: make_splits(source, suite["folds"], seed, stored=False) for seed in seeds}
    sums: dict[str, str] = {}
    for noise, kind, level in _noises(suite, entry):
        draws = [prepare(source, level, kind, seed, splits[seed]) for seed in seeds]
        sums["folds"] = _digest(data.folds_sha256 for data in draws)
        sums[noise] = _digest(value for data in draws for value in data.candidates_sha256)
    return sums


def summary(results: Sequence[Result], metric: str = "average_precision") -> list[list[str]]:
    """Table of a suite: a head, and one line per method, best mean rank first.

    Every track has the mean over its settings in percent with the half-width of a 95% interval over
    seeds; then come mean ranks over data sets, and the probability of being better than
    `CandidateRidge` by the Bayesian signed rank test over data sets. Repetitions that are not
    finished for all methods are left out.
    """
    results = _whole_repetitions(results)
    tracks = list(dict.fromkeys(result["features"] for result in results))
    comparisons = {t: compare((r for r in results if r["features"] == t), metric) for t in tracks}
    ranks = {t: friedman((r for r in results if r["features"] == t), metric).ranks for t in tracks}
    lines = []
    for method in dict.fromkeys(str(result["method"]) for result in results):
        contenders = {t: c.find(method) for t, c in comparisons.items()}
        places = [ranks[t].get(c.label, math.nan) for t, c in contenders.items()]
        cells = [_mean(comparisons[t], c) for t, c in contenders.items()]
        rank, better = float(np.mean(places)), _better(comparisons, method)
        label = next(iter(contenders.values())).label
        lines.append((rank, [label, *cells, _text(rank, ".1f"), _text(better, ".2f")]))
    ordered = [line for _, line in sorted(lines, key=lambda item: (math.isnan(item[0]), item[0]))]
    titles = ["scaled" if track == "auto" else track for track in tracks]
    return [["method", *titles, "rank", "P(better)"], *ordered]


def _whole_repetitions(results: Sequence[Result]) -> list[Result]:
    """The results of those seeds of each data set that have as many as any other seed."""
    counts = Counter((result["dataset"], result["seed"]) for result in results)
    largest: dict[str, int] = {}
    for (dataset, _), count in counts.items():
        largest[dataset] = max(count, largest.get(dataset, 0))
    return [r for r in results if counts[r["dataset"], r["seed"]] == largest[r["dataset"]]]


def _mean(comparison: Comparison, contender: Contender) -> str:
    """Mean over settings, and the half-width of its interval over seeds, in percent.

    The seeds of a data set share splits over its settings; data sets are independent.
    """
    seeds: dict[str, dict[Any, list[float]]] = {}
    means = [100 * comparison.mean(setting, contender) for setting in comparison.settings]
    if np.isnan(means).any():
        missing = sum(map(math.isnan, means))
        return f"- ({missing} of {len(means)} missing)" if missing < len(means) else "-"
    for setting in comparison.settings:
        for (seed, _), value in comparison.values[setting, contender].items():
            seeds.setdefault(setting.dataset, {}).setdefault(seed, []).append(100 * value)
    shares = Counter(setting.dataset for setting in comparison.settings)
    n = min(len(values) for values in seeds.values())
    if n < _ENOUGH_SEEDS:
        return f"{np.mean(means):.1f}"
    errors = [
        shares[dataset] / len(means) * stats.sem([np.mean(v) for v in values.values()])
        for dataset, values in seeds.items()
    ]
    return f"{np.mean(means):.1f} ± {stats.t.ppf(0.975, n - 1) * math.hypot(*errors):.1f}"


def _better(comparisons: Mapping[str, Comparison], method: str) -> float:
    """Probability that a method is better than the floor; nan without common settings.

    There is one difference per data set: noises and tracks of one data set are not independent.
    """
    differences: dict[str, list[float]] = {}
    for comparison in comparisons.values():
        methods = {c.method for c in comparison.contenders}
        if method == FLOOR or FLOOR not in methods:
            continue
        a, b = comparison.find(method), comparison.find(FLOOR)
        for setting in comparison.settings:
            ahead = comparison.mean(setting, a) - comparison.mean(setting, b)
            if not math.isnan(ahead):
                differences.setdefault(setting.dataset, []).append(ahead)
    advantages = [float(np.mean(values)) for values in differences.values()]
    return bayesian_signed_rank(advantages)[2] if advantages else math.nan


def _text(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def _source(name: str, entry: Mapping[str, Any]) -> Dataset | str:
    """A data set of a suite, or why it cannot be read."""
    if "generated" in entry:
        return replace(make_partial_multilabel(**entry["generated"]), name=name)
    try:
        data = load(name, **entry.get("options", {}))
    except (DataError, MissingExtraError, OSError) as error:
        return " ".join(str(error).split())
    return _some_rows(data, entry["rows"]) if "rows" in entry else data


def _some_rows(data: Dataset, count: int) -> Dataset:
    """Draw a fixed sample of rows; with real candidates, only rows that have one."""
    rows = np.arange(data.n_samples)
    if data.candidates is not None:
        rows = rows[to_dense(data.candidates).any(axis=1)]
    return data.subset(np.sort(np.random.RandomState(0).permutation(rows)[:count]))


def suite_datasets(name: str) -> list[Dataset]:
    """Data sets of this name that suites generate, or read with options of their own."""
    entries = (read_suite(suite)["datasets"].get(name, {}) for suite in suite_names())
    sources = [_source(name, e) for e in entries if e.keys() & _CHANGES]
    return [source for source in sources if not isinstance(source, str)]


def _noises(suite: Suite, entry: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Name, kind and level of every noise of a data set."""
    if entry.get("own"):
        yield "own", "exact", None
        return
    for noise, kind in suite["noise"].items():
        yield noise, kind, entry["rate"] if kind == "rate" else entry["r"]


def _check(suite: Suite, name: str, entry: Mapping[str, Any], source: Dataset | str) -> None:
    """Raise InputError unless folds and candidates are those frozen; an absent set passes."""
    if isinstance(source, str):
        return
    for what, value in checksums(suite, name).items():
        if value != entry["checksums"][what]:
            arrays = "folds" if what == "folds" else f"candidates with {what} noise"
            raise InputError(
                f"the {arrays} of {name} differ from those of the suite ({value} instead of "
                f"{entry['checksums'][what]}), so its results could not be compared; use the data "
                f"file that the registry names"
            )


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]

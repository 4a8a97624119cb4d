"""Frozen suites: fixed data sets, noise, folds, seeds and search budget.

A suite is one file in `suites`. Before anything runs, folds and candidates are drawn and compared
with its checksums, so all results under the name of a suite belong to the same task.
"""

import hashlib
import math
import os
import tomllib
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

import numpy as np
from scipy import sparse, stats

from schirn._input import suggest
from schirn.datasets import Dataset, load, make_partial_multilabel
from schirn.exceptions import DataError, InputError, MissingExtraError
from schirn.lab.bench._comparison import FLOOR, Comparison, Contender, compare
from schirn.lab.bench.results import Result
from schirn.lab.bench.running._data import folds_checksum, make_splits, prepare
from schirn.lab.bench.running._plan import Run, plan_runs
from schirn.lab.bench.running._run import execute_runs
from schirn.lab.bench.stats import bayesian_signed_rank, friedman

Suite = dict[str, Any]
_PROTOCOL = ("folds", "tuning", "inner_folds", "search_points", "search_rows")
DESIGN_NOTE = "* used when Sieve was designed, so that its figures there prove nothing."
"""Meaning of the mark of data sets."""
_DIGITS = 16
# Minimum number of seeds for an interval of their mean.
_ENOUGH_SEEDS = 3


def suite_names() -> list[str]:
    """Return the names of the suites.

    Returns
    -------
    list of str
        Sorted names.
    """
    folder = files("schirn.lab.bench").joinpath("suites")
    return sorted(path.name.removesuffix(".toml") for path in folder.iterdir())


def read_suite(name: str) -> Suite:
    """Read the definition of a suite.

    Parameters
    ----------
    name : str
        Name of a suite, such as "pml-2".

    Returns
    -------
    dict
        The content of its file.

    Raises
    ------
    InputError
        If there is no such suite.

    Examples
    --------
    >>> from schirn.lab.bench.suite import read_suite
    >>> list(read_suite("pml-2")["tracks"])
    ['raw', 'kernel']
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
    earlier: Iterable[Result] = (),
    **execution: Any,
) -> list[Result]:
    """Run methods on a suite; runs already finished in `output` are not repeated.

    Runs are ordered by seed, so that an interrupted suite covers all data sets. A method that
    reaches the time limit of the suite on a setting is not run on it with other seeds.

    Parameters
    ----------
    name : str
        Name of a suite, such as "pml-2".
    methods : list or dict
        Methods as in `schirn.lab.bench.run`.
    output : path
        Folder for results and scores.
    parts, tracks : list of str, optional
        Parts and tracks to run. Defaults to all.
    earlier : list of dict
        Results from elsewhere, whose runs are not repeated either if their code, data and
        parameters are current.
    execution : dict
        Parameters of `schirn.lab.bench.run` from `jobs` on; the suite sets the time limit.

    Returns
    -------
    list of dict
        The results of the requested runs, including the results of `earlier`.
    """
    suite = read_suite(name)
    runs = plan_suite(suite, methods, parts, tracks)
    return execute_suite(suite, runs, output=output, earlier=earlier, **execution)


def execute_suite(
    suite: Suite,
    runs: Sequence[Run],
    *,
    output: str | os.PathLike[str],
    earlier: Iterable[Result] = (),
    **execution: Any,
) -> list[Result]:
    """Execute planned runs of a suite, except those that have a result.

    Parameters
    ----------
    suite : dict
        Definition of the suite, see `read_suite`.
    runs : list of Run
        Runs as `plan_suite` lists them.
    output, earlier, execution
        As in `run_suite`.

    Returns
    -------
    list of dict
        The results of the runs, in their order.
    """
    order = {run.key: k for k, run in enumerate(runs)}
    known = [result for result in earlier if _settles(result, order)]
    settled = {result["key"] for result in known}
    results = execute_runs(
        [run for run in runs if run.key not in settled],
        output=output,
        time_limit=suite["time_limit"] if execution.get("jobs", 1) else None,
        timeouts=[result for result in known if result["status"] == "timeout"],
        **execution,
    )
    return sorted([*known, *results], key=lambda result: order[result["key"]])


def _settles(result: Result, keys: Container[str]) -> bool:
    """Check whether an earlier result is final and one of the requested runs."""
    return result["key"] in keys and result["status"] in ("done", "timeout")


def plan_suite(
    suite: Suite,
    methods: Sequence[Any] | Mapping[str, Any],
    parts: Sequence[str] | None = None,
    tracks: Sequence[str] | None = None,
) -> list[Run]:
    """List the runs of a suite; raise InputError if folds or candidates differ from the suite's.

    Parameters
    ----------
    suite : dict
        Definition of the suite, see `read_suite`.
    methods : list or dict
        Methods as in `schirn.lab.bench.run`.
    parts, tracks : list of str, optional
        Parts and tracks to plan. Defaults to all.

    Returns
    -------
    list of Run
        Ordered by seed, then as in the file of the suite.
    """
    for kind, names, known in (("part", parts, suite["seeds"]), ("track", tracks, suite["tracks"])):
        for name in names or ():
            if name not in known:
                raise InputError(f"the suite has no {kind} {name!r}; {suggest(name, known)}")
    runs: list[Run] = []
    for name, entry in suite["datasets"].items():
        if parts and entry["part"] not in parts:
            continue
        source = _source(suite, name)
        _check(suite, name, source)
        for track in tracks or suite["tracks"]:
            for _, kind, level in _noises(suite, entry):
                runs += plan_runs(
                    [(name if isinstance(source, str) else source, level)],
                    methods,
                    seeds=range(suite["seeds"][entry["part"]]),
                    features=suite["tracks"][track],
                    noise=kind,
                    **{key: suite[key] for key in _PROTOCOL},
                )
    return sorted(runs, key=lambda run: run.fields["seed"])


def count_runs(
    suite: Suite, parts: Sequence[str] | None = None, tracks: Sequence[str] | None = None
) -> int:
    """Return the number of runs of one method on a suite.

    Parameters
    ----------
    suite : dict
        Definition of the suite, see `read_suite`.
    parts, tracks : list of str, optional
        Parts and tracks to count. Defaults to all.

    Returns
    -------
    int

    Examples
    --------
    >>> from schirn.lab.bench.suite import count_runs, read_suite
    >>> suite = read_suite("pml-2")
    >>> suite["datasets"] = {"flags": suite["datasets"]["flags"]}  # 4 noises, 2 tracks, 10 seeds
    >>> count_runs(suite)
    80
    """
    counts = [
        suite["seeds"][entry["part"]] * len(list(_noises(suite, entry)))
        for entry in suite["datasets"].values()
        if not parts or entry["part"] in parts
    ]
    return sum(counts) * len(tracks or suite["tracks"])


def design_sets(suite: Suite) -> set[str]:
    """Return the names of the data sets that were used to design Sieve.

    Parameters
    ----------
    suite : dict
        Definition of the suite, see `read_suite`.

    Returns
    -------
    set of str

    Examples
    --------
    >>> from schirn.lab.bench.suite import design_sets, read_suite
    >>> sorted(design_sets(read_suite("pml-2")))[:3]
    ['birds', 'chess', 'digits_attributes']
    """
    return {name for name, entry in suite["datasets"].items() if entry.get("design")}


def checksums(suite: Suite, name: str) -> dict[str, str]:
    """Return checksums of folds and training candidates of a data set, by noise, with seed 0.

    Parameters
    ----------
    suite : dict
        Definition of the suite, see `read_suite`.
    name : str
        Name of a data set.

    Returns
    -------
    dict of str to str

    Raises
    ------
    DataError
        If the data set is not available.

    Examples
    --------
    >>> from schirn.lab.bench.suite import checksums, read_suite
    >>> suite = read_suite("pml-2")
    >>> checksums(suite, "generated") == suite["datasets"]["generated"]["checksums"]
    True
    """
    source = _source(suite, name)
    if isinstance(source, str):
        raise DataError(source)
    splits = make_splits(source, suite["folds"], 0, stored=False)
    sums = {"folds": _digest([folds_checksum(splits)])}
    for noise, kind, level in _noises(suite, suite["datasets"][name]):
        sums[noise] = _digest(prepare(source, level, kind, 0, splits).candidates_sha256)
    return sums


def summary(results: Sequence[Result], metric: str = "average_precision") -> list[list[str]]:
    """Return the table of a suite: a head, and one line per method, best mean rank first.

    Every track has the mean over its settings in percent with the half-width of a 95% interval over
    seeds; then come mean ranks over data sets, and the probability of being better than
    `CandidateRidge` by the Bayesian signed rank test over data sets. Repetitions that are not
    finished for all methods are left out.

    Parameters
    ----------
    results : list of dict
        Results of a suite.
    metric : str
        Metric of the table.

    Returns
    -------
    list of list of str
        Cells of the table, its head first.
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
        rank = float(np.mean(places))
        better = _better(comparisons, method)
        label = next(iter(contenders.values())).label
        lines.append((rank, [label, *cells, _text(rank, ".1f"), _text(better, ".2f")]))
    ordered = [line for _, line in sorted(lines, key=lambda item: (math.isnan(item[0]), item[0]))]
    titles = ["scaled" if track == "auto" else track for track in tracks]
    return [["method", *titles, "rank", "P(better)"], *ordered]


def _whole_repetitions(results: Sequence[Result]) -> list[Result]:
    """Return the results of the seeds of each data set with the largest number of results."""
    counts = Counter((result["dataset"], result["seed"]) for result in results)
    largest: dict[str, int] = {}
    for (dataset, _), count in counts.items():
        largest[dataset] = max(count, largest.get(dataset, 0))
    return [r for r in results if counts[r["dataset"], r["seed"]] == largest[r["dataset"]]]


def _mean(comparison: Comparison, contender: Contender) -> str:
    """Return the mean over settings, and the half-width of its interval over seeds, in percent.

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
    """Return the probability that a method is better than the floor; NaN if not comparable.

    There is one difference per data set: noises and tracks of one data set are not independent.
    """
    differences: dict[str, list[float]] = {}
    for comparison in comparisons.values():
        methods = {c.method for c in comparison.contenders}
        if method == FLOOR or FLOOR not in methods:
            continue
        a = comparison.find(method)
        b = comparison.find(FLOOR)
        for setting in comparison.settings:
            ahead = comparison.mean(setting, a) - comparison.mean(setting, b)
            if not math.isnan(ahead):
                differences.setdefault(setting.dataset, []).append(ahead)
    advantages = [float(np.mean(values)) for values in differences.values()]
    return bayesian_signed_rank(advantages)[2] if advantages else math.nan


def _text(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def _source(suite: Suite, name: str) -> Dataset | str:
    """Return a data set of a suite, or the reason why it cannot be read."""
    entry = suite["datasets"][name]
    if "generated" in entry:
        return replace(make_partial_multilabel(**entry["generated"]), name=name)
    try:
        data = load(name, **entry.get("options", {}))
    except (DataError, MissingExtraError, OSError) as error:
        return " ".join(str(error).split())
    return _sample(data, suite["rows"][entry["part"]], suite["labels"])


def _sample(data: Dataset, n_rows: int, n_labels: int) -> Dataset:
    """Draw a fixed sample of rows, with the most frequent labels of the data set."""
    truth = sparse.csr_array(data.y_true)
    candidates = None if data.candidates is None else sparse.csr_array(data.candidates)
    names = data.label_names
    rows = np.arange(data.n_samples)
    if data.n_labels > n_labels:
        counts = np.asarray(truth.sum(axis=0), dtype=np.int64)
        frequent = np.sort(np.argsort(-counts, kind="stable")[:n_labels])
        truth = truth[:, frequent]
        candidates = None if candidates is None else candidates[:, frequent]
        names = None if names is None else [names[label] for label in frequent]
        rows = rows[np.diff(truth.indptr) > 0]
    if candidates is not None:
        rows = rows[np.diff(candidates.indptr)[rows] > 0]
    rows = np.sort(np.random.RandomState(0).permutation(rows)[:n_rows])
    return Dataset(
        data.name,
        data.X[rows],
        truth[rows].toarray(),
        None if candidates is None else candidates[rows].toarray(),
        label_names=names,
    )


def suite_datasets(name: str) -> list[Dataset]:
    """Return the data sets of this name as drawn by the suites.

    Parameters
    ----------
    name : str
        Name of a data set.

    Returns
    -------
    list of Dataset
        One per suite that has the data set and can read it.
    """
    suites = map(read_suite, suite_names())
    sources = [_source(suite, name) for suite in suites if name in suite["datasets"]]
    return [source for source in sources if not isinstance(source, str)]


def _noises(suite: Suite, entry: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield name, kind and level of each noise of a data set."""
    if entry.get("own"):
        yield "own", "exact", None
        return
    for noise, kind in suite["noise"].items():
        yield noise, kind, entry["r"]


def _check(suite: Suite, name: str, source: Dataset | str) -> None:
    """Raise InputError unless folds and candidates match the suite; missing data sets pass."""
    if isinstance(source, str):
        return
    frozen = suite["datasets"][name]["checksums"]
    for what, value in checksums(suite, name).items():
        if value != frozen[what]:
            arrays = "folds" if what == "folds" else f"candidates with {what} noise"
            raise InputError(
                f"the {arrays} of {name} differ from those of the suite ({value} instead of "
                f"{frozen[what]}), so its results could not be compared; use the data file that "
                "the registry names"
            )


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]

"""What the results of a suite say, as Markdown: what was computed, ranks, tests and single sets.

Nothing is said about methods before every run of the suite has a result. Statements rest on the
data sets that were not used when Sieve was designed.
"""

import math
import re
import statistics
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from schirn._files import atomic_write
from schirn.estimators import methods
from schirn.exceptions import InputError
from schirn.lab.bench import (
    ALL_METRICS,
    FLOOR,
    Comparison,
    Contender,
    Setting,
    compare,
    contender_notes,
    value_of,
)
from schirn.lab.bench.results import Result
from schirn.lab.bench.stats import (
    Friedman,
    bayesian_signed_rank,
    friedman,
    leading,
    verdicts,
)
from schirn.lab.bench.suite import Suite, count_runs, design_sets
from schirn.metrics import METRICS

METRIC = "average_precision"
OURS = "Sieve"
_LABEL = "average precision"
# Statuses of a run that has been tried to its end.
_TRIED = ("done", "timeout", "failed")
# Sizes of a difference that matter, in percentage points.
_POINT = 0.01
_BLOCK = re.compile(
    r"^(?P<begin>(?P<indent> *)<!-- leaderboard:(?P<name>\S+) -->\n)"
    r".*?"
    r"(?P<end>^ *<!-- /leaderboard -->)",
    re.S | re.M,
)


@dataclass(frozen=True)
class Progress:
    """How much of a suite has been computed.

    Attributes
    ----------
    n_runs, n_planned : int
        Runs with a result, and runs of the whole suite with all methods.
    statuses : Counter of str
        Results by status.
    n_sets : dict of str to int
        Data sets by what exists of them: "complete", "partial" or "none".
    complete : tuple of str
        Data sets of which every run has a result, in the order of the suite.
    """

    n_runs: int
    n_planned: int
    statuses: Counter[str]
    n_sets: Mapping[str, int]
    complete: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every run of the suite has a result."""
        return self.n_runs == self.n_planned


def measure_progress(results: Iterable[Result], suite: Suite) -> Progress:
    """Compare the results of the methods of this library with the runs of a suite.

    Parameters
    ----------
    results : list of dict
        Results of the suite.
    suite : dict
        Definition of the suite.

    Returns
    -------
    Progress
    """
    tried = of_suite(results, suite)
    counts = Counter(result["dataset"] for result in tried)
    complete = []
    n_sets: Counter[str] = Counter()
    for name, entry in suite["datasets"].items():
        n_planned = len(methods()) * count_runs({**suite, "datasets": {name: entry}})
        if counts[name] == n_planned:
            complete.append(name)
        kind = "complete" if counts[name] == n_planned else "partial" if counts[name] else "none"
        n_sets[kind] += 1
    return Progress(
        len(tried),
        len(methods()) * count_runs(suite),
        Counter(result["status"] for result in tried),
        n_sets,
        tuple(complete),
    )


def of_suite(results: Iterable[Result], suite: Suite) -> list[Result]:
    """Results of the methods of this library on the data sets of a suite that were tried.

    Parameters
    ----------
    results : list of dict
        Results of the suite.
    suite : dict
        Definition of the suite.

    Returns
    -------
    list of dict
    """
    return [
        result
        for result in results
        if result["dataset"] in suite["datasets"]
        and result["method"] in methods()
        and result["status"] in _TRIED
    ]


def write_blocks(page: Path, results: Sequence[Result], suite: Suite) -> None:
    """Rewrite the marked blocks of a page from results.

    A block begins with ``<!-- leaderboard:NAME -->`` and ends with ``<!-- /leaderboard -->``; NAME
    is one of `BLOCKS`.

    Parameters
    ----------
    page : Path
        Markdown file.
    results : list of dict
        Results of the suite.
    suite : dict
        Definition of the suite.

    Raises
    ------
    InputError
        If the page has no block, or one with an unknown name.
    """
    old = page.read_text("utf-8")
    new = fill_blocks(old, results, suite, str(page))
    if new != old:
        with atomic_write(page) as stream:
            stream.write(new.encode())


def fill_blocks(text: str, results: Sequence[Result], suite: Suite, where: str) -> str:
    """Text of a page with its marked blocks written from results; see `write_blocks`.

    Parameters
    ----------
    text : str
        Content of the page.
    results : list of dict
        Results of the suite.
    suite : dict
        Definition of the suite.
    where : str
        Name of the page, for errors.

    Returns
    -------
    str
        The content with its blocks written.
    """

    def fill(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in BLOCKS:
            raise InputError(f"{where}: no block {name!r}; one of {', '.join(BLOCKS)}")
        content = textwrap.indent(BLOCKS[name](results, suite), match["indent"])
        return f"{match['begin']}{content}\n{match['end']}"

    filled, count = _BLOCK.subn(fill, text)
    if not count:
        raise InputError(f"{where}: the page has no block <!-- leaderboard:NAME -->")
    return filled


def headline(results: Sequence[Result], suite: Suite) -> str:
    """What the suite says about Sieve, or that it says nothing yet.

    Parameters
    ----------
    results : list of dict
        Results of the suite.
    suite : dict
        Definition of the suite.

    Returns
    -------
    str
        Markdown.
    """
    progress = measure_progress(results, suite)
    if not progress.is_complete:
        return (
            f"{progress.n_runs:,} of its {progress.n_planned:,} runs have been computed so far, "
            "too few to rank methods."
        )
    held_out = [r for r in of_suite(results, suite) if r["dataset"] not in design_sets(suite)]
    sentences = []
    for track in suite["tracks"].values():
        table = _Table([result for result in held_out if result["features"] == track])
        ranks = table.friedman
        worse, equal, better = table.probabilities(OURS)
        win, tie, loss = table.counts(OURS)
        sentences.append(
            f"With {track} features, on {len(ranks.blocks.names)} data sets that were not used in "
            f"its design, {OURS} has a mean rank of {ranks.ranks[OURS]:.1f} among "
            f"{len(ranks.ranks)} methods (critical difference {ranks.critical_difference:.1f}). "
            f"Compared with `{FLOOR}`, it is significantly better in {win} of {win + tie + loss} "
            f"settings, not significantly different in {tie}, and significantly worse in {loss}; "
            f"it is more than a point better with probability {better:.2f}, practically equal "
            f"with {equal:.2f}, and worse with {worse:.2f}."
        )
    return "\n".join(sentences)


def state(results: Sequence[Result], suite: Suite) -> str:
    """Which part of the suite was computed, and how to go on.

    Parameters
    ----------
    results : list of dict
        Results of the suite.
    suite : dict
        Definition of the suite.

    Returns
    -------
    str
        Markdown.
    """
    progress = measure_progress(results, suite)
    counts = [f"{progress.statuses[name]:,} {name}" for name in _TRIED if progress.statuses[name]]
    lines = [
        f"{progress.n_runs:,} of {progress.n_planned:,} runs ({len(methods())} methods) have a "
        f"result: {', '.join(counts) or 'none'}.",
        f"Of {len(suite['datasets'])} data sets, {progress.n_sets.get('complete', 0)} are "
        f"complete, {progress.n_sets.get('partial', 0)} are computed in part, and "
        f"{progress.n_sets.get('none', 0)} not at all.",
    ]
    if not progress.is_complete:
        lines.append(
            "Until all of them are there, no ranks, tests or statements about methods are shown: "
            "the data sets that come first are not representative. The command below goes on "
            "where the stored results end, on any machine that has the data."
        )
    else:
        lines.append(
            '<a href="leaderboard/index.html">Open the leaderboard</a>, with one line per method, '
            "or read the [tables](results/leaderboard.md)."
        )
        lines.append(headline(results, suite))
    return "\n".join(lines)


def ranks(results: Sequence[Result], suite: Suite) -> str:
    """Ranks, tests and costs in each track: first the sets that were not used in the design.

    Parameters
    ----------
    results : list of dict
        Results of the suite.
    suite : dict
        Definition of the suite.

    Returns
    -------
    str
        Markdown.
    """
    if not measure_progress(results, suite).is_complete:
        return "Not shown before every run of the suite has a result."
    tried = of_suite(results, suite)
    design = design_sets(suite)
    groups = {
        "data sets not used in the design of Sieve": [
            result for result in tried if result["dataset"] not in design
        ],
        "all data sets": tried,
    }
    sections = []
    for title, group in groups.items():
        for track in suite["tracks"].values():
            chosen = [result for result in group if result["features"] == track]
            sections += [f"### {track.capitalize()} features, {title}", _Table(chosen).markdown()]
    return "\n\n".join(sections)


def sets(results: Sequence[Result], suite: Suite) -> str:
    """One table per data set of which every run has a result.

    Parameters
    ----------
    results : list of dict
        Results of the suite.
    suite : dict
        Definition of the suite.

    Returns
    -------
    str
        Markdown.
    """
    progress = measure_progress(results, suite)
    if not progress.complete:
        return "No data set is complete yet."
    tried = of_suite(results, suite)
    sections = []
    for name in progress.complete:
        mark = " (used in the design of Sieve)" if name in design_sets(suite) else ""
        chosen = [result for result in tried if result["dataset"] == name]
        sections += [f"### {name}{mark}", _set_table(chosen, suite)]
    return "\n\n".join(sections)


BLOCKS: dict[str, Callable[[Sequence[Result], Suite], str]] = {
    "headline": headline,
    "state": state,
    "ranks": ranks,
    "sets": sets,
}
"""Blocks of pages by name."""


class _Table:
    """Results of one track: ranks over data sets, and every method against the candidate ridge."""

    def __init__(self, results: Sequence[Result]):
        self._results = results
        self._comparison = compare(results, METRIC)
        self._verdicts = verdicts(self._comparison, self._comparison.find(FLOOR))
        self._complete = [_last_if_late(result) for result in results]
        self.friedman: Friedman = friedman(self._complete, METRIC)

    def probabilities(self, method: str) -> tuple[float, float, float]:
        """Probabilities of worse, practically equal and better than the candidate ridge."""
        comparison = self._comparison
        ours = comparison.find(method)
        floor = comparison.find(FLOOR)
        differences: dict[str, list[float]] = {}
        for setting in comparison.settings:
            ahead = comparison.mean(setting, ours) - comparison.mean(setting, floor)
            if not math.isnan(ahead):
                differences.setdefault(setting.dataset, []).append(ahead)
        advantages = [statistics.fmean(values) for values in differences.values()]
        return bayesian_signed_rank(advantages, rope=_POINT)

    def counts(self, method: str) -> tuple[int, int, int]:
        """Settings in which a method is significantly better, not different, and worse."""
        ours = self._comparison.find(method)
        words = [self._verdicts[s, ours] for s in self._comparison.settings]
        # The verdicts are about the candidate ridge.
        return words.count("loss"), words.count("tie"), words.count("win")

    def markdown(self) -> str:
        """The table, best mean rank first, and what the tests say."""
        result = self.friedman
        ranked = sorted(self._comparison.contenders, key=self._rank)
        lines = [
            "| method | mean rank | average precision, % | noise AUC, % | worse / equal / better "
            "than the ridge | won / not significant / lost | timeouts | seconds | MiB |",
            "|---|--:|--:|--:|---|---|--:|--:|--:|",
            *[self._line(contender) for contender in ranked],
        ]
        n_sets = len(result.blocks.names)
        difference = f"{result.critical_difference:.2f}"
        notes = [
            f"Mean ranks are over {n_sets} data sets; two of them differ significantly (Nemenyi, "
            f"5%) if they are at least {difference} apart. {leading(result, _LABEL)}",
            "Worse / equal / better: probabilities by the Bayesian signed rank test over data "
            f"sets against `{FLOOR}`; equal is within one point. Won / not significant / lost: "
            "settings with a significant difference (corrected t-test over seeds, 5%). A run that "
            "ran out of time ranks last and enters no other figure. Seconds and memory are means "
            "that nobody verified.",
            *contender_notes(self._comparison.contenders),
        ]
        return "\n\n".join(["\n".join(lines), "\n".join(notes), self._ranks_by_metric()])

    def _ranks_by_metric(self) -> str:
        """Mean ranks by each of the five metrics."""
        tests = {name: friedman(self._complete, name) for name in METRICS}
        heads = [ALL_METRICS[name].name for name in METRICS]
        lines = [
            f"| mean rank by | {' | '.join(heads)} |",
            "|---" + "|--:" * len(heads) + "|",
        ]
        for contender in sorted(self._comparison.rivals, key=self._rank):
            places = [tests[name].ranks.get(contender.label, math.nan) for name in METRICS]
            cells = ["-" if math.isnan(place) else f"{place:.1f}" for place in places]
            lines.append(f"| {contender.label} | {' | '.join(cells)} |")
        return "\n".join(lines)

    def _rank(self, contender: Contender) -> float:
        return self.friedman.ranks.get(contender.label, math.inf)

    def _line(self, contender: Contender) -> str:
        runs = [r for r in self._results if r["method"] == contender.method]
        rank = self._rank(contender)
        cells = [
            contender.label,
            f"{rank:.1f}" if math.isfinite(rank) else "-",
            _mean_in_percent(runs, METRIC),
            _mean_in_percent(runs, "noise_auc"),
            *self._against_ridge(contender),
            str(sum(r["status"] == "timeout" for r in runs)),
            _cost(runs, ("tune_seconds", "fit_seconds", "predict_seconds"), ".1f"),
            _cost(runs, ("peak_memory_mb",), ".0f"),
        ]
        return f"| {' | '.join(cells)} |"

    def _against_ridge(self, contender: Contender) -> list[str]:
        if contender.method == FLOOR:
            return ["-", "-"]
        shares = [f"{share:.2f}" for share in self.probabilities(contender.label)]
        counts = [str(count) for count in self.counts(contender.label)]
        return [" / ".join(shares), " / ".join(counts)]


def _last_if_late(result: Result) -> Result:
    """A result as it enters the ranks: a run without one is as bad as can be."""
    if result["status"] == "done":
        return result
    worst = {name: 0.0 if ALL_METRICS[name].greater_is_better else 1.0 for name in METRICS}
    return {**result, "status": "done", "metrics": worst}


def _mean_in_percent(runs: Iterable[Result], metric: str) -> str:
    """Mean over the runs that have a metric."""
    values = [value for run in runs if (value := value_of(run, metric)) is not None]
    return f"{100 * statistics.fmean(values):.1f}" if values else "-"


def _cost(runs: Iterable[Result], names: Sequence[str], form: str) -> str:
    """Mean over the finished runs of a sum of costs."""
    finished = [run for run in runs if run["status"] == "done"]
    sums = [sum(run[name] or 0.0 for name in names) for run in finished]
    return format(statistics.fmean(sums), form) if sums else "-"


def _set_table(results: Sequence[Result], suite: Suite) -> str:
    """Average precision of all methods on a data set: a column per track and noise."""
    comparisons = {
        track: compare([r for r in results if r["features"] == track], METRIC)
        for track in suite["tracks"].values()
    }
    columns = []
    for track, comparison in comparisons.items():
        words = verdicts(comparison, comparison.find(FLOOR))
        for setting in comparison.settings:
            title = f"{track}, {setting.noise or 'own'}"
            columns.append(_Column(comparison, setting, title, words))
    names = list(dict.fromkeys(result["method"] for result in results))
    order = sorted(names, key=lambda name: -_mean_or_nothing(columns, name))
    head = ["method", *[column.title for column in columns]]
    lines = [f"| {' | '.join(head)} |", "|---" + "|--:" * len(columns) + "|"]
    for name in order:
        cells = [column.cell(name) for column in columns]
        label = columns[0].comparison.find(name).label
        lines.append(f"| {label} | {' | '.join(cells)} |")
    n_seeds = len({result["seed"] for result in results})
    note = (
        f"Average precision in percent, mean ± standard deviation over {n_seeds} seeds; + and − "
        f"mark a significant difference from `{FLOOR}` (corrected t-test, 5%), other differences "
        "are not significant."
    )
    return "\n".join(lines) + f"\n\n{note}"


@dataclass(frozen=True)
class _Column:
    """A setting of one track, and the verdicts on the candidate ridge there."""

    comparison: Comparison
    setting: Setting
    title: str
    words: Mapping[tuple[Setting, Contender], str]

    def mean(self, method: str) -> float:
        """Mean over seeds; NaN without a result."""
        return self.comparison.mean(self.setting, self.comparison.find(method))

    def cell(self, method: str) -> str:
        """Mean and standard deviation in percent with the mark of a significant difference."""
        ours = self.comparison.find(method)
        mean = self.mean(method)
        if math.isnan(mean):
            return self.comparison.missing.get((self.setting, ours), "-").partition(":")[0]
        spread = self.comparison.std(self.setting, ours)
        text = f"{100 * mean:.1f}"
        if not math.isnan(spread):
            text += f" ± {100 * spread:.1f}"
        # The ridge lost against a method that is better.
        marks = {"loss": " +", "win": " −"}
        return text + marks.get(self.words.get((self.setting, ours), ""), "")


def _mean_or_nothing(columns: Iterable[_Column], method: str) -> float:
    """Mean over the columns in which a method has a result."""
    values = np.array([column.mean(method) for column in columns])
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else -math.inf

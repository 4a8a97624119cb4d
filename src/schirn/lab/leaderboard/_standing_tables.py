"""Tables of the results of a suite, as Markdown: ranks of a track, and single data sets."""

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from schirn.lab.bench import (
    ALL_METRICS,
    FLOOR,
    ORACLE_MARK,
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
    wilcoxon_holm,
)
from schirn.lab.bench.suite import Suite
from schirn.metrics import METRICS

METRIC = "average_precision"
BETTER = "better"
"""Name of the track in which every method has the features that suit it better."""
BETTER_NOTE = (
    f"{ORACLE_MARK} features chosen by the test figures: on each data set, every method has those "
    "with which its average precision on the test rows is higher."
)
"""Meaning of the mark of this track."""
_LABEL = "average precision"
# Mark of methods that have another search budget.
_TUNED_IN_FIT = " ¶"
# Level of the tests within settings.
_LEVEL = 0.05
# Sizes of a difference that matter, in percentage points.
_POINT = 0.01


class RankTable:
    """Results of one track: ranks over data sets, and every method against the candidate ridge."""

    def __init__(self, results: Sequence[Result]):
        self._results = results
        self._complete = [_last_if_late(result) for result in results]
        self._comparison = compare(self._complete, METRIC)
        self._verdicts = verdicts(self._comparison, self._comparison.find(FLOOR))
        self.friedman: Friedman = friedman(self._complete, METRIC)

    def probabilities(self, method: str) -> tuple[float, float, float]:
        """Return probabilities of worse, practically equal and better than the candidate ridge."""
        return bayesian_signed_rank(list(self.advantages(method).values()), rope=_POINT)

    def pvalue(self, method: str) -> float:
        """Return the p-value of Wilcoxon's test against the candidate ridge over data sets."""
        pair = [result for result in self._complete if result["method"] in (method, FLOOR)]
        return wilcoxon_holm(pair, method, METRIC)[0].pvalue

    def advantages(self, method: str) -> dict[str, float]:
        """Return the mean difference from the candidate ridge on each data set."""
        comparison = self._comparison
        ours = comparison.find(method)
        floor = comparison.find(FLOOR)
        differences: dict[str, list[float]] = {}
        for setting in comparison.settings:
            ahead = comparison.mean(setting, ours) - comparison.mean(setting, floor)
            if not math.isnan(ahead):
                differences.setdefault(setting.dataset, []).append(ahead)
        return {name: statistics.fmean(values) for name, values in differences.items()}

    def ranks_on(self, datasets: Collection[str]) -> dict[str, float]:
        """Return the mean ranks over some of the data sets."""
        chosen = [result for result in self._complete if result["dataset"] in datasets]
        return friedman(chosen, METRIC).ranks

    @cached_property
    def tuned_in_fit(self) -> list[str]:
        """Labels of the methods that choose their parameters in `fit`."""
        searched = {result["method"] for result in self._results if result.get("grid")}
        contenders = self._comparison.contenders
        return [each.label for each in contenders if each.method not in searched]

    def counts(self, method: str) -> tuple[int, int, int]:
        """Return the numbers of settings with significantly better, equal and worse results."""
        ours = self._comparison.find(method)
        words = [self._verdicts[s, ours] for s in self._comparison.settings]
        # The verdicts are about the candidate ridge.
        return words.count("loss"), words.count("tie"), words.count("win")

    @property
    def false_positives(self) -> str:
        """A sentence on the tests within settings, which are not corrected for their number.

        Empty if nothing was tested.
        """
        rivals = [rival for rival in self._comparison.rivals if rival.method != FLOOR]
        n_tests = max((sum(self.counts(rival.label)) for rival in rivals), default=0)
        if not n_tests:
            return ""
        return (
            f"Won and lost: uncorrected tests at 5%; among {n_tests} per row, about "
            f"{_LEVEL * n_tests:.1f} false positives are expected."
        )

    def markdown(self, *, by_metric: bool = True) -> str:
        """Return the table, best mean rank first, and the results of the tests."""
        result = self.friedman
        ranked = sorted(self._comparison.contenders, key=self._rank)
        lines = [
            "| method | mean rank | average precision, % | noise AUC, % | worse / equal / better "
            "than the ridge | won / not significant / lost | unfinished | seconds | MiB |",
            "|---|--:|--:|--:|---|---|--:|--:|--:|",
            *[self._line(contender) for contender in ranked],
        ]
        n_sets = len(result.blocks.names)
        difference = f"{result.critical_difference:.2f}"
        note = (
            f"Mean ranks are over {n_sets} data sets; two of them differ significantly (Nemenyi, "
            f"5%) if they are at least {difference} apart. {leading(result, _LABEL)}"
        )
        if expected := self.false_positives:
            note += f" {expected}"
        further = [self._ranks_by_metric()] if by_metric else []
        return "\n\n".join(["\n".join(lines), note, *further])

    def _ranks_by_metric(self) -> str:
        """Return the mean ranks by each of the five metrics."""
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
            f"{contender.label}{_TUNED_IN_FIT * (contender.label in self.tuned_in_fit)}",
            f"{rank:.1f}" if math.isfinite(rank) else "-",
            _mean_in_percent(runs, METRIC),
            _mean_in_percent(runs, "noise_auc"),
            *self._against_ridge(contender),
            str(sum(r["status"] != "done" for r in runs)),
            _cost(runs, ("tune_seconds", "fit_seconds", "predict_seconds"), ".1f"),
            _cost(runs, ("peak_memory_mb",), ".0f"),
        ]
        return f"| {' | '.join(cells)} |"

    def _against_ridge(self, contender: Contender) -> list[str]:
        if contender.method == FLOOR:
            return ["-", "-"]
        shares = [f"{share:.2f}" for share in self.probabilities(contender.label)]
        counts = self.counts(contender.label)
        # One seed tests nothing.
        tests = " / ".join(map(str, counts)) if any(counts) else "-"
        return [" / ".join(shares), tests]


def rank_notes(results: Sequence[Result]) -> str:
    """Return what the columns and marks of all tables of ranks mean.

    Parameters
    ----------
    results : list of dict
        Results of all tracks.

    Returns
    -------
    str
    """
    one_track = [result for result in results if result["features"] == results[0]["features"]]
    notes = [
        "Worse / equal / better: probabilities, by the Bayesian signed rank test over data sets "
        "(Benavoli and others, 2014; 2017), "
        f"that most differences from `{FLOOR}` are of this kind; equal is within one point. Won / "
        "not significant / lost: settings with a significant difference (corrected t-test over "
        "seeds). A run that ran out of time or failed counts with the worst value of every "
        "metric; only average precision, noise AUC and costs are means over finished runs. "
        "Seconds and memory are not verified.",
        BETTER_NOTE,
        "¶ chooses its parameters in `fit`, on all training candidates; the others search at most "
        "six points of their grids on 200 rows.",
        *contender_notes(compare(one_track, METRIC).contenders),
    ]
    return "\n".join(notes)


def better_track(results: Iterable[Result]) -> list[Result]:
    """Return the results of each method on each data set with the features that suit it better.

    The features with the higher mean average precision count, whatever they were for others.

    Parameters
    ----------
    results : list of dict
        Results of several tracks.

    Returns
    -------
    list of dict
        Those results, all with "better" as their features.
    """
    groups: dict[tuple[str, str], dict[str, list[Result]]] = {}
    for result in results:
        pair = groups.setdefault((result["dataset"], result["method"]), {})
        pair.setdefault(result["features"], []).append(result)
    chosen = (max(tracks.values(), key=_mean_of_all) for tracks in groups.values())
    return [{**result, "features": BETTER} for group in chosen for result in group]


def _mean_of_all(results: Iterable[Result]) -> float:
    return statistics.fmean(_last_if_late(result)["metrics"][METRIC] for result in results)


def _last_if_late(result: Result) -> Result:
    """Return a result for the ranks, where a run without a result counts as the worst."""
    if result["status"] == "done":
        return result
    worst = {name: 0.0 if ALL_METRICS[name].greater_is_better else 1.0 for name in METRICS}
    return {**result, "status": "done", "metrics": worst}


def _mean_in_percent(runs: Iterable[Result], metric: str) -> str:
    """Return the mean over the runs that have a metric."""
    values = [value for run in runs if (value := value_of(run, metric)) is not None]
    return f"{100 * statistics.fmean(values):.1f}" if values else "-"


def _cost(runs: Iterable[Result], names: Sequence[str], form: str) -> str:
    """Return the mean over the finished runs of a sum of costs."""
    finished = [run for run in runs if run["status"] == "done"]
    sums = [sum(run[name] or 0.0 for name in names) for run in finished]
    return format(statistics.fmean(sums), form) if sums else "-"


def set_table(results: Sequence[Result], suite: Suite) -> str:
    """Return the average precision of all methods on a data set: a column per track and noise."""
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
    if n_seeds == 1:
        return "\n".join(lines) + "\n\nAverage precision in percent, with one seed."
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
        """Return the mean over seeds; NaN without a result."""
        return self.comparison.mean(self.setting, self.comparison.find(method))

    def cell(self, method: str) -> str:
        """Return mean and standard deviation in percent, with a mark if significantly different."""
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
    """Return the mean over the columns in which a method has a result."""
    values = np.array([column.mean(method) for column in columns])
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else -math.inf

"""Results of one metric arranged for comparison: setting × contender, one value per fold."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from schirn.estimators import methods
from schirn.exceptions import InputError
from schirn.lab.bench._baselines import BASELINES
from schirn.metrics import LABEL_METRICS, METRICS

Result = Mapping[str, Any]
Fold = tuple[Any, Any]
"""Seed and fold."""

AUTO = "auto"
FLOOR = "CandidateRidge"
CEILING = "OracleRidge"
# Shares of a smaller difference between the references would be noise.
SMALLEST_GAP = 0.01
# Scores that tie in a larger share of the rows owe their metrics to the rule for ties.
MOST_TIED = 0.01
ORACLE_MARK = "†"
MARKS = {
    "oracle": f"{ORACLE_MARK} oracle-tuned: parameters chosen on the true labels of the test rows.",
    "reconstructed": "‡ reconstructed: neither code nor full text was available.",
    "baseline": "§ baseline: an ordinary classifier of the candidates.",
    "variant": "◇ variant by this library: squared loss, uncorrected, own estimate of the priors.",
}
"""Meaning of the marks of contenders; each text starts with its mark."""
# A folder in front of the name of a file.
_FOLDER = re.compile(
    r"""(?<![\w./\\])(?:~|\w:)?[/\\](?:[^\s/\\:;,'"()]+[/\\])+"""
    r"""|(?<![\w./\\])(?:[^\s/\\:;,'"()]+[/\\])+(?=[^\s/\\:;,'"()]+\.\w)"""
)
VARIANTS = ("COMES", "OracleCOMES")
"""Methods that differ from their paper by choice: docs/math/comes.md."""
PAPER_NOISE = ("legacy", "exact")
OUR_METHODS = ("Sieve", "Schirn")


@dataclass(frozen=True)
class MetricInfo:
    """Label and direction of a metric."""

    label: str
    greater_is_better: bool

    @property
    def name(self) -> str:
        """Label without its arrow."""
        return self.label.rstrip(" ↑↓")


ALL_METRICS: dict[str, MetricInfo] = {
    name: MetricInfo(metric.label, metric.greater_is_better) for name, metric in METRICS.items()
} | {
    "noise_auc": MetricInfo("noise AUC ↑", True),
    "noise_precision": MetricInfo("noise precision ↑", True),
    "noise_recall": MetricInfo("noise recall ↑", True),
    "noise_auprc": MetricInfo("noise AUPRC ↑", True),
    "calibration_error": MetricInfo("calibration error ↓", False),
    **{name: MetricInfo(label, True) for name, label in LABEL_METRICS.items()},
    "tied_rows": MetricInfo("rows with ties ↓", False),
    "average_precision_random_ties": MetricInfo("average precision, ties at random ↑", True),
    "one_error_random_ties": MetricInfo("one-error, ties at random ↓", False),
}


@dataclass(frozen=True)
class Setting:
    """A data set at a noise level; r is None for data sets with their own candidates.

    `noise` names the kind of noise if the results have several, or one that papers do not use.
    """

    dataset: str
    r: Any = None
    noise: str = ""

    @property
    def level(self) -> str:
        """Noise level in tables."""
        return "" if self.r is None else f"{self.r} {self.noise}".rstrip()

    @property
    def label(self) -> str:
        """Name in tables."""
        return self.dataset if self.r is None else f"{self.dataset} r={self.level}"


@dataclass(frozen=True)
class Contender:
    """A method with its tuning and its features.

    `oracle`: its parameters were chosen on true labels. `ceiling`: it was trained on true labels
    and serves as a reference. `reconstructed`: written from a description, as the method says.
    `baseline`: common practice without this library. `variant`: not the method of its paper.
    """

    method: str
    tuning: str
    features: str
    label: str
    oracle: bool = False
    ceiling: bool = False
    reconstructed: bool = False
    baseline: bool = False
    variant: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """Method, tuning and features, which distinguish contenders."""
        return self.method, self.tuning, self.features


@dataclass(frozen=True)
class Comparison:
    """The values of one metric.

    `values` maps each setting and contender to the value of every fold; `missing` gives the reason
    if there is none, and `partial` the reason if some folds have none.
    """

    metric: str
    info: MetricInfo
    settings: tuple[Setting, ...]
    contenders: tuple[Contender, ...]
    values: dict[tuple[Setting, Contender], dict[Fold, float]]
    missing: dict[tuple[Setting, Contender], str]
    partial: dict[tuple[Setting, Contender], str]

    def mean(self, setting: Setting, contender: Contender) -> float:
        """Return the mean over folds; NaN without a result."""
        folds = self.values.get((setting, contender))
        return math.nan if folds is None else float(np.mean(list(folds.values())))

    def std(self, setting: Setting, contender: Contender) -> float:
        """Sample standard deviation over folds; NaN for fewer than two folds."""
        folds = self.values.get((setting, contender), {})
        return math.nan if len(folds) < 2 else float(np.std(list(folds.values()), ddof=1))

    def paired(self, setting: Setting, a: Contender, b: Contender) -> tuple[list[float], ...]:
        """Return the values of two contenders on their common folds, in the same order."""
        first = self.values.get((setting, a), {})
        second = self.values.get((setting, b), {})
        common = [fold for fold in first if fold in second]
        return [first[fold] for fold in common], [second[fold] for fold in common]

    def find(self, name: str) -> Contender:
        """Find a contender by label or method; prefer the one tuned on candidates."""
        matches = [c for c in self.contenders if c.label == name] or sorted(
            (c for c in self.contenders if name.lower() in names_of(c.method)),
            key=lambda c: (c.oracle, c.tuning),
        )
        if not matches:
            known = ", ".join(c.label for c in self.contenders)
            raise InputError(
                f"There are no results of method {name!r}; there are results of: {known}."
            )
        return matches[0]

    @property
    def rivals(self) -> tuple[Contender, ...]:
        """All contenders except those trained on the truth."""
        return tuple(c for c in self.contenders if not c.ceiling)

    @property
    def n_folds(self) -> int:
        """Number of folds of one repetition."""
        return len({fold for folds in self.values.values() for _, fold in folds})


def metric_info(metric: str) -> MetricInfo:
    """Look up a metric; raise InputError with the known names if there is none."""
    if metric not in ALL_METRICS:
        raise InputError(f"Unknown metric {metric!r}; one of: {', '.join(ALL_METRICS)}.")
    return ALL_METRICS[metric]


def mark_notes(contenders: Iterable[Contender]) -> list[str]:
    """Return the meanings of the marks of some contenders."""
    contenders = list(contenders)
    return [text for flag, text in MARKS.items() if any(getattr(c, flag) for c in contenders)]


def contender_notes(contenders: Iterable[Contender]) -> list[str]:
    """Return the meanings of the marks, and the contenders trained on true labels."""
    contenders = list(contenders)
    labels = [c.label for c in contenders if c.ceiling]
    truth = [f"{' and '.join(labels)}: trained on the true labels, for reference only."]
    return mark_notes(contenders) + (truth if labels else [])


def compare(results: Iterable[Result], metric: str) -> Comparison:
    """Arrange results by setting, contender and fold."""
    info = metric_info(metric)
    results = list(results)
    if not results:
        raise InputError("There are no benchmark results; run a benchmark first.")
    contenders = _contenders(results)
    kinds = _named_kinds(results)
    settings = _settings(results, kinds)
    by_key = {c.key: c for c in contenders}
    values: dict[tuple[Setting, Contender], dict[Fold, float]] = {}
    reasons: dict[tuple[Setting, Contender], dict[Fold, str]] = {}
    for result in results:
        pair = setting_of(result, kinds), by_key[key_of(result)]
        fold = (result.get("seed"), result.get("fold"))
        value = value_of(result, metric)
        if value is None:
            reasons.setdefault(pair, {})[fold] = _reason(result)
        else:
            known = values.setdefault(pair, {}).setdefault(fold, value)
            if known != value:
                raise InputError(
                    f"Two results for {pair[1].label} on {pair[0].label}, seed {fold[0]}, fold "
                    f"{fold[1]}: {known:g} and {value:g}; keep the results of one benchmark only."
                )
    missing = {}
    partial = {}
    for pair in ((s, c) for s in settings for c in contenders):
        folds = values.get(pair, {})
        failed = [why for fold, why in reasons.get(pair, {}).items() if fold not in folds]
        why = "; ".join(dict.fromkeys(failed))
        if not folds:
            missing[pair] = why or "not run"
        elif failed:
            partial[pair] = f"{len(folds)} of {len(folds) + len(failed)} folds ({why})"
    return Comparison(metric, info, settings, contenders, values, missing, partial)


def value_of(result: Result, metric: str) -> float | None:
    """Return the finite value of a metric in a result, or None."""
    value = (result.get("metrics") or {}).get(metric)
    return float(value) if value is not None and math.isfinite(value) else None


def setting_of(result: Result, kinds: bool = False) -> Setting:
    """Return the data set and noise level of a result, with the kind of noise if wanted."""
    r = result.get("r")
    noise = str(result.get("noise") or "") if kinds and r is not None else ""
    return Setting(str(result["dataset"]), r, noise)


def folds_of(results: Iterable[Result]) -> dict[Setting, int]:
    """Count the folds of each setting over all seeds, including those that failed."""
    results = list(results)
    kinds = _named_kinds(results)
    folds: dict[Setting, set[Fold]] = {setting: set() for setting in _settings(results, kinds)}
    for result in results:
        folds[setting_of(result, kinds)].add((result.get("seed"), result.get("fold")))
    return {setting: len(found) for setting, found in folds.items()}


def default_reference(results: Sequence[Result]) -> str | None:
    """Return the method that others are compared with by default: Sieve, else Schirn."""
    names = {result["method"] for result in results}
    return next((name for name in OUR_METHODS if name in names), None)


def names_of(method: str) -> set[str]:
    """Return the names of a method in lower case: its name, and the class of its import path.

    >>> sorted(names_of("mypkg:MyMethod"))
    ['mymethod', 'mypkg:mymethod']
    """
    return {method.lower(), re.split("[:.]", method)[-1].lower()}


def key_of(result: Result) -> tuple[str, str, str]:
    """Return the method, tuning and features, which distinguish contenders."""
    return (
        str(result["method"]),
        str(result.get("tuning", "none")),
        str(result.get("features") or ""),
    )


def _oracle(result: Result) -> bool:
    """Check whether the parameters of a result were chosen on true labels."""
    flag = result.get("oracle")
    return result.get("tuning") == "oracle" if flag is None else bool(flag)


def _reason(result: Result) -> str:
    """Return the reason why a result has no value."""
    status = str(result.get("status", "failed"))
    reason = result.get("reason")
    if status == "done":
        return "not defined in the other runs"
    return f"{status}: {without_folders(str(reason)).rstrip('.')}" if reason else status


def without_folders(text: str) -> str:
    """Remove the folders in front of the file names in a text.

    >>> without_folders("/home/me/sets/cmc.npz: 2 workers judged item 0")
    'cmc.npz: 2 workers judged item 0'
    >>> without_folders("sets/bad.npz: not an archive; either/or")
    'bad.npz: not an archive; either/or'
    """
    return _FOLDER.sub("", text)


def _named_kinds(results: Sequence[Result]) -> bool:
    """Check whether settings must name the kind of noise."""
    kinds = {result.get("noise") for result in results if result.get("r") is not None}
    return len(kinds) > 1 or not kinds <= {None, *PAPER_NOISE}


def _settings(results: Sequence[Result], kinds: bool) -> tuple[Setting, ...]:
    """Return the settings, with data sets in the order of the results and sorted noise levels."""
    settings = dict.fromkeys(setting_of(result, kinds) for result in results)
    datasets = list(dict.fromkeys(setting.dataset for setting in settings))
    level = {s: (s.r is not None, s.r if isinstance(s.r, int | float) else 0) for s in settings}
    return tuple(sorted(settings, key=lambda s: (datasets.index(s.dataset), s.noise, level[s])))


def _contenders(results: Sequence[Result]) -> tuple[Contender, ...]:
    """Return the contenders in the order in which the results first name their methods."""
    keys: dict[tuple[str, str, str], list[Result]] = {}
    for number, result in enumerate(results):
        for field in ("dataset", "method"):
            if field not in result:
                raise InputError(f"Benchmark result {number} has no {field!r}.")
        keys.setdefault(key_of(result), []).append(result)
    known = methods()
    contenders = []
    for key, runs in keys.items():
        oracle = any(_oracle(result) for result in runs)
        ceiling = key[0] == CEILING or any(result.get("sees_truth") for result in runs)
        reconstructed = key[0] in known and known[key[0]]._info.reconstructed
        contender = Contender(
            *key,
            "",
            oracle=oracle,
            ceiling=ceiling,
            reconstructed=reconstructed,
            baseline=key[0] in BASELINES,
            variant=key[0] in VARIANTS,
        )
        contenders.append(replace(contender, label=_label(contender, keys)))
    # A method without a grid does not depend on the tuning, but may have been run with two.
    labels = Counter(c.label for c in contenders)
    contenders = [
        replace(c, label=f"{c.label} ({c.tuning})") if labels[c.label] > 1 else c
        for c in contenders
    ]
    order = list(dict.fromkeys(key[0] for key in keys))
    return tuple(sorted(contenders, key=lambda c: (order.index(c.method), c.features, c.oracle)))


def _label(contender: Contender, keys: Iterable[tuple[str, str, str]]) -> str:
    """Return the name of a contender with its marks, and anything else that distinguishes it."""
    method, tuning, features = contender.key
    # An import path shows as its class, unless another method has the same name.
    name = method.rpartition(":")[2] or method
    shared = any(k[0].rpartition(":")[2] == name for k in keys if k[0] != method)
    text = method if shared else name
    text += "".join(note[0] for note in mark_notes([contender]))
    tunings = {k[1] for k in keys if k[0] == method} - {"oracle"}
    if tuning == "none" and len(tunings) > 1:
        text += " (untuned)"
    return f"{text} [{features}]" if len({k[2] for k in keys}) > 1 and features else text

"""Tests that compare methods: over the folds of a setting, and over data sets."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from schirn.bench._grid import CEILING, FLOOR, Contender, Grid, Row, Setting, grid, measure_of
from schirn.exceptions import InputError

Array = np.ndarray

TESTS = ("paired", "corrected")
UNITS = ("dataset", "setting")

# Values are compared to so many digits: what is equal on paper may differ in the last bit.
_DIGITS = 12


class Outcome(NamedTuple):
    """Outcome of a two-sided test; NaN where there is too little to test."""

    statistic: float
    pvalue: float


class WinTieLoss(NamedTuple):
    """Settings in which the reference is significantly better, no different, or worse.

    `missing` counts settings where one of the two has no result, or fewer than two common folds.
    """

    win: int
    tie: int
    loss: int
    missing: int = 0

    def __str__(self) -> str:
        return f"{self.win}/{self.tie}/{self.loss}"


class Pairwise(NamedTuple):
    """One comparison over data sets; `median` is the median advantage of the reference."""

    contender: str
    median: float
    statistic: float
    pvalue: float
    holm: float
    n_blocks: int
    significant: bool


class Blocks(NamedTuple):
    """Mean values with no gaps, (blocks, contenders), and what was left out to get there."""

    names: tuple[str, ...]
    contenders: tuple[str, ...]
    values: Array
    dropped_settings: tuple[str, ...]
    dropped_contenders: tuple[str, ...]


class Friedman(NamedTuple):
    """Friedman's test over data sets and Nemenyi's test of all pairs.

    `ranks` are mean ranks (1 is best); `nemenyi` holds the p-values in the order of `ranks`; two
    mean ranks further apart than `critical_difference` differ at level `alpha`. `note` says why
    there is no test, or is empty.
    """

    statistic: float
    pvalue: float
    ranks: dict[str, float]
    nemenyi: Array
    critical_difference: float
    alpha: float
    blocks: Blocks
    note: str


def paired_t(a: Sequence[float], b: Sequence[float]) -> Outcome:
    """Paired t-test over folds.

    Equal values give p = 1; a difference that is the same in every fold gives p = 0.

    Examples
    --------
    >>> from schirn.bench.stats import paired_t
    >>> round(paired_t([0.8, 0.9, 0.7], [0.7, 0.7, 0.6]).pvalue, 3)
    0.057
    >>> paired_t([0.8, 0.9], [0.8, 0.9]).pvalue
    1.0
    """
    return corrected_t(a, b, ratio=0.0)


def corrected_t(a: Sequence[float], b: Sequence[float], *, ratio: float) -> Outcome:
    """Paired t-test with the variance corrected for overlapping training rows.

    Nadeau and Bengio: t = m / sqrt((1/k + ratio) s²) with k differences of mean m and variance
    s², and `ratio` the number of test rows over that of training rows: 1/(k-1) in k-fold
    cross-validation. The plain test takes the folds for independent and finds too much.

    Examples
    --------
    >>> from schirn.bench.stats import corrected_t
    >>> round(corrected_t([0.8, 0.9, 0.7], [0.7, 0.7, 0.6], ratio=1 / 2).pvalue, 3)
    0.127
    """
    difference = np.asarray(a, dtype=float) - np.asarray(b, dtype=float)
    k = difference.size
    if k < 2:
        return Outcome(math.nan, math.nan)
    mean, spread = difference.mean(), difference.std(ddof=1)
    # Differences of equal floats can disagree in the last digit; that is no variance.
    if spread <= 1e-12 * max(1.0, abs(mean)):
        equal = abs(mean) <= 1e-12
        return Outcome(0.0, 1.0) if equal else Outcome(math.copysign(math.inf, mean), 0.0)
    t = mean / (spread * math.sqrt(1 / k + ratio))
    return Outcome(float(t), float(2 * stats.t.sf(abs(t), k - 1)))


def verdicts(
    cells: Grid, reference: Contender, *, alpha: float = 0.05, test: str = "paired"
) -> dict[tuple[Setting, Contender], str]:
    """Verdict on the reference per setting and contender: win, tie, loss or missing."""
    if test not in TESTS:
        raise InputError(f"Unknown test {test!r}; one of: {', '.join(TESTS)}.")
    ratio = 1 / max(1, cells.n_folds - 1) if test == "corrected" else 0.0
    sign = 1 if cells.measure.greater_is_better else -1
    found = {}
    for setting in cells.settings:
        for contender in cells.contenders:
            if contender == reference:
                continue
            a, b = cells.paired(setting, reference, contender)
            result = corrected_t(a, b, ratio=ratio)
            found[setting, contender] = _verdict(result, sign, alpha)
    return found


def win_tie_loss(
    rows: Iterable[Row],
    reference: str,
    metric: str,
    *,
    alpha: float = 0.05,
    test: str = "paired",
) -> dict[str, WinTieLoss]:
    """Count the settings in which `reference` beats, ties with and loses to each other method.

    Parameters
    ----------
    rows : benchmark rows
    reference : a method, or the label of one in the tables
    metric : the measure to compare
    alpha : level of each test
    test : "paired" for the t-test over folds as papers use it, "corrected" for that of Nadeau
        and Bengio

    Returns
    -------
    dict of label to WinTieLoss

    Examples
    --------
    >>> from schirn.bench.stats import win_tie_loss
    >>> rows = [
    ...     {"dataset": "d", "r": 1, "method": m, "fold": f, "metrics": {"one_error": v + f / 100}}
    ...     for m, v in [("Schirn", 0.2), ("NLR", 0.3)] for f in range(5)
    ... ]
    >>> str(win_tie_loss(rows, "Schirn", "one_error")["NLR"])
    '1/0/0'
    """
    cells = grid(rows, metric)
    ours = cells.find(reference)
    found = verdicts(cells, ours, alpha=alpha, test=test)
    return {c.label: _count(found, cells, c) for c in cells.contenders if c != ours}


def blocks(
    rows: Iterable[Row], metric: str, *, unit: str = "dataset", methods: Sequence[str] | None = None
) -> Blocks:
    """Mean values per data set and contender without gaps, for tests over data sets.

    Contenders with results in fewer than half of the settings are left out, then the settings
    in which one of the others has none. Methods trained on the truth never take part.
    """
    if unit not in UNITS:
        raise InputError(f"Unknown unit {unit!r}; one of: {', '.join(UNITS)}.")
    cells = grid(rows, metric)
    chosen = cells.rivals if methods is None else tuple(cells.find(name) for name in methods)
    filled = {c: sum((s, c) in cells.values for s in cells.settings) for c in chosen}
    kept = [c for c in chosen if 2 * filled[c] >= len(cells.settings) and filled[c]]
    whole = [s for s in cells.settings if all((s, c) in cells.values for c in kept)]
    groups: dict[str, list[Setting]] = {}
    for setting in whole:
        name = setting.dataset if unit == "dataset" else setting.label
        groups.setdefault(name, []).append(setting)
    means = [
        [np.mean([cells.mean(s, c) for s in group]) for c in kept] for group in groups.values()
    ]
    return Blocks(
        tuple(groups),
        tuple(c.label for c in kept),
        np.array(means, dtype=float).reshape(len(groups), len(kept)),
        tuple(s.label for s in cells.settings if s not in whole),
        tuple(c.label for c in chosen if c not in kept),
    )


def wilcoxon_holm(
    rows: Iterable[Row],
    reference: str,
    metric: str,
    *,
    alpha: float = 0.05,
    unit: str = "dataset",
) -> list[Pairwise]:
    """Wilcoxon's signed-rank test of `reference` against each method, corrected after Holm.

    One value per data set (its noise levels averaged), or per setting with ``unit="setting"``;
    noise levels of one data set are not independent, which the second takes them for.

    Examples
    --------
    >>> from schirn.bench.stats import wilcoxon_holm
    >>> rows = [
    ...     {"dataset": d, "method": m, "fold": 0, "metrics": {"average_precision": v + d / 100}}
    ...     for m, v in [("Schirn", 0.5), ("NLR", 0.4)] for d in range(6)
    ... ]
    >>> wilcoxon_holm(rows, "Schirn", "average_precision")[0].holm
    0.03125
    """
    rows = list(rows)
    cells = grid(rows, metric)
    ours = cells.find(reference)
    sign = 1 if cells.measure.greater_is_better else -1
    others = [c for c in cells.rivals if c != ours]
    found = []
    for other in others:
        pair = blocks(rows, metric, unit=unit, methods=[ours.label, other.label])
        whole = len(pair.contenders) == 2
        advantage = sign * (pair.values[:, 0] - pair.values[:, 1]) if whole else np.empty(0)
        found.append((other.label, advantage, _wilcoxon(advantage)))
    adjusted = holm([result.pvalue for _, _, result in found])
    return [
        Pairwise(
            label,
            float(np.median(advantage)) if advantage.size else math.nan,
            result.statistic,
            result.pvalue,
            p,
            advantage.size,
            bool(p < alpha),
        )
        for (label, advantage, result), p in zip(found, adjusted, strict=True)
    ]


def holm(pvalues: Sequence[float]) -> list[float]:
    """P-values of a family of tests, corrected after Holm; NaN stays and does not count.

    Examples
    --------
    >>> from schirn.bench.stats import holm
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [math.nan] * len(pvalues)
    order = sorted((i for i, p in enumerate(pvalues) if not math.isnan(p)), key=pvalues.__getitem__)
    largest = 0.0
    for position, i in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - position) * pvalues[i]))
        adjusted[i] = largest
    return adjusted


def friedman(
    rows: Iterable[Row],
    metric: str,
    *,
    alpha: float = 0.05,
    unit: str = "dataset",
    methods: Sequence[str] | None = None,
) -> Friedman:
    """Friedman's test of all methods over data sets, with Nemenyi's test of all pairs.

    Examples
    --------
    >>> from schirn.bench.stats import friedman
    >>> rows = [
    ...     {"dataset": d, "method": m, "fold": 0, "metrics": {"average_precision": v + d / 100}}
    ...     for m, v in [("Schirn", 0.5), ("NLR", 0.4), ("GLC", 0.3)] for d in range(6)
    ... ]
    >>> result = friedman(rows, "average_precision")
    >>> result.ranks, round(result.pvalue, 4), round(result.critical_difference, 2)
    ({'Schirn': 1.0, 'NLR': 2.0, 'GLC': 3.0}, 0.0025, 1.35)
    """
    cells = blocks(rows, metric, unit=unit, methods=methods)
    sign = -1 if measure_of(metric).greater_is_better else 1
    n, k = cells.values.shape
    values = np.round(cells.values, _DIGITS)
    ranked = stats.rankdata(sign * values, axis=1) if n and k else np.empty((0, k))
    mean = ranked.mean(axis=0) if n else np.full(k, math.nan)
    note = _why_no_test(n, k, unit)
    result = Outcome(math.nan, math.nan) if note else _friedman(values)
    width = math.sqrt(k * (k + 1) / (6 * n)) if n else math.nan
    testable = not note
    return Friedman(
        *result,
        dict(zip(cells.contenders, mean.tolist(), strict=True)),
        _nemenyi(mean, width) if testable else np.full((k, k), math.nan),
        _studentized(alpha, k) * width if testable else math.nan,
        alpha,
        cells,
        note,
    )


def gap_closed(
    rows: Iterable[Row],
    metric: str = "average_precision",
    *,
    floor: str = FLOOR,
    ceiling: str = CEILING,
) -> dict[str, dict[Setting, float]]:
    """How much of the way from learning from the candidates to learning from the truth is made.

    (method - floor) / (ceiling - floor) per setting, from means over folds: 0 is no better than
    taking all candidates for true, 1 is as good as the same ridge trained on the truth; a method
    that is no ridge can do better. NaN where one of the three has no result, or where the
    ceiling is not above the floor.

    Examples
    --------
    >>> from schirn.bench.stats import gap_closed
    >>> rows = [
    ...     {"dataset": "d", "method": m, "fold": 0, "metrics": {"average_precision": v}}
    ...     for m, v in [("Schirn", 0.75), ("CandidateRidge", 0.5), ("OracleRidge", 1.0)]
    ... ]
    >>> list(gap_closed(rows)["Schirn"].values())
    [0.5]
    """
    cells = grid(rows, metric)
    low, high = cells.find(floor), cells.find(ceiling)
    return {
        c.label: {s: _share(cells, s, c, low, high) for s in cells.settings}
        for c in cells.contenders
        if c.method not in (low.method, high.method)
    }


def _share(cells: Grid, s: Setting, c: Contender, low: Contender, high: Contender) -> float:
    sign = 1 if cells.measure.greater_is_better else -1
    gap = sign * (cells.mean(s, high) - cells.mean(s, low))
    return sign * (cells.mean(s, c) - cells.mean(s, low)) / gap if gap > 1e-9 else math.nan


def _verdict(result: Outcome, sign: int, alpha: float) -> str:
    if math.isnan(result.pvalue):
        return "missing"
    if result.pvalue >= alpha:
        return "tie"
    return "win" if sign * result.statistic > 0 else "loss"


def _count(found: dict[tuple[Setting, Contender], str], cells: Grid, c: Contender) -> WinTieLoss:
    seen = [found[s, c] for s in cells.settings]
    return WinTieLoss(*(seen.count(word) for word in ("win", "tie", "loss", "missing")))


def _wilcoxon(advantage: Array) -> Outcome:
    if advantage.size < 2:
        return Outcome(math.nan, math.nan)
    if not np.round(advantage, _DIGITS).any():
        return Outcome(0.0, 1.0)
    result = stats.wilcoxon(np.round(advantage, _DIGITS))
    return Outcome(float(result.statistic), float(result.pvalue))


def _why_no_test(n: int, k: int, unit: str) -> str:
    things = "data sets" if unit == "dataset" else "settings"
    if k < 3:
        return f"Friedman's test needs three methods with results; there are {k}."
    if n < 2:
        return f"Friedman's test needs two {things} with results of all methods; there is {n}."
    return ""


def _friedman(values: Array) -> Outcome:
    # Equal values everywhere leave nothing to rank: 0/0 in the formula, no difference in fact.
    if (values == values[:, :1]).all():
        return Outcome(0.0, 1.0)
    result = stats.friedmanchisquare(*values.T)
    return Outcome(float(result.statistic), float(result.pvalue))


def _nemenyi(ranks: Array, width: float) -> Array:
    """P-values of all pairs, from the studentized range with infinite degrees of freedom."""
    distance = np.abs(ranks[:, None] - ranks[None, :]) / width * math.sqrt(2)
    return np.clip(stats.studentized_range.sf(distance, ranks.size, np.inf), 0.0, 1.0)


def _studentized(alpha: float, k: int) -> float:
    return float(stats.studentized_range.ppf(1 - alpha, k, np.inf)) / math.sqrt(2)

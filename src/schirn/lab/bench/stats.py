"""Statistical tests that compare methods: over the folds of a setting, and over data sets."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from schirn._input import Array
from schirn._optional import optional
from schirn.exceptions import InputError
from schirn.lab.bench._comparison import (
    CEILING,
    FLOOR,
    SMALLEST_GAP,
    Comparison,
    Contender,
    Result,
    Setting,
    compare,
    metric_info,
)
from schirn.lab.bench.running._data import HOLDOUT

TESTS = {
    "corrected": "corrected resampled t-test over the folds of each setting",
    "paired": "paired t-test over the folds of each setting",
}
DEFAULT_TEST = "corrected"
"""The default corrects for overlapping training sets of folds, unlike the papers' t-test."""

# Values are compared after rounding to this many digits: ties may differ in the last bit.
_DIGITS = 12
# Number of blocks from which the chi-square approximation of Friedman's statistic is usually used.
_ENOUGH = 10


class Significance(NamedTuple):
    """Statistic and p-value of a two-sided test; NaN if there are too few values."""

    statistic: float
    pvalue: float


class WinTieLoss(NamedTuple):
    """Numbers of settings in which the reference is significantly better, not different, or worse.

    `missing` counts settings in which the two have fewer than two common folds.
    """

    win: int
    tie: int
    loss: int
    missing: int = 0

    def __str__(self) -> str:
        return f"{self.win}/{self.tie}/{self.loss}"


@dataclass(frozen=True)
class Pairwise:
    """Comparison of two methods over data sets; `median` is the reference's median advantage."""

    contender: str
    median: float
    statistic: float
    pvalue: float
    holm: float
    n_blocks: int
    significant: bool


@dataclass(frozen=True)
class Blocks:
    """Complete table of means, (blocks, contenders), and what was dropped to complete it.

    A block of Friedman's test is a data set.
    """

    names: tuple[str, ...]
    contenders: tuple[str, ...]
    values: Array
    dropped_settings: tuple[str, ...]
    dropped_contenders: tuple[str, ...]


@dataclass(frozen=True)
class Friedman:
    """Friedman's test over data sets and Nemenyi's test of all pairs.

    `ranks` are mean ranks (1 is best); two mean ranks further apart than `critical_difference`
    differ at level `alpha`. `note` explains why there is no test, or is empty. With fewer blocks
    than `needed`, the critical difference exceeds the largest possible difference of mean ranks, so
    that no two methods can be distinguished.
    """

    statistic: float
    pvalue: float
    ranks: dict[str, float]
    critical_difference: float
    alpha: float
    blocks: Blocks
    note: str
    needed: int = 2

    @property
    def iman_davenport(self) -> Significance:
        """F statistic of Iman and Davenport, less conservative than the chi-square, and its p."""
        n, k = self.blocks.values.shape
        if math.isnan(self.statistic):
            return Significance(math.nan, math.nan)
        remainder = n * (k - 1) - self.statistic
        f = (n - 1) * self.statistic / remainder if remainder > 1e-9 else math.inf
        return Significance(f, float(stats.f.sf(f, k - 1, (k - 1) * (n - 1))))

    @property
    def nemenyi(self) -> Array:
        """P-values of all pairs by Nemenyi's test, in the order of `ranks`."""
        if self.note:
            return np.full((len(self.ranks), len(self.ranks)), math.nan)
        posthocs = optional("scikit_posthocs", "bench", "Nemenyi's test")
        values = np.round(self.blocks.values, _DIGITS)
        return np.asarray(posthocs.posthoc_nemenyi_friedman(values))


def paired_t(a: Sequence[float], b: Sequence[float]) -> Significance:
    """Run a paired t-test over folds.

    Equal values give p = 1; a difference that is the same in every fold gives p = 0.

    Parameters
    ----------
    a, b : list of float
        Values of two methods on the same folds.

    Returns
    -------
    Significance
        Statistic and p-value.

    Examples
    --------
    >>> from schirn.lab.bench.stats import paired_t
    >>> round(paired_t([0.8, 0.9, 0.7], [0.7, 0.7, 0.6]).pvalue, 3)
    0.057
    >>> paired_t([0.8, 0.9], [0.8, 0.9]).pvalue
    1.0
    """
    return corrected_t(a, b, ratio=0.0)


def corrected_t(a: Sequence[float], b: Sequence[float], *, ratio: float) -> Significance:
    """Run a paired t-test whose variance is corrected for overlapping training rows.

    Nadeau and Bengio: t = m / sqrt((1/k + ratio) s²) with k differences of mean m and variance s².
    The plain test treats folds as independent and rejects too often.

    Parameters
    ----------
    a, b : list of float
        Values of two methods on the same folds.
    ratio : float
        Number of test rows per training row: 1/(k-1) in k-fold cross-validation.

    Returns
    -------
    Significance
        Statistic and p-value.

    Examples
    --------
    >>> from schirn.lab.bench.stats import corrected_t
    >>> round(corrected_t([0.8, 0.9, 0.7], [0.7, 0.7, 0.6], ratio=1 / 2).pvalue, 3)
    0.127
    """
    difference = np.asarray(a, dtype=float) - np.asarray(b, dtype=float)
    k = difference.size
    if k < 2:
        return Significance(math.nan, math.nan)
    mean = difference.mean()
    spread = difference.std(ddof=1)
    # Rounding in the last digit is not variance.
    if spread <= 1e-12 * max(1.0, abs(mean)):
        equal = abs(mean) <= 1e-12
        return Significance(0.0, 1.0) if equal else Significance(math.copysign(math.inf, mean), 0.0)
    t = mean / (spread * math.sqrt(1 / k + ratio))
    return Significance(float(t), float(2 * stats.t.sf(abs(t), k - 1)))


def verdicts(
    comparison: Comparison, reference: Contender, *, alpha: float = 0.05, test: str = DEFAULT_TEST
) -> dict[tuple[Setting, Contender], str]:
    """Judge the reference per setting and contender: win, tie, loss or missing.

    Parameters
    ----------
    comparison : Comparison
        Values of one metric.
    reference : Contender
        Method that is judged.
    alpha : float
        Significance level of each test.
    test : {"corrected", "paired"}
        Test over folds, as in `win_tie_loss`.

    Returns
    -------
    dict of (Setting, Contender) to str
        "win", "tie", "loss" or "missing".
    """
    if test not in TESTS:
        raise InputError(f"unknown test {test!r}; use one of {', '.join(TESTS)}", parameter="test")
    ratio = _test_per_train(comparison.n_folds) if test == "corrected" else 0.0
    sign = 1 if comparison.info.greater_is_better else -1
    words = {}
    for setting in comparison.settings:
        for contender in comparison.contenders:
            if contender == reference:
                continue
            result = corrected_t(*comparison.paired(setting, reference, contender), ratio=ratio)
            words[setting, contender] = _verdict(result, sign, alpha)
    return words


def _test_per_train(n_folds: int) -> float:
    """Return the number of test rows per training row."""
    n_parts = HOLDOUT if n_folds == 1 else n_folds
    return 1 / max(1, n_parts - 1)


def win_tie_loss(
    rows: Iterable[Result],
    reference: str,
    metric: str,
    *,
    alpha: float = 0.05,
    test: str = DEFAULT_TEST,
    settings: Collection[Setting] | None = None,
) -> dict[str, WinTieLoss]:
    """Count the settings in which `reference` beats, ties with and loses to each other method.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    reference : str
        A method, or its label in the tables.
    metric : str
        Metric to compare.
    alpha : float
        Significance level of each test.
    test : {"corrected", "paired"}
        The t-test over folds of Nadeau and Bengio (`corrected_t`), or the one that papers use
        (`paired_t`), which finds too many differences.
    settings : list of Setting, optional
        Settings to count; by default all.

    Returns
    -------
    dict of str to WinTieLoss
        Counts by label.

    Examples
    --------
    >>> from schirn.lab.bench.stats import win_tie_loss
    >>> results = [
    ...     {"dataset": "d", "r": 1, "method": m, "fold": f, "metrics": {"one_error": v + f / 100}}
    ...     for m, v in [("Schirn", 0.2), ("NLR", 0.3)] for f in range(5)
    ... ]
    >>> str(win_tie_loss(results, "Schirn", "one_error")["NLR"])
    '1/0/0'
    """
    comparison = compare(rows, metric)
    ours = comparison.find(reference)
    words = verdicts(comparison, ours, alpha=alpha, test=test)
    counts = {}
    for c in comparison.contenders:
        if c != ours:
            chosen = comparison.settings if settings is None else settings
            verdicts_of_c = [words[s, c] for s in chosen]
            kinds = ("win", "tie", "loss", "missing")
            counts[c.label] = WinTieLoss(*(verdicts_of_c.count(kind) for kind in kinds))
    return counts


def blocks(
    rows: Iterable[Result],
    metric: str,
    *,
    methods: Sequence[str] | None = None,
) -> Blocks:
    """Return the complete table of means per data set and contender, for tests over data sets.

    Contenders with results in fewer than half of the settings are dropped first, then settings in
    which one of the others has none. Methods trained on the truth never take part.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    metric : str
        Metric to compare.
    methods : list of str, optional
        Methods or labels. Defaults to all that are not trained on the truth.

    Returns
    -------
    Blocks
        The table, and what was dropped.
    """
    comparison = compare(rows, metric)
    chosen = (
        comparison.rivals if methods is None else tuple(comparison.find(name) for name in methods)
    )
    filled = {c: sum((s, c) in comparison.values for s in comparison.settings) for c in chosen}
    contenders = [c for c in chosen if 2 * filled[c] >= len(comparison.settings) and filled[c]]
    settings = [
        s for s in comparison.settings if all((s, c) in comparison.values for c in contenders)
    ]
    groups: dict[str, list[Setting]] = {}
    for setting in settings:
        groups.setdefault(setting.dataset, []).append(setting)
    means = [
        [np.mean([comparison.mean(s, c) for s in group]) for c in contenders]
        for group in groups.values()
    ]
    return Blocks(
        tuple(groups),
        tuple(c.label for c in contenders),
        np.array(means, dtype=float).reshape(len(groups), len(contenders)),
        tuple(s.label for s in comparison.settings if s not in settings),
        tuple(c.label for c in chosen if c not in contenders),
    )


def wilcoxon_holm(
    rows: Iterable[Result],
    reference: str,
    metric: str,
    *,
    alpha: float = 0.05,
) -> list[Pairwise]:
    """Run Wilcoxon's test of `reference` against each method, with Holm's correction.

    There is one value per data set, the mean over its settings: noise levels and kinds of noise of
    one data set are not independent.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    reference : str
        A method, or its label in the tables.
    metric : str
        Metric to compare.
    alpha : float
        Significance level.

    Returns
    -------
    list of Pairwise
        One comparison per method.

    Examples
    --------
    >>> from schirn.lab.bench.stats import wilcoxon_holm
    >>> results = [
    ...     {"dataset": d, "method": m, "fold": 0, "metrics": {"average_precision": v + d / 100}}
    ...     for m, v in [("Schirn", 0.5), ("NLR", 0.4)] for d in range(6)
    ... ]
    >>> wilcoxon_holm(results, "Schirn", "average_precision")[0].holm
    0.03125
    """
    results = list(rows)
    comparison = compare(results, metric)
    ours = comparison.find(reference)
    sign = 1 if comparison.info.greater_is_better else -1
    rivals = [c for c in comparison.rivals if c != ours]
    tests = []
    for rival in rivals:
        pair = blocks(results, metric, methods=[ours.label, rival.label])
        is_complete = len(pair.contenders) == 2
        advantage = sign * (pair.values[:, 0] - pair.values[:, 1]) if is_complete else np.empty(0)
        tests.append((rival.label, advantage, _wilcoxon(advantage)))
    adjusted = holm([result.pvalue for _, _, result in tests])
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
        for (label, advantage, result), p in zip(tests, adjusted, strict=True)
    ]


def bayesian_signed_rank(
    advantages: Sequence[float], *, rope: float = 0.01, draws: int = 20_000, seed: int = 0
) -> tuple[float, float, float]:
    """Return the probabilities that a method is worse, practically equal and better than another.

    Benavoli and others: a Dirichlet process on the differences, with one imagined difference of 0.
    Each draw weighs the differences; the mean of a random pair of them lies below, in or above the
    region of practical equivalence, and the largest of the three shares decides.

    Parameters
    ----------
    advantages : list of float
        Differences of the two methods, one per data set; positive favours the first.
    rope : float
        Differences up to this size do not matter.
    draws : int
        Number of draws.
    seed : int
        Seed of the draws.

    Returns
    -------
    tuple of float
        Probabilities of worse, equal and better.

    Examples
    --------
    >>> from schirn.lab.bench.stats import bayesian_signed_rank
    >>> [round(p, 1) for p in bayesian_signed_rank([0.05, 0.04, 0.06, 0.03, 0.05, 0.02])]
    [0.0, 0.0, 1.0]
    """
    differences = np.append(0.0, np.asarray(advantages, dtype=float))
    pairs = (differences[:, None] + differences) / 2
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(differences)), size=draws)
    shares = [
        np.sum((weights @ region) * weights, axis=1)
        for region in (pairs < -rope, np.abs(pairs) <= rope, pairs > rope)
    ]
    worse, equal, better = np.bincount(np.argmax(shares, axis=0), minlength=3) / draws
    return float(worse), float(equal), float(better)


def holm(pvalues: Sequence[float]) -> list[float]:
    """Adjust the p-values of a family of tests by Holm's correction; NaN stays and does not count.

    Parameters
    ----------
    pvalues : list of float
        P-values of one family.

    Returns
    -------
    list of float
        Adjusted p-values, in the same order.

    Examples
    --------
    >>> from schirn.lab.bench.stats import holm
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
    rows: Iterable[Result],
    metric: str,
    *,
    alpha: float = 0.05,
) -> Friedman:
    """Run Friedman's test of all methods over data sets, with Nemenyi's test of all pairs.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    metric : str
        Metric to compare.
    alpha : float
        Significance level of the critical difference.

    Returns
    -------
    Friedman
        Statistic, p-value, mean ranks and critical difference; its property `nemenyi` has the
        p-values of all pairs.

    Examples
    --------
    >>> from schirn.lab.bench.stats import friedman
    >>> results = [
    ...     {"dataset": d, "method": m, "fold": 0, "metrics": {"average_precision": v + d / 100}}
    ...     for m, v in [("Schirn", 0.5), ("NLR", 0.4), ("PMLNI", 0.3)] for d in range(6)
    ... ]
    >>> result = friedman(results, "average_precision")
    >>> result.ranks, round(result.pvalue, 4), round(result.critical_difference, 2)
    ({'Schirn': 1.0, 'NLR': 2.0, 'PMLNI': 3.0}, 0.0025, 1.35)
    """
    means = blocks(rows, metric)
    sign = -1 if metric_info(metric).greater_is_better else 1
    n, k = means.values.shape
    values = np.round(means.values, _DIGITS)
    ranked = stats.rankdata(sign * values, axis=1) if n and k else np.empty((0, k))
    mean_ranks = ranked.mean(axis=0) if n else np.full(k, math.nan)
    note = _why_no_test(n, k)
    result = Significance(math.nan, math.nan) if note else _friedman(values)
    width = math.sqrt(k * (k + 1) / (6 * n)) if n else math.nan
    quantile = math.nan
    if not note:
        quantile = float(stats.studentized_range.ppf(1 - alpha, k, np.inf)) / math.sqrt(2)
    return Friedman(
        *result,
        dict(zip(means.contenders, mean_ranks.tolist(), strict=True)),
        quantile * width,
        alpha,
        means,
        note,
        2 if note else math.ceil(quantile**2 * k * (k + 1) / (6 * (k - 1) ** 2)),
    )


def gap_closed(
    rows: Iterable[Result], metric: str = "average_precision"
) -> dict[str, dict[Setting, float]]:
    """Return the share of the gap between candidates and true labels that each method closes.

    (method - CandidateRidge) / (OracleRidge - CandidateRidge) per setting, from means over folds: 0
    is no better than treating all candidates as true, 1 is as good as the same ridge trained on the
    truth. NaN if one of the three has no result, if OracleRidge is less than 0.01 better than
    CandidateRidge, or if any method is more than 0.01 better than OracleRidge, which is then no
    upper bound: it has no intercept, and features without a constant column can need one.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    metric : str
        Metric to compare.

    Returns
    -------
    dict of str to dict of Setting to float
        Shares by label and setting.

    Examples
    --------
    >>> from schirn.lab.bench.stats import gap_closed
    >>> results = [
    ...     {"dataset": "d", "method": m, "fold": 0, "metrics": {"average_precision": v}}
    ...     for m, v in [("Schirn", 0.75), ("CandidateRidge", 0.5), ("OracleRidge", 1.0)]
    ... ]
    >>> list(gap_closed(results)["Schirn"].values())
    [0.5]
    """
    comparison = compare(rows, metric)
    sign = 1 if comparison.info.greater_is_better else -1
    floor = comparison.find(FLOOR)
    ceiling = comparison.find(CEILING)
    exceeded = settings_above_ceiling(comparison)
    shares: dict[str, dict[Setting, float]] = {}
    for c in comparison.contenders:
        if c.method in (FLOOR, CEILING):
            continue
        shares[c.label] = {}
        for s in comparison.settings:
            low, value, high = (sign * comparison.mean(s, method) for method in (floor, c, ceiling))
            is_wide = high - low >= SMALLEST_GAP and s not in exceeded
            shares[c.label][s] = (value - low) / (high - low) if is_wide else math.nan
    return shares


def pooled_gap_closed(
    rows: Iterable[Result], metric: str = "average_precision"
) -> dict[str, float]:
    """Return the share of the gap that each method closes, pooled over the settings.

    The gains of a method divided by the gains of OracleRidge, each summed over the settings with a
    value of `gap_closed`. A mean of these shares would be dominated by settings with a small gap.

    Parameters
    ----------
    rows : list of dict
        Results of a benchmark.
    metric : str
        Metric to compare.

    Returns
    -------
    dict of str to float
        NaN for a method without a setting.
    """
    rows = list(rows)
    comparison = compare(rows, metric)
    floor = comparison.find(FLOOR)
    ceiling = comparison.find(CEILING)
    pooled = {}
    for label, shares in gap_closed(rows, metric).items():
        gaps = {
            s: abs(comparison.mean(s, ceiling) - comparison.mean(s, floor))
            for s, share in shares.items()
            if not math.isnan(share)
        }
        gain = sum(shares[s] * gap for s, gap in gaps.items())
        pooled[label] = gain / sum(gaps.values()) if gaps else math.nan
    return pooled


def settings_above_ceiling(comparison: Comparison) -> list[Setting]:
    """Return the settings in which a method is more than 0.01 better than OracleRidge.

    Parameters
    ----------
    comparison : Comparison
        Values of one metric.

    Returns
    -------
    list of Setting
    """
    sign = 1 if comparison.info.greater_is_better else -1
    ceiling = comparison.find(CEILING)
    return [
        s
        for s in comparison.settings
        if any(
            sign * (comparison.mean(s, c) - comparison.mean(s, ceiling)) > SMALLEST_GAP
            for c in comparison.rivals
        )
    ]


def _verdict(result: Significance, sign: int, alpha: float) -> str:
    if math.isnan(result.pvalue):
        return "missing"
    if result.pvalue >= alpha:
        return "tie"
    return "win" if sign * result.statistic > 0 else "loss"


def leading(result: Friedman, label: str) -> str:
    """Return a sentence about the best methods, or that the test cannot distinguish them.

    Parameters
    ----------
    result : Friedman
        Test over data sets.
    label : str
        Name of the metric in the sentence.

    Returns
    -------
    str
        Empty if fewer than two methods have ranks.
    """
    ranks = {name: rank for name, rank in result.ranks.items() if not math.isnan(rank)}
    if len(ranks) < 2:
        return ""
    n = len(result.blocks.names)
    p = result.pvalue
    if result.note or not p < result.alpha:
        why = (
            f"Friedman's chi-square test over {n} data sets, p = {p:.2g}"
            if not result.note
            else ("one data set allows no test" if n == 1 else "no test over data sets is possible")
        )
        return f"No method can be called better than the others in {label} ({why})."
    order = sorted(ranks, key=ranks.__getitem__)
    level = [x for x in order if ranks[x] - ranks[order[0]] <= result.critical_difference]
    rank = f"mean rank {ranks[order[0]]:.2f} of {len(ranks)} over {n} data sets, p = {p:.2g}"
    if len(level) == 1:
        return f"{order[0]} ranks best in {label} ({rank}), significantly ahead of all others."
    return (
        f"{order[0]} has the best rank in {label} ({rank}), but is not significantly ahead of "
        f"{', '.join(level[1:])} (Nemenyi)."
    )


def few_blocks(result: Friedman) -> str:
    """Return a warning about a test over few data sets, or an empty string.

    Parameters
    ----------
    result : Friedman
        Test over data sets.

    Returns
    -------
    str
    """
    n = len(result.blocks.names)
    k = len(result.ranks)
    if result.note:
        return ""
    if n < result.needed:
        return (
            f"Too few data sets for a critical-difference diagram: {k} methods need at least "
            f"{result.needed}, there are {n}. The critical difference is "
            f"{result.critical_difference:.2f}, but mean ranks differ by at most {k - 1}."
        )
    if n < _ENOUGH:
        return f"Only {n} data sets: with fewer than {_ENOUGH}, Friedman's test is approximate."
    return ""


def _wilcoxon(advantage: Array) -> Significance:
    if advantage.size < 2:
        return Significance(math.nan, math.nan)
    if not np.round(advantage, _DIGITS).any():
        return Significance(0.0, 1.0)
    result = stats.wilcoxon(np.round(advantage, _DIGITS))
    return Significance(float(result.statistic), float(result.pvalue))


def _why_no_test(n: int, k: int) -> str:
    if k < 3:
        return f"Friedman's test needs three methods with results; there are {k}."
    if n < 2:
        return f"Friedman's test needs two data sets with results of all methods; there is {n}."
    return ""


def _friedman(values: Array) -> Significance:
    # If all methods tie everywhere, the formula is 0/0; there is no difference.
    if (values == values[:, :1]).all():
        return Significance(0.0, 1.0)
    result = stats.friedmanchisquare(*values.T)
    return Significance(float(result.statistic), float(result.pvalue))

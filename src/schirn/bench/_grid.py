"""Benchmark rows grouped into cells: one setting, one contender, one value per fold."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from schirn.exceptions import InputError
from schirn.methods import methods
from schirn.metrics import METRICS

Row = Mapping[str, Any]
Fold = tuple[Any, Any]

FLOOR, CEILING = "CandidateRidge", "OracleRidge"
ORACLE_MARK = "†"
PAPER_NOISE = ("legacy", "exact")
HOUSE_METHODS = ("Sieve", "Schirn")


class Measure(NamedTuple):
    """How a value of a row is called and read."""

    label: str
    greater_is_better: bool
    in_percent: bool = True


MEASURES: dict[str, Measure] = {
    name: Measure(metric.label, metric.greater_is_better) for name, metric in METRICS.items()
} | {
    "noise_auc": Measure("noise AUC ↑", True),
    "noise_precision": Measure("noise precision ↑", True),
    "noise_recall": Measure("noise recall ↑", True),
}
COSTS: dict[str, Measure] = {
    "tune_seconds": Measure("tuning seconds ↓", False, False),
    "fit_seconds": Measure("fit seconds ↓", False, False),
    "fit_cpu_seconds": Measure("fit CPU seconds ↓", False, False),
    "predict_seconds": Measure("predict seconds ↓", False, False),
    "peak_memory_mb": Measure("peak MB ↓", False, False),
}


class Setting(NamedTuple):
    """A data set at a noise level; r is None for sets that come with their own noise.

    `noise` names the kind of noise where the rows have several, or one that papers do not use.
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


class Contender(NamedTuple):
    """A method with the way it was tuned and the features it saw.

    `oracle`: its parameters were chosen on true labels. `ceiling`: it was trained on true
    labels, so that it is a bound and no contender.
    """

    method: str
    tuning: str
    features: str
    label: str
    oracle: bool = False
    ceiling: bool = False


@dataclass(frozen=True)
class Grid:
    """The values of one measure.

    `values` holds, for each setting and contender with a result, the value of every fold;
    `missing` says why there is none, and `partial` why some folds have none.
    """

    metric: str
    measure: Measure
    settings: tuple[Setting, ...]
    contenders: tuple[Contender, ...]
    values: dict[tuple[Setting, Contender], dict[Fold, float]]
    missing: dict[tuple[Setting, Contender], str]
    partial: dict[tuple[Setting, Contender], str]

    def mean(self, setting: Setting, contender: Contender) -> float:
        """Mean over folds, NaN without a result."""
        folds = self.values.get((setting, contender))
        return math.nan if folds is None else float(np.mean(list(folds.values())))

    def std(self, setting: Setting, contender: Contender) -> float:
        """Standard deviation over folds with n - 1 below, NaN for fewer than two folds."""
        folds = self.values.get((setting, contender), {})
        return math.nan if len(folds) < 2 else float(np.std(list(folds.values()), ddof=1))

    def paired(self, setting: Setting, a: Contender, b: Contender) -> tuple[list[float], ...]:
        """Values of two contenders on the folds both have, in the same order."""
        left, right = self.values.get((setting, a), {}), self.values.get((setting, b), {})
        common = [fold for fold in left if fold in right]
        return [left[fold] for fold in common], [right[fold] for fold in common]

    def find(self, name: str) -> Contender:
        """The contender of that label or method; of several, the one tuned on candidates."""
        found = [c for c in self.contenders if c.label == name] or sorted(
            (c for c in self.contenders if c.method == name), key=lambda c: (c.oracle, c.tuning)
        )
        if not found:
            known = ", ".join(c.label for c in self.contenders)
            raise InputError(f"No rows of a method {name!r}; the rows have: {known}.")
        return found[0]

    @property
    def rivals(self) -> tuple[Contender, ...]:
        """All contenders but those trained on the truth."""
        return tuple(c for c in self.contenders if not c.ceiling)

    @property
    def n_folds(self) -> int:
        """Number of different folds in one repetition."""
        return len({fold for folds in self.values.values() for _, fold in folds})


def measure_of(metric: str) -> Measure:
    """What is known about a measure, or an error with the names there are."""
    known = MEASURES | COSTS
    if metric not in known:
        raise InputError(f"Unknown metric {metric!r}; one of: {', '.join(known)}.")
    return known[metric]


def grid(rows: Iterable[Row], metric: str) -> Grid:
    """Group rows into cells of one measure."""
    measure, rows = measure_of(metric), list(rows)
    if not rows:
        raise InputError("There are no benchmark rows; run a benchmark first.")
    contenders = _contenders(rows)
    kinds = _named_kinds(rows)
    settings = _settings(rows, kinds)
    by_key = {c[:3]: c for c in contenders}
    values: dict[tuple[Setting, Contender], dict[Fold, float]] = {}
    reasons: dict[tuple[Setting, Contender], dict[Fold, str]] = {}
    for row in rows:
        cell = setting_of(row, kinds), by_key[key_of(row)]
        fold, value = (row.get("seed"), row.get("fold")), value_of(row, metric)
        if value is None:
            reasons.setdefault(cell, {})[fold] = _reason(row)
        else:
            _put(values.setdefault(cell, {}), fold, value, cell)
    missing, partial = {}, {}
    for cell in ((s, c) for s in settings for c in contenders):
        done = values.get(cell, {})
        failed = [why for fold, why in reasons.get(cell, {}).items() if fold not in done]
        why = "; ".join(dict.fromkeys(failed))
        if not done:
            missing[cell] = why or "not run"
        elif failed:
            partial[cell] = f"{len(done)} of {len(done) + len(failed)} folds ({why})"
    return Grid(metric, measure, settings, contenders, values, missing, partial)


def value_of(row: Row, metric: str) -> float | None:
    """The finite value of a measure in a row, if it has one."""
    source = row if metric in COSTS else (row.get("metrics") or {})
    value = source.get(metric)
    return float(value) if value is not None and math.isfinite(value) else None


def setting_of(row: Row, kinds: bool = False) -> Setting:
    """The data set and noise level of a row, with the kind of noise if wanted."""
    r = row.get("r")
    noise = str(row.get("noise") or "") if kinds and r is not None else ""
    return Setting(str(row["dataset"]), r, noise)


def default_reference(rows: Sequence[Row]) -> str | None:
    """The method others are compared with when nobody says: ours, or the paper's."""
    names = {row["method"] for row in rows}
    return next((name for name in HOUSE_METHODS if name in names), None)


def check_groups(rows: Sequence[Row]) -> None:
    """Refuse rows without the fields every output needs."""
    for number, row in enumerate(rows):
        for field in ("dataset", "method"):
            if field not in row:
                raise InputError(f"Benchmark row {number} has no {field!r}; rows need one.")


def _put(folds: dict[Fold, float], fold: Fold, value: float, cell: tuple[Any, Any]) -> None:
    if folds.get(fold, value) != value:
        raise InputError(
            f"Two results for {cell[1].label} on {cell[0].label}, seed {fold[0]}, fold {fold[1]}: "
            f"{folds[fold]:g} and {value:g}; keep the rows of one run only."
        )
    folds[fold] = value


def key_of(row: Row) -> tuple[str, str, str]:
    """What tells contenders apart: method, tuning, features."""
    return str(row["method"]), str(row.get("tuning", "none")), str(row.get("features") or "")


def _oracle(row: Row) -> bool:
    """Whether the parameters of a row were chosen on true labels."""
    flag = row.get("oracle")
    return row.get("tuning") == "oracle" if flag is None else bool(flag)


def _reason(row: Row) -> str:
    """Why a row has no value."""
    status, said = str(row.get("status", "failed")), row.get("reason")
    if status == "done":
        return "not defined in this run"
    return f"{status}: {str(said).rstrip('.')}" if said else status


def _named_kinds(rows: Sequence[Row]) -> bool:
    """Whether the kind of noise has to be said."""
    kinds = {row.get("noise") for row in rows if row.get("r") is not None}
    return len(kinds) > 1 or not kinds <= {None, *PAPER_NOISE}


def _settings(rows: Sequence[Row], kinds: bool) -> tuple[Setting, ...]:
    """Data sets in the order of the rows, noise levels rising."""
    found = dict.fromkeys(setting_of(row, kinds) for row in rows)
    datasets = list(dict.fromkeys(setting.dataset for setting in found))
    level = {s: (s.r is not None, s.r if isinstance(s.r, int | float) else 0) for s in found}
    return tuple(sorted(found, key=lambda s: (datasets.index(s.dataset), s.noise, level[s])))


def _contenders(rows: Sequence[Row]) -> tuple[Contender, ...]:
    """Contenders in the order of `schirn.methods()`, others before the baselines."""
    check_groups(rows)
    keys: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        keys.setdefault(key_of(row), []).append(row)
    order = list(methods())
    names = [name for name in order if name not in (FLOOR, CEILING)]
    names += [key[0] for key in keys if key[0] not in order] + [FLOOR, CEILING]
    found = []
    for key, own in keys.items():
        oracle = any(_oracle(row) for row in own)
        ceiling = key[0] == CEILING or any(row.get("sees_truth") for row in own)
        found.append(Contender(*key, _label(key, keys, oracle), oracle, ceiling))
    # A method without a grid is the same whatever the tuning, but was run under two names of it.
    labels = Counter(c.label for c in found)
    found = [
        c._replace(label=f"{c.label} ({c.tuning})") if labels[c.label] > 1 else c for c in found
    ]
    return tuple(
        sorted(found, key=lambda c: (c.ceiling, names.index(c.method), c.features, c.oracle))
    )


def _label(key: tuple[str, str, str], keys: Iterable[tuple[str, str, str]], oracle: bool) -> str:
    """Method with the oracle mark, and with what else is needed to tell it from the others."""
    method, tuning, features = key
    text = method + (ORACLE_MARK if oracle else "")
    rest = {k[1] for k in keys if k[0] == method} - {"oracle"}
    if tuning == "none" and len(rest) > 1:
        text += " (untuned)"
    return f"{text} [{features}]" if len({k[2] for k in keys}) > 1 and features else text

"""What every study of a reproduction returns, and the numbers the paper prints for it."""

import csv
import statistics
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from schirn.bench._render import Cell, Table

Row = dict[str, Any]


class Study(NamedTuple):
    """Flat rows and a table of them."""

    name: str
    rows: list[Row]
    table: Table


class Printed(NamedTuple):
    """A printed number as it stands in the paper: percent, or a rank."""

    value: float
    std: float | None


@cache
def _printed_values() -> dict[tuple[str, ...], Printed]:
    text = (
        files("schirn.reproduction").joinpath("published_studies.csv").read_text(encoding="utf-8")
    )
    names = ("study", "dataset", "r", "variant", "metric")
    return {
        tuple(line[name] for name in names): Printed(
            float(line["value"]), float(line["std"]) if line["std"] else None
        )
        for line in csv.DictReader(text.splitlines())
    }


def printed(study: str, dataset: str, r: Any, variant: str, metric: str) -> Printed | None:
    """The printed number of a study, or None where the paper has none.

    >>> printed("ablation", "birds", 3, "Schirn", "average_precision")
    Printed(value=61.8, std=0.6)
    """
    level = "" if r is None else str(r)
    return _printed_values().get((study, dataset, level, variant, metric))


def show(value: Any, digits: int = 1) -> Cell:
    """A cell of a number, a word or nothing."""
    if value is None:
        return Cell("–")
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if isinstance(value, float):
        return Cell(f"{value:.{digits}f}", value)
    return Cell(str(value), float(value) if isinstance(value, int) else None)


def spread(values: Iterable[float]) -> str:
    """Mean ± standard deviation in percent."""
    shares = [100 * value for value in values]
    if not shares:
        return "–"
    mean = f"{statistics.fmean(shares):.1f}"
    return f"{mean} ± {statistics.stdev(shares):.1f}" if len(shares) > 1 else mean


def distances(study: str, rows: Iterable[Row], names: Mapping[str, tuple[str, Any]]) -> list[Row]:
    """One flat record per variant and measure: ours, the printed value and the distance.

    `names` gives the name and the noise level under which the paper prints a data set.
    """
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        for metric, value in (row.get("metrics") or {}).items():
            if value is not None:
                key = (str(row["dataset"]), str(row["method"]), metric)
                found.setdefault(key, []).append(100 * value)
    records = []
    for (dataset, variant, metric), values in found.items():
        name, level = names.get(dataset, (dataset, None))
        paper = printed(study, name, level, variant, metric)
        ours = statistics.fmean(values)
        records.append(
            {
                "dataset": dataset,
                "r": level,
                "variant": variant,
                "metric": metric,
                "ours": ours,
                "std": statistics.stdev(values) if len(values) > 1 else None,
                "published": paper.value if paper else None,
                "published_std": paper.std if paper else None,
                "distance": ours - paper.value if paper else None,
            }
        )
    return records

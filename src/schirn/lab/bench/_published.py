"""Numbers printed in the Schirn paper, for comparison with ours.

The five tables of the paper cover ten methods on eleven data sets at several noise levels, with
mean and standard deviation over five folds. The paper does not state on which labels the parameters
were chosen.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple


class Published(NamedTuple):
    """A printed value, as a fraction like our metrics."""

    mean: float
    std: float


def published(dataset: str, r: Any, method: str, metric: str) -> Published | None:
    """Return the printed value of a method in a setting, or None if the paper has none.

    Parameters
    ----------
    dataset : str
        Name of the data set, as in `schirn.datasets`.
    r : int, float or None
        Noise level; None for data sets with their own candidates.
    method : str
        Name as in `schirn.methods()`.
    metric : str
        Name as in `schirn.metrics.METRICS`.

    Examples
    --------
    >>> from schirn.lab.bench._published import published
    >>> published("scene", 1, "Schirn", "average_precision")
    Published(mean=0.862, std=0.006)
    >>> published("scene", 9, "Schirn", "average_precision") is None
    True
    """
    level = "" if r is None else f"{r:g}"
    return published_values().get((metric, dataset.lower(), level, method))


@cache
def published_values() -> dict[tuple[str, str, str, str], Published]:
    """Return all printed values by metric, data set, noise level (as text) and method."""
    text = files("schirn.lab.bench").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (line["metric"], line["dataset"], line["r"], line["method"]): Published(
            # Round, because dividing by 100 adds digits that were never printed.
            round(float(line["mean_percent"]) / 100, 6),
            round(float(line["std_percent"]) / 100, 6),
        )
        for line in csv.DictReader(text.splitlines())
    }


@cache
def published_counts() -> dict[tuple[str, str], str]:
    """Return Schirn's printed win/tie/loss counts by metric and method, and their "total"."""
    text = files("schirn.lab.bench").joinpath("published_counts.csv").read_text(encoding="utf-8")
    lines = csv.DictReader(text.splitlines())
    return {(line["metric"], line["method"]): line["counts"] for line in lines}
